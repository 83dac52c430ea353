"""Varnish's counters read where it keeps them: only while they are what varnishstat tells, and that program
is asked wherever they are not."""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from svload.watch.monitors.varnish import VarnishMonitor
from svload.watch.varnish_memory import UNEXPECTED, VarnishMemory, agrees, parse_description, parse_index

FIELDS = ("MAIN.threads", "MAIN.sess_dropped", "SMA.*.g_bytes")
HEAD = struct.Struct("@iQQ")


class Varnishd:
    """The folder of one: its manager's index and its child's, MAIN and a storage described and counted."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.child = home / "_.vsm_child"
        (home / "_.vsm_mgt").mkdir(parents=True)
        self.child.mkdir()
        self.pid = os.getpid()
        self.index(home / "_.vsm_mgt", [])
        self.begin()

    def begin(self, threads: int = 7, dropped: int = 3, stored: int = 4096) -> None:
        """A child with these counters, the storage's behind MAIN's in one file and on a page of its own."""
        described = [
            (1, ["uptime", "threads", "sess_dropped"]),
            (2, ["c_fail", "g_bytes"]),
        ]
        lines = []
        for key, names in described:
            elements = {
                name: {"name": name, "ctype": "uint64_t", "index": 8 * at} for at, name in enumerate(names)
            }
            text = json.dumps({"version": "1", "elem": elements}).encode() + b"\0"
            lines.append(
                self.segment(f"_.StatDoc.{key}", 0, "StatDoc", str(key), HEAD.pack(1, 24, key) + text)
            )
        main = HEAD.pack(1, 24, 1) + struct.pack("@3Q", 60, threads, dropped)
        storage = HEAD.pack(1, 24, 2) + struct.pack("@2Q", 0, stored)
        at = mmap.PAGESIZE + 32
        lines.append(self.segment("_.Stat.1", at, "Stat", "SMA.default", storage))
        lines.append(self.segment("_.Stat.1", 0, "Stat", "MAIN", main))
        lines.append("+ _.Stat.1 0 65536")  # the file that holds both
        self.index(self.child, lines)

    def segment(self, file: str, offset: int, kind: str, ident: str, data: bytes) -> str:
        path = self.child / file
        held = bytearray(path.read_bytes() if path.exists() else b"")
        held.extend(bytes(max(0, (1 << 16) - len(held))))
        held[offset : offset + len(data)] = data
        path.write_bytes(held)
        return f"+ {file} {offset} {len(data)} {kind} {ident}"

    def index(self, folder: Path, lines: list[str]) -> None:
        made = folder / "new"
        made.write_text("\n".join([f"# {self.pid} 1700000000", *lines, ""]))
        made.replace(folder / "_.index")

    def counts(self, threads: int) -> None:
        """Its child goes on counting."""
        with (self.child / "_.Stat.1").open("r+b") as file:
            file.seek(24 + 8)
            file.write(struct.pack("@Q", threads))


@pytest.fixture
def varnishd(tmp_path: Path) -> Varnishd:
    return Varnishd(tmp_path / "home")


def test_counters_are_read_as_they_stand_and_a_new_child_is_noticed(varnishd: Varnishd) -> None:
    memory = VarnishMemory(str(varnishd.home), FIELDS)
    assert memory.read() == {"MAIN.threads": 7, "MAIN.sess_dropped": 3, "SMA.default.g_bytes": 4096}
    varnishd.counts(threads=2**63 + 5)
    assert memory.read()["MAIN.threads"] == 2**63 + 5
    for path in varnishd.child.iterdir():
        path.unlink()
    varnishd.begin(threads=1, dropped=0, stored=8)
    assert memory.read() == {"MAIN.threads": 1, "MAIN.sess_dropped": 0, "SMA.default.g_bytes": 8}
    memory.close()
    assert memory.read()["SMA.default.g_bytes"] == 8
    memory.close()


def no_manager(varnishd: Varnishd) -> None:
    varnishd.pid = 2**22 + 1
    varnishd.index(varnishd.home / "_.vsm_mgt", [])


def no_child(varnishd: Varnishd) -> None:
    (varnishd.child / "_.index").unlink()


def not_ready(varnishd: Varnishd) -> None:
    data = HEAD.pack(0, 24, 1) + bytes(24)
    varnishd.index(varnishd.child, [varnishd.segment("_.Stat.1", 0, "Stat", "MAIN", data)])


def undescribed(varnishd: Varnishd) -> None:
    data = HEAD.pack(1, 24, 99) + bytes(24)
    varnishd.index(varnishd.child, [varnishd.segment("_.Stat.1", 0, "Stat", "MAIN", data)])


def outside(varnishd: Varnishd) -> None:
    text = json.dumps({"elem": {"x": {"name": "threads", "ctype": "uint64_t", "index": 4096}}}).encode()
    varnishd.index(
        varnishd.child,
        [
            varnishd.segment("_.StatDoc.1", 0, "StatDoc", "1", HEAD.pack(1, 24, 1) + text + b"\0"),
            varnishd.segment("_.Stat.1", 0, "Stat", "MAIN", HEAD.pack(1, 24, 1) + bytes(24)),
        ],
    )


def cut_short(varnishd: Varnishd) -> None:
    (varnishd.child / "_.Stat.1").write_bytes(b"x")


def other_words(varnishd: Varnishd) -> None:
    varnishd.index(varnishd.child, ["+ nothing like it"])


@pytest.mark.parametrize(
    "harm", [no_manager, no_child, not_ready, undescribed, outside, cut_short, other_words]
)
def test_what_is_not_as_expected_is_refused(varnishd: Varnishd, harm: Callable[[Varnishd], None]) -> None:
    harm(varnishd)
    memory = VarnishMemory(str(varnishd.home), FIELDS)
    with pytest.raises(UNEXPECTED):
        memory.read()
    memory.close()


def test_a_manager_that_ends_later_is_noticed(varnishd: Varnishd) -> None:
    memory = VarnishMemory(str(varnishd.home), FIELDS)
    memory.read()
    no_manager(varnishd)
    with pytest.raises(ProcessLookupError):
        memory.read()
    memory.close()


def test_an_index_tells_what_is_there_still() -> None:
    pid, segments = parse_index(
        "# 12 99\n+ a 0 32 Stat MAIN\n+ b 8 64 Stat VBE.one\n- a 0 32 Stat MAIN\n+ c 0 9\n"
    )
    assert pid == 12
    assert [one.ident for one in segments] == ["VBE.one"]
    for text in ("", "+ a 0 32 Stat MAIN\n", "# 12\n"):
        with pytest.raises(ValueError, match="no index"):
            parse_index(text)


def test_a_description_tells_where_a_counter_stands() -> None:
    text = b'{"elem": {"a": {"name": "a", "ctype": "uint64_t", "index": 16}, "b": {"name": "b", "ctype": "bitmap", "index": 0}}}\0rest'
    assert parse_description(text) == [("a", 16)]
    with pytest.raises(UNEXPECTED):
        parse_description(b"[]")


@pytest.mark.parametrize(
    ("told", "holds"),
    [
        ({"MAIN.sess_dropped": 4, "MAIN.threads": 99}, True),
        ({"MAIN.sess_dropped": 2, "MAIN.threads": 7}, False),
        ({"MAIN.sess_dropped": 6, "MAIN.threads": 7}, False),
        ({"MAIN.sess_dropped": 4}, False),
        ({"MAIN.sess_dropped": 4, "MAIN.threads": 7, "SMA.s0.g_bytes": 1}, False),
    ],
)
def test_what_only_grows_lies_between_two_looks(told: dict[str, float], holds: bool) -> None:
    before, after = {"MAIN.sess_dropped": 3, "MAIN.threads": 7}, {"MAIN.sess_dropped": 5, "MAIN.threads": 7}
    assert agrees(before, told, after, ("MAIN.sess_dropped", "MAIN.never")) is holds


def monitor_of(varnishd: Varnishd, tmp_path: Path, said: dict[str, int]) -> tuple[VarnishMonitor, Path]:
    """One whose varnishstat says this, and the file that has a line for each time that it was asked."""
    calls, program = tmp_path / "calls", tmp_path / "varnishstat"
    counters = {name: {"flag": "c", "value": value} for name, value in said.items()}
    program.write_text(f"#!/bin/sh\necho >> {calls}\ncat <<'X'\n{json.dumps({'counters': counters})}\nX\n")
    program.chmod(0o755)
    facts = {"admin": {"varnish": {"dir": str(varnishd.home), "varnishstat": str(program)}}}
    return VarnishMonitor("cache", facts), calls


SAID = {
    "MAIN.uptime": 60,
    "MAIN.threads": 7,
    "MAIN.sess_dropped": 3,
    "SMA.default.c_fail": 0,
    "SMA.default.g_bytes": 4096,
}


def told(monitor: VarnishMonitor) -> dict[tuple[str, str], float]:
    return {(one.entity, one.metric): one.value for one in monitor.sample()}


def test_the_program_is_asked_once_where_it_says_what_stands_there(
    varnishd: Varnishd, tmp_path: Path
) -> None:
    monitor, calls = monitor_of(varnishd, tmp_path, SAID)
    by_program = told(monitor)
    assert told(monitor) == by_program
    assert by_program["", "threads"] == 7
    assert by_program["default", "storage_used_bytes"] == 4096
    varnishd.counts(threads=8)
    assert told(monitor)["", "threads"] == 8
    assert len(calls.read_text()) == 1
    no_manager(varnishd)
    assert told(monitor)["", "threads"] == 7, "a varnishd that is gone is the program's to tell"
    assert len(calls.read_text()) == 2
    monitor.close()


@pytest.mark.parametrize("otherwise", [{"MAIN.sess_dropped": 4}, {"MAIN.cache_hit": 1}])
def test_the_program_is_asked_each_time_where_it_says_otherwise(
    varnishd: Varnishd, tmp_path: Path, otherwise: dict[str, int]
) -> None:
    monitor, calls = monitor_of(varnishd, tmp_path, SAID | otherwise)
    for _ in range(3):
        read = told(monitor)
    assert read["", "sess_dropped_total"] == (SAID | otherwise)["MAIN.sess_dropped"]
    assert len(calls.read_text()) == 3
    monitor.close()

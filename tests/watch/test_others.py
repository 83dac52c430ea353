"""CPU of processes that don't belong to the measurement is counted once, even if some end meanwhile."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bounds import HANG_S

from svload.host.machine.linux import TICKS_PER_S, ProcessStat
from svload.watch import proc
from svload.watch.monitors.others import OthersMonitor, command_of, user_of

Look = dict[int, tuple[int, float]] | dict[int, tuple[int, float, int]]


def one(pid: int, parent: int, seconds: float = 0.0, start: int = 0) -> ProcessStat:
    return ProcessStat(pid, "S", parent, 0, 0, seconds, 1, start, 0, "x")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({1: (0, 5.0), 7: (1, 2.0)}, {1: (0, 5.0), 7: (1, 2.5), 9: (7, 0.25)}, {7: 0.5, 9: 0.25}),
        ({7: (1, 9.0, 1)}, {7: (1, 0.5, 2)}, {7: 0.5}),
        ({1: (0, 0.0), 7: (1, 9.0, 1)}, {1: (0, 9.25), 7: (1, 0.5, 2)}, {1: 0.25, 7: 0.5}),
        ({7: (1, 1.0), 8: (7, 3.0)}, {7: (1, 4.4)}, {7: 0.4}),
        ({1: (0, 10.0), 7: (1, 1.0), 8: (7, 3.0)}, {1: (0, 14.5)}, {1: 0.5}),
        ({7: (1, 1.0), 8: (7, 3.0)}, {7: (1, 1.0)}, {}),
    ],
)  # growth, and all of a new process; a reused pid (its parent has its past); ended ones, by survivors
def test_cpu_between_two_looks(before: Look, after: Look, told: dict[int, float]) -> None:
    """A look: pid → parent, seconds of CPU, start."""
    tables = ({pid: one(pid, *of) for pid, of in look.items()} for look in (before, after))
    used = {found.pid: pytest.approx(found.seconds) for found in proc.used_between(*tables)}
    assert used == told


def machine(root: Path, *processes: tuple[int, str, int, int, list[str]]) -> None:
    """Write a folder like /proc: pid, name, parent, ticks of CPU, command line."""
    for pid, name, parent, ticks, words in processes:
        (root / str(pid)).mkdir(exist_ok=True)
        fields = ["S", parent, *[0] * 9, ticks, *[0] * 5, 1, 0, 77, *[0] * 30]
        (root / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        (root / str(pid) / "cmdline").write_text("\0".join([*words, ""]) if words else "")


def watching(root: Path, monkeypatch: pytest.MonkeyPatch) -> OthersMonitor:
    """Return a monitor of a machine that a test writes; process 10 is our own."""
    monkeypatch.setattr(OthersMonitor, "root", str(root))
    monkeypatch.setattr(OthersMonitor, "table", proc.ProcessTable(str(root)))
    (root / "self").mkdir()
    return OthersMonitor("", {"own": [10]})


def test_who_it_is_stands_beside_what_it_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's threads and our own are left out; of a command's arguments only a file's name is kept."""
    monitor = watching(tmp_path, monkeypatch)
    words = ["/usr/bin/python3", "/srv/crunch.py", "--password=xyz"]
    machine(tmp_path, (2, "kthreadd", 0, 0, []))
    for ours, theirs in ((0, 0), (500, 20)):
        kernel, own = (9, "kworker/0:1", 2, ours, []), (10, "svload", 1, ours, [])
        machine(tmp_path, kernel, own, (11, "tmux: server", 1, theirs, words))
        found = [tuple(reading) for reading in monitor.sample()]
    user = pwd.getpwuid(os.getuid()).pw_name
    assert found == [
        ("", "cpu_seconds_total", 20 / TICKS_PER_S),
        ("", "concerned_seconds_total", 20 / TICKS_PER_S),
        ("tmux: server 11", "cpu_seconds", 20 / TICKS_PER_S),
        (f"tmux: server 11 {user} python3 crunch.py", "pid", 11),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["java", "-Dsecret=1", "-jar", "x.jar"], "java"),
        (["/bin/sh", "TOKEN=1"], "sh"),
        (["mysql", "", "-psecret"], "mysql"),
        (["sshd: root@pts/0 abc"], "sshd:"),
        ([], ""),
    ],
)
def test_a_command_shows_no_secret(tmp_path: Path, words: list[str], told: str) -> None:
    machine(tmp_path, (11, "x", 1, 0, words))
    assert command_of(11, str(tmp_path)) == told
    assert command_of(12, str(tmp_path)) == ""
    assert user_of(12, str(tmp_path)) == "?"


def tree(root: Path, *processes: tuple[int, int]) -> None:
    """Return processes as (pid, parent)."""
    machine(root, *((pid, "x", parent, 0, []) for pid, parent in processes))


def test_process_ownership_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """After a start, an adoption or an end; and nothing is computed while nothing changed."""
    tree(tmp_path, (1, 0), (7, 1), (8, 7), (9, 1))
    table = proc.ProcessTable(str(tmp_path), every_s=1000.0)
    first = table.families({7})
    assert first == {7, 8}
    table.renew()
    assert table.families({7}) is first
    tree(tmp_path, (10, 8), (9, 7))
    table.renew()
    assert table.families({7}) == {7, 8, 9, 10}
    shutil.rmtree(tmp_path / "10")
    table.renew()
    assert table.families({7}) == {7, 8, 9}
    assert table.families([8]) == {8}
    table.close()


def test_one_process_is_read_in_its_current_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read again after a pass, and left out once it has ended."""
    clock = {"s": 100.0}
    monkeypatch.setattr(proc.time, "monotonic", lambda: clock["s"])
    machine(tmp_path, (11, "x", 1, 5, []))
    table = proc.ProcessTable(str(tmp_path), every_s=1000.0)
    table.renew()
    machine(tmp_path, (11, "x", 1, 6, []))
    clock["s"] += proc.FRESH_S
    found = table.now(11)
    assert found.cpu_seconds == 6 / TICKS_PER_S
    assert table.now(12) is None
    table.close()


@pytest.mark.parametrize("counts", [True, False])
def test_new_processes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: bool) -> None:
    """A kernel that does not count is asked for all processes each time."""
    clock, lists = {"s": 100.0}, []
    real = os.listdir
    monkeypatch.setattr(proc.time, "monotonic", lambda: clock["s"])
    monkeypatch.setattr(os, "listdir", lambda path: lists.append(path) or real(path))

    def started(count: int) -> None:
        (tmp_path / "stat").write_text(f"cpu  1\nprocesses {count if counts else 0}\nprocs_running 1\n")

    def told() -> set[int]:
        clock["s"] += proc.KERNEL_EVERY_S / 10
        return set(table.renew())

    table = proc.ProcessTable(str(tmp_path))
    started(5)
    tree(tmp_path, (11, 1), (12, 1))
    assert told() == told() == {11, 12}
    assert len(lists) == (1 if counts else 2)
    started(6)
    tree(tmp_path, (13, 12))
    assert told() == {11, 12, 13}
    assert table.families({12}) == {12, 13}
    assert len(lists) == (2 if counts else 3)
    table.close()


class Clocked:
    """A table of a machine that a test writes, with its clock and its count of all CPU use."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(proc.time, "monotonic", lambda: self.now_s)
        self.root, self.table = root, proc.ProcessTable(str(root), keep=0)

    def ticks(self, busy: int, **of: int) -> None:
        """Set the processes `p11=5`, and what the machine counts beside what they used."""
        pids = {int(name[1:]): ticks for name, ticks in of.items()}
        machine(self.root, *((pid, "x", pid - 1, ticks, []) for pid, ticks in pids.items()))
        (self.root / "stat").write_text(f"cpu  {busy} 0 0 0\nprocesses 5\n")

    def lately(self, after_s: float = 0.2) -> dict[int, float]:
        self.now_s += after_s
        found = self.table.renew(lately=True)
        return {pid: round(one.cpu_seconds * TICKS_PER_S) for pid, one in found.items()}


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocked]:
    """Return a process, and a child of it that has been idle since the reading before."""
    made = Clocked(tmp_path, monkeypatch)
    made.ticks(10, p11=5, p12=5)
    made.lately()
    made.ticks(11, p11=6, p12=5)
    assert made.lately() == {11: 6, 12: 5}
    yield made
    made.table.close()


def test_who_rests_is_read_once_a_second_or_when_asked_for(clocked: Clocked) -> None:
    clocked.ticks(14, p11=7, p12=7)
    assert clocked.lately() == {11: 7, 12: 5}
    assert clocked.table.now(12).own_ticks == 7, "who is asked for alone is read"
    assert clocked.lately(proc.RESTING_EVERY_S) == {11: 7, 12: 7}
    clocked.ticks(16, p11=7, p12=9)
    clocked.now_s += 0.2
    assert clocked.table.renew()[12].own_ticks == 9, "everybody is asked for"


@pytest.mark.parametrize(("more", "found"), [(3, 5), (30, 35)])
def test_a_resting_process_is_read_when_needed(clocked: Clocked, more: int, found: int) -> None:
    clocked.ticks(12 + more, p11=7, p12=5 + more)
    assert clocked.lately()[12] == found


def test_a_child_that_ends_at_rest_counts_once(clocked: Clocked) -> None:
    """Its time is added to its parent's: what it had used before is subtracted."""
    before = clocked.table.all()
    clocked.ticks(12, p11=6)
    line = clocked.root / "11" / "stat"
    fields = line.read_text().split()
    line.write_text(" ".join([*fields[:15], "6", *fields[16:]]))
    shutil.rmtree(clocked.root / "12")
    clocked.now_s += 0.2
    after = clocked.table.renew(lately=True)
    assert after.keys() == {11}
    used = [(one.pid, round(one.seconds * TICKS_PER_S)) for one in proc.used_between(before, after)]
    assert used == [(11, 1)]


def test_descriptors_and_reads_are_those_of_the_process_that_has_the_pid_now() -> None:
    table = proc.ProcessTable()
    held = len(os.listdir("/proc/self/fd"))
    assert table.descriptors(os.getpid()) == pytest.approx(held, abs=2)
    with open(os.devnull):
        before = table.descriptors(os.getpid())
    assert table.descriptors(os.getpid()) == before - 1
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert table.descriptors(child.pid)
    assert None not in table.disk(child.pid)
    child.communicate(timeout=HANG_S)
    assert table.descriptors(child.pid) is None
    assert table.disk(child.pid) == (None, None)
    assert table.now(child.pid) is None
    table.close()


@pytest.mark.parametrize("keep", [0, 100])
def test_files_are_kept_and_let_go(keep: int) -> None:
    """A process that has ended is left out, and no descriptor stays open."""
    before = len(os.listdir("/proc/self/fd"))
    table = proc.ProcessTable(keep=keep)
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert child.pid in table.renew()
    assert len(os.listdir("/proc/self/fd")) <= before + 2 + keep, "the child's pipe, and the machine's file"
    child.stdin.close()
    child.wait(HANG_S)
    assert child.pid not in table.renew()
    table.close()
    assert len(os.listdir("/proc/self/fd")) <= before

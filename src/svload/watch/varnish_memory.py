"""Varnish's counters where it keeps them: files below its working folder, which varnishstat maps as this does.

Their layout is no public interface, though the same since Varnish 5.2. So who uses this compares it with
varnishstat's own answer first (`agrees`), and asks that program wherever anything here is not as expected.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

_HEAD = struct.Struct("@iQQ")  # struct vsc_head: ready, where its body begins, which description it has
_READY = 1
_MOST_BYTES = 1 << 22
_COUNTERS, _DESCRIPTIONS = "Stat", "StatDoc"
UNEXPECTED = (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error)


class _Segment(NamedTuple):
    """A line of an index: where in which file, of what class, and its name, which begins the counters' names."""

    file: str
    offset: int
    length: int
    kind: str
    ident: str


class _State(NamedTuple):
    """What tells that an index is another, or has grown."""

    device: int
    inode: int
    size: int
    changed_ns: int


class VarnishMemory:
    """The counters of one varnishd by their names as varnishstat tells them, of those that its `-f` would choose
    by `fields` (`MAIN.threads`, `SMA.*.g_bytes`).

    A child that begins anew, and segments that come or go, are noticed at the next look.
    """

    def __init__(self, folder: str, fields: Iterable[str]) -> None:
        self._child = os.path.join(folder, "_.vsm_child")
        self._indexes = os.path.join(folder, "_.vsm_mgt", "_.index"), os.path.join(self._child, "_.index")
        self._wanted = [field.rpartition(".") for field in fields]
        self._states: tuple[_State, ...] = ()
        self._pids: tuple[int, ...] = ()
        self._maps: list[mmap.mmap] = []
        self._counters: list[tuple[str, memoryview, int]] = []

    def read(self) -> dict[str, int]:
        """What stands there now. Raises OSError, ValueError, KeyError or TypeError where varnishd does not run, or keeps it otherwise."""
        states = tuple(_state(index) for index in self._indexes)
        if states != self._states:
            self._open()
            self._states = states
        for pid in self._pids:
            _runs(pid)
        return {name: words[at] for name, words, at in self._counters}

    def close(self) -> None:
        """Let go of the files; the next look opens them again."""
        self._states = ()
        for _, words, _ in self._counters:
            words.release()
        self._counters = []
        for one in self._maps:
            with contextlib.suppress(BufferError):  # what an error still shows of it
                one.close()
        self._maps = []

    def _open(self) -> None:
        self.close()
        told = []
        for index in self._indexes:
            with open(index, encoding="utf-8") as file:
                told.append(parse_index(file.read(_MOST_BYTES)))
        self._pids = tuple(pid for pid, _ in told)
        segments = told[-1][1]  # those of the child
        descriptions = {}
        for one in segments:
            if one.kind == _DESCRIPTIONS:
                memory, body, end, key = self._segment(one)
                descriptions[key] = memory[body:end]
        for one in segments:
            if one.kind == _COUNTERS and (names := self._names(one.ident)):
                self._add(one, names, descriptions)
        if not self._counters:
            raise ValueError("no counters there")

    def _names(self, ident: str) -> set[str]:
        return {name for pattern, _, name in self._wanted if fnmatchcase(ident, pattern)}

    def _add(self, one: _Segment, names: set[str], descriptions: Mapping[int, bytes]) -> None:
        memory, body, end, key = self._segment(one)
        words = memoryview(memory)[body : body + (end - body) // 8 * 8].cast("Q")
        for name, offset in parse_description(descriptions[key]):
            if name not in names:
                continue
            if offset % 8 or not 0 <= offset // 8 < len(words):
                raise ValueError(f"{one.ident}.{name} would stand outside its segment")
            self._counters.append((f"{one.ident}.{name}", words, offset // 8))

    def _segment(self, one: _Segment) -> tuple[mmap.mmap, int, int, int]:
        """(the memory that it stands in, where its body begins and ends there, the number of its description)."""
        begin = one.offset // mmap.PAGESIZE * mmap.PAGESIZE
        within = one.offset - begin
        with open(os.path.join(self._child, one.file), "rb") as file:
            memory = mmap.mmap(file.fileno(), within + one.length, access=mmap.ACCESS_READ, offset=begin)
        self._maps.append(memory)
        ready, body, key = _HEAD.unpack_from(memory, within)
        if ready != _READY or not _HEAD.size <= body < one.length:
            raise ValueError(f"{one.ident} is not ready")
        return memory, within + body, within + one.length, key


def parse_index(text: str) -> tuple[int, list[_Segment]]:
    """An index as (pid of who wrote it, segments that are there). Raises ValueError for anything else."""
    lines = text.splitlines()
    head = lines[0].split() if lines else []
    if len(head) != 3 or head[0] != "#":
        raise ValueError("this is no index")
    there: dict[_Segment, None] = {}
    for line in lines[1:]:
        sign, file, offset, length, *rest = line.split(" ")
        if len(rest) < 2:  # a file that holds several
            continue
        one = _Segment(os.path.basename(file), int(offset), int(length), rest[0], rest[1])
        if sign == "+":
            there[one] = None
        else:
            there.pop(one, None)
    return int(head[1]), list(there)


def parse_description(data: bytes) -> list[tuple[str, int]]:
    """(name, where it stands in the body) of each counter that a description tells. Raises one of `UNEXPECTED`."""
    elements = json.loads(data.partition(b"\0")[0])["elem"]
    return [(str(one["name"]), int(one["index"])) for one in elements.values() if one["ctype"] == "uint64_t"]


def agrees(
    before: Mapping[str, int], told: Mapping[str, float], after: Mapping[str, int], growing: Iterable[str]
) -> bool:
    """Whether `told`, asked for between two looks, has the same counters, and what only grows lies between theirs."""
    return before.keys() == told.keys() == after.keys() and all(
        before[name] <= told[name] <= after[name] for name in growing if name in told
    )


def _state(path: str) -> _State:
    found = os.stat(path)
    return _State(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _runs(pid: int) -> None:
    """Raises ProcessLookupError when it does not."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return

"""A Java virtual machine: heap, garbage collection and threads from the memory page that it shares with tools
(hsperfdata); out-of-memory errors from its log."""

from __future__ import annotations

import glob
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from svload.host.machine import linux
from svload.model.declared import Limit, Refusal
from svload.watch import proc
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors.process import ProcessMonitor, members_of

_MAGIC = b"\xca\xfe\xc0\xc0"
_HEAD = struct.Struct("<4sBBBBiiqii")
_ENTRY = struct.Struct("<iiiBBBBi")
_LONG, _BYTE = ord("J"), ord("B")
_MOST_BYTES = 1 << 20
_OUT_OF_MEMORY = b"java.lang.OutOfMemoryError"
_WHOLE_HEAP = ("GarbageFirst", "Z", "Shenandoah")
"""Policies under which every generation may grow to the whole heap."""


class JvmMonitor(Monitor):
    """admin["jvm"] = {"process": its name in the facts, "log": its log or empty}, of services that are a Java
    virtual machine according to their kit or command. It writes the page in any case: reading is free."""

    name = "jvm"
    summary = "heap, garbage collection, threads and lack of memory of a Java virtual machine"
    metrics: ClassVar[Mapping[str, str]] = {
        "heap_used_bytes": "heap in use, as of the last collection",
        "heap_limit_bytes": "largest heap that it may have (-Xmx)",
        "gc_total": "number of collections, concurrent ones' pauses included",
        "gc_seconds_total": "time in collections, all collectors together",
        "gc_pause_seconds": "the longest collection since the previous reading; where there were several, "
        "their mean or the last, whichever is longer",
        "threads": "number of live threads",
        "out_of_memory_total": "number of OutOfMemoryErrors in its log since svload began to watch it",
    }
    limits = (
        Limit("Java heap", "memory", "heap_used_bytes", "heap_limit_bytes", at=0.95, brief=True),
        Limit("time in garbage collection", "memory", "gc_seconds_total", 1.0, at=0.5, verdict=False),
    )
    refusals = (
        Refusal("out_of_memory_total", "times that the Java heap ran out of memory", "memory", kind="failed"),
    )
    table: ClassVar[proc.ProcessTable] = ProcessMonitor.table
    root: ClassVar[str] = "/proc"
    attaches = ("jvm", "process")
    example = {"jvm": {"process": "one", "log": ""}}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._process = str(facts["admin"]["jvm"]["process"])
        self._log = str(facts["admin"]["jvm"].get("log") or "")
        self._read_to = _size(self._log)
        self._out_of_memory = 0
        self._path = ""
        self._before: dict[str, tuple[float, float]] = {}

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if there is no such process, or it keeps no page (-XX:-UsePerfData)."""
        before = self._out_of_memory
        exhausted = Reading("", "out_of_memory_total", self._count_in_log())
        try:
            return [*self._readings(parse_page(self._page())), exhausted]
        except OSError:
            if self._out_of_memory > before:  # it may have ended by that
                return [exhausted]
            raise

    def _page(self) -> bytes:
        if not self._path or not os.path.exists(self._path):
            self._path = self._find()
        try:
            with open(self._path, "rb") as file:
                return file.read(_MOST_BYTES)
        except OSError:
            self._path = ""
            raise

    def _find(self) -> str:
        members = members_of(self.facts, self.table)
        for pid in sorted(members.get(self._process) or set().union(*members.values())):
            own = own_pid(pid, self.root)
            folder = os.path.join(self.root, str(pid), "root", "tmp")
            found = glob.glob(f"{folder}/hsperfdata_*/{own}")
            if found:
                return found[0]
        raise ProcessLookupError(f"no Java virtual machine of {self.service} keeps a page of its figures")

    def _readings(self, found: Mapping[str, float | str]) -> Iterator[Reading]:
        heap = heap_of(found)
        if heap is not None:
            yield Reading("", "heap_used_bytes", heap.used_bytes)
            yield Reading("", "heap_limit_bytes", heap.limit_bytes)
        gc = collections_of(found)
        yield Reading("", "gc_total", sum(one.times for one in gc.values()))
        yield Reading("", "gc_seconds_total", sum(one.seconds for one in gc.values()))
        yield Reading(
            "",
            "gc_pause_seconds",
            max((longest(one, self._before.get(name)) for name, one in gc.items()), default=0.0),
        )
        self._before = {name: (one.times, one.seconds) for name, one in gc.items()}
        if isinstance(threads := found.get("java.threads.live"), float):
            yield Reading("", "threads", threads)

    def _count_in_log(self) -> int:
        """Return how often the log has reported lack of memory so far; each part of it is read once."""
        size = _size(self._log)
        self._read_to = self._read_to if size >= self._read_to else 0  # it was emptied, or begun again
        if size > self._read_to:
            begin = max(self._read_to, size - _MOST_BYTES)
            with open(self._log, "rb") as file:
                file.seek(begin)
                text = file.read(size - begin)
            # A word that is being written is read whole the next time.
            whole = text[: text.rfind(b"\n") + 1]
            self._out_of_memory += whole.count(_OUT_OF_MEMORY)
            self._read_to = begin + len(whole) if whole else self._read_to
        return self._out_of_memory


class Heap(NamedTuple):
    """Bytes in use and allowed."""

    used_bytes: float
    limit_bytes: float


class Collector(NamedTuple):
    """One collector since the start: collections, seconds in them, seconds of the last."""

    times: float
    seconds: float
    last_s: float


def parse_page(page: bytes) -> dict[str, float | str]:
    """Return a page of hsperfdata, name → value. Raise OSError for anything else."""
    try:
        magic, order, _, _, _, _, _, _, at, count = _HEAD.unpack_from(page)
        if magic != _MAGIC or order != 1:
            raise OSError("this is not a page of a Java virtual machine's figures")
        found: dict[str, float | str] = {}
        for _ in range(count):
            length, name_at, vector, kind, _, _, _, data_at = _ENTRY.unpack_from(page, at)
            name_end = page.index(b"\0", at + name_at)
            name = page[at + name_at : name_end].decode("ascii", "replace")
            if kind == _LONG and not vector:
                found[name] = float(struct.unpack_from("<q", page, at + data_at)[0])
            elif kind == _BYTE and vector:
                text = page[at + data_at : at + data_at + vector].partition(b"\0")[0]
                found[name] = text.decode("utf-8", "replace")
            if length <= 0:
                break
            at += length
        return found
    except (struct.error, ValueError, IndexError) as why:
        raise OSError(f"this is not a page of a Java virtual machine's figures ({why})") from why


def heap_of(found: Mapping[str, float | str]) -> Heap | None:
    """Return the used space of the generations, and the size that they may grow to together."""
    used = [value for name, value in _numbers(found, "sun.gc.generation.") if name.endswith(".used")]
    most = [
        value
        for name, value in _numbers(found, "sun.gc.generation.")
        if name.endswith(".maxCapacity") and ".space." not in name
    ]
    if not used or not most:
        return None
    whole = str(found.get("sun.gc.policy.name", "")).startswith(_WHOLE_HEAP)
    return Heap(sum(used), max(most) if whole else sum(most))


def collections_of(found: Mapping[str, float | str]) -> dict[str, Collector]:
    """Return them by collector; times are counted in the machine's own ticks."""
    frequency = found.get("sun.os.hrt.frequency")
    ticks = frequency if isinstance(frequency, float) and frequency > 0 else 1e9
    gc: dict[str, Collector] = {}
    for name, count in _numbers(found, "sun.gc.collector."):
        if name.endswith(".invocations"):
            head = name.removesuffix(".invocations")
            took, began, ended = (
                float(found.get(f"{head}.{part}", 0.0)) for part in ("time", "lastEntryTime", "lastExitTime")
            )
            gc[head] = Collector(count, took / ticks, max(ended - began, 0.0) / ticks)
    return gc


def longest(now: Collector, before: tuple[float, float] | None) -> float:
    """Return the longest collection since the previous reading, as far as counts, sums and the last one show;
    0 at the first reading."""
    count, seconds = before or (now.times, now.seconds)
    ended = now.times - count
    if ended <= 0:
        return 0.0
    mean = max(now.seconds - seconds, 0.0) / ended
    return mean if ended == 1 else max(mean, now.last_s)


def own_pid(pid: int, root: str = "/proc") -> int:
    """Return a process's pid in its own namespace, as in file names; the same if it cannot be read."""
    return [pid, *linux.namespace_pids(pid, root)][-1]


def _numbers(found: Mapping[str, float | str], head: str) -> list[tuple[str, float]]:
    return [
        (name, value) for name, value in found.items() if name.startswith(head) and isinstance(value, float)
    ]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path) if path else 0
    except OSError:
        return 0

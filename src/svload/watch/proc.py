"""Reading /proc: pure parsers of its texts, and files that stay open so that a reading costs one system call.

All of it runs five times a second beside the measurement, so only the values that are used are converted to
numbers.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from svload.host.machine.linux import TICKS_PER_S, ProcessStat, open_file_limits, parse_stat, read

_PIECE_BYTES = 1 << 16
_STAT_BYTES = 4096
_IO_BYTES = 1024
FRESH_S = 0.01
"""A process read within this time is not read again: the kernel counts CPU time in such steps."""
KERNEL_EVERY_S = 1.0
"""How often the kernel's threads are read: they belong to no service, and work for any process."""
RESTING_EVERY_S = 1.0
"""How often a process that uses nothing is read if only recent users matter."""
UNSEEN_S = 0.04
"""Unaccounted CPU, beyond that of the processes that were read, from which the others are read too: the
machine's clock counts in ticks, so some of it is only rounding."""


class ProcFile:
    """One file of /proc, opened once and read again each time. Raises OSError like any file."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        data = os.pread(self._descriptor, _PIECE_BYTES, 0)
        # /proc returns a large file in pieces of its own choice.
        while piece := os.pread(self._descriptor, _PIECE_BYTES, len(data)):
            data += piece
        return data

    def close(self) -> None:
        """Close it; harmless if closed already."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class Bounds(NamedTuple):
    """What a process may use: open descriptors (its soft limit; None: no limit, or not readable for us), and
    the cores it may run on."""

    descriptors: int | None
    cores: frozenset[int]


def read_bounds(pid: int, root: str = "/proc") -> Bounds:
    """Return a process's limits and cores; without bounds if it is gone or not readable for us."""
    soft, _ = open_file_limits(pid, root)
    cores: frozenset[int] = frozenset()
    for line in read(f"{root}/{pid}/status").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            with suppress(ValueError, IndexError):
                cores = parse_cores(line.split()[1])
    return Bounds(int(soft) if soft and soft.isdigit() else None, cores)


def parse_cores(text: str) -> frozenset[int]:
    """Return `0-2,5` as a set of cores. Raise ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def disk_bytes(text: bytes, what: bytes) -> float | None:
    """Return the bytes that a process had a disk read (`read_bytes`) or write (`write_bytes`), from its
    /proc/PID/io; None if it does not say."""
    name = b"\n" + what + b": "
    at = text.find(name)
    end = text.find(b"\n", at + 1)
    number = text[at + len(name) : end]
    return float(number) if at >= 0 and end >= 0 and number.isdigit() else None


class ProcessTable:
    """All processes of the machine, read at most once in `every_s` for all callers; and the present state of
    one process.

    Files stay open (at most `keep`), a line that has not changed is not parsed again, and families are
    computed again only if they have changed: a reading of all costs some 5 µs for each process read.
    """

    def __init__(self, root: str = "/proc", every_s: float = 1.0, keep: int = 600) -> None:
        self._root = root
        self._every_s = every_s
        self._keep = keep
        self._read_at = float("-inf")
        self._kernel_at = float("-inf")
        self._whole_at = float("-inf")
        self._busy_s = 0.0
        self._unseen_s = 0.0
        self._resting: set[int] = set()
        self._left: set[int] = set()
        self._all: dict[int, ProcessStat] = {}
        self._names: list[str] = []
        self._pids: list[int] = []
        self._machine: ProcFile | None = None
        self._listed_at = 0
        self._open: dict[int, dict[str, int]] = {}
        self._held = 0
        self._seen: dict[int, tuple[bytes, ProcessStat]] = {}
        self._kin: Kin | None = None
        self._families: dict[frozenset[int], frozenset[int]] = {}

    def all(self) -> Mapping[int, ProcessStat]:
        """Return the processes by pid, at most `every_s` old."""
        if time.monotonic() - self._read_at >= self._every_s:
            self.renew()
        return self._all

    def renew(self, *, lately: bool = False) -> Mapping[int, ProcessStat]:
        """Return the processes by pid, as of now; the kernel's threads at most a second old.

        With `lately`, processes whose last two readings were equal are also up to a second old. One of them
        is still read if it may have received the time of a child, or may have ended and left its own, and all
        are if the machine was busier than the processes that are read.
        """
        now_s = time.monotonic()
        with_kernel = now_s - self._kernel_at >= KERNEL_EVERY_S
        started, busy_s = self._machine_now()
        if with_kernel or not started or started != self._listed_at:
            names = os.listdir(self._root)
            self._listed_at = started
            if names != self._names:
                self._names, self._pids = names, [int(name) for name in names if name.isdigit()]
                for pid in self._open.keys() - set(self._pids):
                    self._let_go(pid)
        before, self._seen = self._seen, {}
        pids = set(self._pids)
        kernel = set() if with_kernel else {pid for pid, (_, stat) in before.items() if stat.kernel} & pids
        self._resting &= pids
        may_rest = lately and started and now_s - self._whole_at < RESTING_EVERY_S
        self._left = set(self._resting) if may_rest else set()
        used_s, touched = self._read(pids - kernel - self._left, before)
        touched |= {before[pid][1].parent for pid in before.keys() - pids}
        while self._left and (
            again := {pid for pid in self._left if not touched.isdisjoint((pid, before[pid][1].parent))}
        ):
            self._left -= again
            more_s, touched = self._read(again, before)
            used_s += more_s
        self._unseen_s += busy_s - self._busy_s - used_s
        self._busy_s = busy_s
        if not may_rest or self._unseen_s > UNSEEN_S:
            self._read(self._left, before)
            self._unseen_s, self._whole_at, self._left = 0.0, now_s, set()
        self._seen |= {pid: before[pid] for pid in kernel | self._left}
        if len(self._seen) < len(before):
            self._kin, self._families = None, {}
        self._all = {pid: stat for pid, (_, stat) in self._seen.items()}
        self._read_at = time.monotonic()
        self._kernel_at = self._read_at if with_kernel else self._kernel_at
        return self._all

    def _read(
        self, pids: Iterable[int], before: Mapping[int, tuple[bytes, ProcessStat]]
    ) -> tuple[float, set[int]]:
        """Read these; return what they used since their last reading, and who received a child's time."""
        used_s, touched = 0.0, set[int]()
        for pid in pids:
            known = before.get(pid)
            found = self._stat(pid, known)
            if found is None:
                self._resting.discard(pid)
                if known is not None:
                    touched.add(known[1].parent)
                continue
            self._seen[pid] = found
            if found is known:
                if not found[1].kernel:
                    self._resting.add(pid)
                continue
            self._resting.discard(pid)
            used_s += found[1].cpu_seconds
            if known is None or _moved(known[1], found[1]):
                self._kin, self._families = None, {}
            if known is not None:
                used_s -= known[1].cpu_seconds
                if known[1].children_ticks != found[1].children_ticks:
                    touched.add(pid)
        return used_s, touched

    def _machine_now(self) -> tuple[int, float]:
        """Return how many processes and threads were ever started, which shows whether there is a new one
        without looking at each (0 if the kernel does not count them), and the seconds that all have used.
        Read before the list, so that no new process is missed in between."""
        try:
            self._machine = self._machine or ProcFile(f"{self._root}/stat")
            found = self._machine.read()
        except OSError:
            return 0, 0.0
        used = sum(int(ticks) for ticks in found[: found.find(b"\n")].split()[1:4])  # user, nice, system
        return int(parse_pairs(found, (b"processes ",)).get(b"processes ", 0)), used / TICKS_PER_S

    def now(self, pid: int) -> ProcessStat | None:
        """Return the present state of one process; None if it is gone."""
        known = self._seen.get(pid)
        if known is None or pid in self._left or time.monotonic() - self._read_at >= FRESH_S:
            known = self._stat(pid, known)
        return None if known is None else known[1]

    def families(self, roots: Iterable[int]) -> frozenset[int]:
        """Return the pids of all `roots` and of their families, among the processes of `all`."""
        processes, key = self.all(), frozenset(roots)
        if key not in self._families:
            self._kin = self._kin or Kin(processes.values())
            self._families[key] = self._kin.families(key)
        return self._families[key]

    def disk(self, pid: int) -> tuple[float | None, float | None]:
        """Return the bytes that a process had a disk read and write so far; None if that cannot be read."""
        text = self._text(pid, "io", _IO_BYTES) or b""
        return disk_bytes(text, b"read_bytes"), disk_bytes(text, b"write_bytes")

    def descriptors(self, pid: int) -> int | None:
        """Return the open descriptors of a process; None if we may not read them. From Linux 6.2 the folder's
        size gives the number directly."""
        held = self._file(pid, "fd", os.O_PATH)
        if held is None:
            return None
        try:
            return os.fstat(held).st_size or len(os.listdir(f"{self._root}/{pid}/fd"))
        except OSError:
            self._let_go(pid)
            return None
        finally:
            self._tidy(pid)

    def close(self) -> None:
        """Close all files; the next reading opens them again."""
        for pid in list(self._open):
            self._let_go(pid)
        if self._machine is not None:
            self._machine.close()
        self._machine = None

    def __del__(self) -> None:
        self.close()

    def _stat(self, pid: int, seen: tuple[bytes, ProcessStat] | None) -> tuple[bytes, ProcessStat] | None:
        line = self._text(pid, "stat", _STAT_BYTES)
        if line is None or (seen is not None and seen[0] == line):
            return None if line is None else seen
        try:
            return line, parse_stat(line.decode("utf-8", "replace"))
        except (ValueError, IndexError):
            return None

    def _text(self, pid: int, name: str, most_bytes: int) -> bytes | None:
        """Return a file's text. A kept file belongs to one process: it fails when that one has ended, even if
        another has its pid now."""
        mine = self._open.get(pid)
        if mine is not None and name in mine:
            try:
                return os.pread(mine[name], most_bytes, 0)
            except OSError:
                self._let_go(pid)
        found = self._file(pid, name, os.O_RDONLY)
        try:
            return None if found is None else os.pread(found, most_bytes, 0)
        except OSError:
            return None
        finally:
            self._tidy(pid)

    def _file(self, pid: int, name: str, how: int) -> int | None:
        mine = self._open.get(pid)
        if mine is not None and name in mine:
            return mine[name]
        try:
            found = os.open(f"{self._root}/{pid}/{name}", how | os.O_CLOEXEC)
        except OSError:
            return None
        self._open.setdefault(pid, {})[name] = found
        self._held += 1
        return found

    def _tidy(self, pid: int) -> None:
        if self._held > self._keep:
            self._let_go(pid)

    def _let_go(self, pid: int) -> None:
        for held in self._open.pop(pid, {}).values():
            os.close(held)
            self._held -= 1


def _moved(before: ProcessStat, now: ProcessStat) -> bool:
    """Return whether its family may have changed, or it is another process."""
    return (before.parent, before.group, before.session, before.start_ticks) != (
        now.parent,
        now.group,
        now.session,
        now.start_ticks,
    )


class Kin:
    """Parents, sessions and process groups of processes."""

    def __init__(self, processes: Iterable[ProcessStat]) -> None:
        self._children: dict[int, list[int]] = {}
        self._led: dict[int, set[int]] = {}
        for one in processes:
            self._children.setdefault(one.parent, []).append(one.pid)
            for leader in (one.session, one.group):
                self._led.setdefault(leader, set()).add(one.pid)

    def families(self, roots: Iterable[int]) -> frozenset[int]:
        """Return the pids of `roots` and all that belong to them: their descendants, and all processes in a
        session or process group that one of them leads."""
        found = set(roots)
        found |= set().union(*(self._led.get(root, ()) for root in found))
        waiting = list(found)
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child not in found:
                    found.add(child)
                    waiting.append(child)
        return frozenset(found)


def families(roots: Iterable[int], processes: Iterable[ProcessStat]) -> frozenset[int]:
    """Return the same as `Kin.families`, for one look."""
    return Kin(processes).families(roots)


class Used(NamedTuple):
    """CPU that one process used between two looks, with that of its children that ended in between."""

    name: str
    pid: int
    seconds: float


def used_between(before: Mapping[int, ProcessStat], after: Mapping[int, ProcessStat]) -> list[Used]:
    """Return what processes of `after` used since `before`, for those that used any; both are whole tables of
    the machine, by pid.

    A process that ended in between has left its time to the parent that waited for it, so what it had used
    before is subtracted there: from the nearest living ancestor, or process 1.
    """
    gone = [before[pid] for pid in before.keys() - after.keys()]
    seconds: dict[int, float] = {}
    for pid, one in after.items():
        known = before.get(pid)
        if known is one:  # its line has not changed
            continue
        if known is not None and known.start_ticks != one.start_ticks:
            gone.append(known)
            known = None
        seconds[pid] = one.cpu_seconds - (known.cpu_seconds if known else 0.0)
    for one in gone:
        heir = one.parent
        while heir not in after and heir in before:
            heir = before[heir].parent
        heir = heir if heir in after else 1
        seconds[heir] = seconds.get(heir, 0.0) - one.cpu_seconds
    return [Used(after[pid].name, pid, used) for pid, used in seconds.items() if used > 0 and pid in after]


def parse_cpu(text: str) -> dict[str, dict[str, float]]:
    """Parse /proc/stat: core (`cpu0`) → seconds by state; `busy` is all but idle and waiting for a disk."""
    cores = {}
    for line in text.splitlines():
        name, *ticks = line.split()
        if not name.startswith("cpu"):
            break
        if name == "cpu":
            continue
        user, nice, system, _idle, iowait, irq, softirq, steal = (int(tick) for tick in ticks[:8])
        states = {
            "busy": user + nice + system + irq + softirq + steal,
            "user": user + nice,
            "system": system,
            "softirq": irq + softirq,
            "iowait": iowait,
            "steal": steal,
        }
        cores[name] = {state: count / TICKS_PER_S for state, count in states.items()}
    return cores


def parse_pairs(text: bytes, names: Iterable[bytes]) -> dict[bytes, float]:
    """Parse `name value …` lines (/proc/vmstat, the tail of /proc/stat) or `name: value kB` (/proc/meminfo,
    in bytes): those of `names` that exist. Names are matched at the start of a line, so each must end in its
    space or colon."""
    found = {}
    text = b"\n" + text
    for name in names:
        begin = text.find(b"\n" + name)
        if begin < 0:
            continue
        end = text.find(b"\n", begin + 1)
        parts = text[begin + 1 + len(name) : end if end >= 0 else len(text)].split()
        if parts and parts[0].lstrip(b"-").isdigit():
            found[name] = float(parts[0]) * (1024 if parts[-1] == b"kB" else 1)
    return found


def parse_titled(text: bytes, names: tuple[str, ...]) -> dict[str, float]:
    """Parse /proc/net/netstat and snmp: a line of titles, a line of values, both with the same head; those of
    `names` that exist, `TcpExt.ListenDrops` → value."""
    found: dict[str, float] = {}
    lines = text.splitlines()
    for titles, values in zip(lines[::2], lines[1::2], strict=False):
        if columns := _columns_of(titles, names):
            fields = values.split()
            found |= {name: float(fields[at]) for name, at in columns if at < len(fields)}
    return found


@functools.cache
def _columns_of(titles: bytes, names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return the positions of these in a line of titles, which does not change while the kernel runs."""
    head, *own = titles.decode("ascii", "replace").split()
    known = {f"{head}{name}".replace(":", "."): at for at, name in enumerate(own, 1)}
    return tuple((name, known[name]) for name in names if name in known)


def parse_pressure(text: str) -> dict[str, float]:
    """Parse /proc/pressure/*: `some` and `full` → seconds so far."""
    found = {}
    for line in text.splitlines():
        kind, *fields = line.split()
        found[kind] = int(dict(field.split("=") for field in fields)["total"]) / 1e6
    return found


def parse_disks(text: str) -> dict[str, dict[str, float]]:
    """Parse /proc/diskstats: disk or partition that was ever used → operations, bytes, busy and queue seconds
    so far (a sector is 512 bytes).

    `in_flight` is the number of requests in progress. Queue seconds grow by one per second for each of them.
    """
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        fields = line.split()
        if fields[3:14].count("0") < len(fields[3:14]):
            numbers = [int(field) for field in fields[3:14]]
            found[fields[2]] = {
                "reads": numbers[0],
                "read_bytes": numbers[2] * 512,
                "writes": numbers[4],
                "written_bytes": numbers[6] * 512,
                "in_flight": numbers[8],
                "io_seconds": numbers[9] / 1000,
                "queue_seconds": numbers[10] / 1000,
            }
    return found


def parse_interfaces(text: str) -> dict[str, dict[str, float]]:
    """Parse /proc/net/dev: interface that was used → bytes, packets and drops in both directions."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if fields.count("0") < len(fields):
            found[name.strip()] = {
                "received_bytes": int(fields[0]),
                "received_packets": int(fields[1]),
                "received_drops": int(fields[3]),
                "sent_bytes": int(fields[8]),
                "sent_packets": int(fields[9]),
                "sent_drops": int(fields[11]),
            }
    return found

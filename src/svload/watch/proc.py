"""Reading /proc: pure parsers of its texts, and files that stay open so that a reading costs one system call."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable
from typing import Literal, NamedTuple

TICKS_PER_S = float(os.sysconf("SC_CLK_TCK"))
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MOST_BYTES = 1 << 20
_STAT_BYTES = 4096


class ProcFile:
    """One file of /proc, opened once and read anew each time. Raises OSError like any file."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> str:
        data = os.pread(self._descriptor, _MOST_BYTES, 0)
        # /proc hands out a large file in pieces of its own choosing.
        while piece := os.pread(self._descriptor, _MOST_BYTES, len(data)):
            data += piece
        return data.decode("ascii", "replace")

    def close(self) -> None:
        """Close it; harmless if closed already."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class Stat(NamedTuple):
    """What we use of /proc/PID/stat. `cpu_seconds` includes children that have ended and been waited for;
    `name` is the kernel's, of at most 15 letters."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    cpu_seconds: float
    threads: int
    start_ticks: int
    rss_bytes: int
    name: str = ""

    @property
    def ended(self) -> bool:
        """Whether it has ended and only waits to be waited for."""
        return self.state in "ZX"


def parse_stat(text: str) -> Stat:
    """A line of /proc/PID/stat; the command's name may hold spaces and brackets. Raises ValueError."""
    pid, _, rest = text.partition(" ")
    fields = rest[rest.rindex(")") + 2 :].split()
    ticks = sum(int(fields[at]) for at in (11, 12, 13, 14))
    return Stat(
        pid=int(pid),
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_seconds=ticks / TICKS_PER_S,
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        rss_bytes=int(fields[21]) * PAGE_BYTES,
        name=text[text.index("(") + 1 : text.rindex(")")],
    )


def read_stat(pid: int | Literal["self"], root: str = "/proc") -> Stat | None:
    """/proc/PID/stat now, or None when the process is gone."""
    try:
        with open(f"{root}/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return parse_stat(file.read())
    except (OSError, ValueError, IndexError):
        return None


class Bounds(NamedTuple):
    """What a process may have: open descriptors (its soft limit; None: no limit, or not ours to
    read), and the cores it may run on.
    """

    descriptors: int | None
    cores: frozenset[int]


def read_bounds(pid: int, root: str = "/proc") -> Bounds:
    """/proc/PID/limits and the cores of /proc/PID/status; what is gone or not ours to read has none."""
    descriptors: int | None = None
    cores: frozenset[int] = frozenset()
    try:
        with open(f"{root}/{pid}/limits", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("Max open files"):
                    soft = line.split()[3]
                    descriptors = int(soft) if soft.isdigit() else None
        with open(f"{root}/{pid}/status", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("Cpus_allowed_list:"):
                    cores = parse_cores(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return Bounds(descriptors, cores)


def parse_cores(text: str) -> frozenset[int]:
    """`0-2,5` as a set of cores. Raises ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def count_descriptors(pid: int, root: str = "/proc") -> int | None:
    """Open descriptors of a process; None where we may not look. From Linux 6.2 the folder's size says it at once."""
    folder = f"{root}/{pid}/fd"
    try:
        return os.stat(folder).st_size or len(os.listdir(folder))
    except OSError:
        return None


def read_from_disk(pid: int, root: str = "/proc") -> float | None:
    """Bytes that a process had a disk read (read_bytes of /proc/PID/io); None where that can't be read."""
    try:
        with open(f"{root}/{pid}/io", encoding="ascii") as file:
            return next((float(line.split()[1]) for line in file if line.startswith("read_bytes:")), None)
    except OSError:
        return None


class ProcessTable:
    """All processes of the machine, read at most once in `every_s` whoever asks.

    Their files stay open (`keep` of them at most), and a line that has not changed is not parsed again: a
    pass costs some 5 µs a process.
    """

    def __init__(self, root: str = "/proc", every_s: float = 1.0, keep: int = 600) -> None:
        self._root = root
        self._every_s = every_s
        self._keep = keep
        self._read_at = float("-inf")
        self._all: list[Stat] = []
        self._open: dict[int, int] = {}
        self._seen: dict[int, tuple[bytes, Stat]] = {}

    def all(self) -> list[Stat]:
        """The processes, as they were at most `every_s` ago."""
        if time.monotonic() - self._read_at >= self._every_s:
            self.renew()
        return self._all

    def renew(self) -> list[Stat]:
        """The processes as they are now."""
        pids = [int(name) for name in os.listdir(self._root) if name.isdigit()]
        for pid in self._open.keys() - set(pids):
            self._let_go(pid)
        self._seen = {pid: found for pid in pids if (found := self._stat(pid)) is not None}
        self._all = [stat for _, stat in self._seen.values()]
        self._read_at = time.monotonic()
        return self._all

    def close(self) -> None:
        """Close all files; the next reading opens them anew."""
        for pid in list(self._open):
            self._let_go(pid)

    def _stat(self, pid: int) -> tuple[bytes, Stat] | None:
        line = self._line(pid)
        seen = self._seen.get(pid)
        if seen is not None and seen[0] == line:
            return seen
        try:
            return None if line is None else (line, parse_stat(line.decode("utf-8", "replace")))
        except (ValueError, IndexError):
            return None

    def _line(self, pid: int) -> bytes | None:
        """A kept file is of one process for ever: it fails when that one has ended, even if another has its pid now."""
        known = self._open.get(pid)
        if known is not None:
            try:
                return os.pread(known, _STAT_BYTES, 0)
            except OSError:
                self._let_go(pid)
        try:
            found = os.open(f"{self._root}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        self._open[pid] = found
        try:
            return os.pread(found, _STAT_BYTES, 0)
        except OSError:
            return None
        finally:
            if len(self._open) > self._keep:
                self._let_go(pid)

    def _let_go(self, pid: int) -> None:
        os.close(self._open.pop(pid))


def family(root: int, processes: Iterable[Stat]) -> set[int]:
    """Pids of `root` and all that belong to it: its descendants, and whoever is in a session
    or process group that it leads."""
    return families({root}, processes)


def families(roots: Iterable[int], processes: Iterable[Stat]) -> set[int]:
    """Pids of all `roots` and of their families."""
    children: dict[int, list[int]] = {}
    found = set(roots)
    led = set()
    for one in processes:
        children.setdefault(one.parent, []).append(one.pid)
        if one.session in found or one.group in found:
            led.add(one.pid)
    found |= led
    waiting = list(found)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


class Used(NamedTuple):
    """CPU that one process used between two looks, with that of its children that ended meanwhile."""

    name: str
    pid: int
    seconds: float


def used_between(before: Iterable[Stat], after: Iterable[Stat]) -> list[Used]:
    """What each process of `after` used since `before`; both are whole tables of the machine.

    A process that ended meanwhile has left its time to the parent that waited for it, which is why what it
    had used before is taken off there: off the nearest ancestor that lives, or process 1.
    """
    earlier = {(one.pid, one.start_ticks): one for one in before}
    now = list(after)
    seconds = {
        one.pid: one.cpu_seconds
        - (known.cpu_seconds if (known := earlier.get((one.pid, one.start_ticks))) else 0.0)
        for one in now
    }
    alive = {(one.pid, one.start_ticks) for one in now}
    parents = {one.pid: one.parent for one in earlier.values()}
    for key, gone in earlier.items():
        if key in alive:
            continue
        heir = gone.parent
        while heir not in seconds and heir in parents:
            heir = parents[heir]
        heir = heir if heir in seconds else 1
        if heir in seconds:
            seconds[heir] -= gone.cpu_seconds
    return [Used(one.name, one.pid, max(seconds[one.pid], 0.0)) for one in now]


def parse_cpu(text: str) -> dict[str, dict[str, float]]:
    """/proc/stat: core (`cpu0`) → seconds so far by state; `busy` is all but idle and waiting for a disk."""
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


def parse_pairs(text: str, names: tuple[str, ...] = ("",)) -> dict[str, float]:
    """`name value …` lines (/proc/vmstat, the tail of /proc/stat) or `name: value kB` (/proc/meminfo, in bytes), of
    those that begin with one of `names`."""
    found = {}
    for line in text.splitlines():
        if not line.startswith(names):
            continue
        parts = line.replace(":", " ").split()
        if len(parts) >= 2 and parts[1].lstrip("-").isdigit():
            found[parts[0]] = float(parts[1]) * (1024 if parts[-1] == "kB" else 1)
    return found


def parse_titled(text: str, names: tuple[str, ...]) -> dict[str, float]:
    """/proc/net/netstat and snmp: a line of titles, a line of values, both with the same
    head; of `names` those that are there, `TcpExt.ListenDrops` → value."""
    found: dict[str, float] = {}
    lines = text.splitlines()
    for titles, values in zip(lines[::2], lines[1::2], strict=False):
        if columns := _columns_of(titles, names):
            fields = values.split()
            found |= {name: float(fields[at]) for name, at in columns if at < len(fields)}
    return found


@functools.cache
def _columns_of(titles: str, names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Where each of these stands in a line of titles, which is the same as long as the kernel runs."""
    head, *own = titles.split()
    known = {f"{head}{name}".replace(":", "."): at for at, name in enumerate(own, 1)}
    return tuple((name, known[name]) for name in names if name in known)


def parse_pressure(text: str) -> dict[str, float]:
    """/proc/pressure/*: `some` and `full` → seconds so far."""
    found = {}
    for line in text.splitlines():
        kind, *fields = line.split()
        found[kind] = int(dict(field.split("=") for field in fields)["total"]) / 1e6
    return found


def parse_disks(text: str) -> dict[str, dict[str, float]]:
    """/proc/diskstats: whole or part of a disk that was ever used → operations, bytes, busy and queue seconds
    so far (a sector is 512 bytes).

    `in_flight` are the requests under way now. Queue seconds grow by one a second for each of them.
    """
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        fields = line.split()
        numbers = [int(field) for field in fields[3:14]]
        if any(numbers):
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
    """/proc/net/dev: interface that was ever used → bytes, packets and drops in both directions so far."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        numbers = [int(field) for field in rest.split()]
        if any(numbers):
            found[name.strip()] = {
                "received_bytes": numbers[0],
                "received_packets": numbers[1],
                "received_drops": numbers[3],
                "sent_bytes": numbers[8],
                "sent_packets": numbers[9],
                "sent_drops": numbers[11],
            }
    return found

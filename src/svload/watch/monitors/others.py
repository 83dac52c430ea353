"""CPU use of other programs: processes that are not part of the measurement. Generators, servers, monitors,
svload itself, the kernel's threads, and what belongs to a server that svload did not start do not count."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from svload.host.machine.linux import ProcessStat, process_stat
from svload.watch import proc
from svload.watch.belonging import Belonging, Helpers
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors.process import ProcessMonitor

KERNEL = 2
"""kthreadd: its children work for any process, the load included."""
NAMED = 5
LEAST_S = 0.01
THREADS, BUSIEST, THREADS_EVERY_S = 32, 4, 1.0
"""How many threads of a process with several, and of how many processes of a kind, are read to find their
cores, and how often: each reading costs as much as a process."""
_WORDS_BYTES = 60


class _Threads:
    """The cores of one process's threads: which share of its time it uses on which core."""

    def __init__(self) -> None:
        self.shares: dict[int, float] = {}
        self._seen: dict[str, float] = {}
        self._at = float("-inf")

    def renew(self, pid: int, root: str) -> None:
        """Look again if the last look is old enough."""
        if time.monotonic() - self._at < THREADS_EVERY_S:
            return
        first, self._at = not self._seen, time.monotonic()
        before, self._seen = self._seen, {}
        used: dict[int, float] = {}
        for name, thread in threads_of(pid, root):
            self._seen[name] = thread.cpu_seconds
            grown = 1.0 if first else thread.cpu_seconds - before.get(name, 0.0)
            if grown > 0:
                used[thread.core] = used.get(thread.core, 0.0) + grown
        whole = sum(used.values())
        self.shares = {core: seconds / whole for core, seconds in used.items()} or self.shares


class OthersMonitor(Monitor):
    """The empty entity for all other programs; `name pid` for those that used most since the previous
    reading; by core.

    Times are the scheduler's, per process; the time of one that ended is found with the parent that waited
    for it. If the process table is not the machine's (a container shows no kernel threads), other programs'
    time is the machine's busy time beyond our own, and no process is named.
    """

    name = "others"
    summary = "CPU of processes that are no part of the measurement"
    metrics: ClassVar[Mapping[str, str]] = {
        "cpu_seconds_total": "CPU time of all of them",
        "concerned_seconds_total": "of it what was used on the cores where servers and load ran just then, as a share "
        "of these cores' time",
        "cpu_seconds": "of the largest users: CPU time since the previous reading, ended children included",
        "pid": "number of such a process; the entity is `name pid user command`, and of the command it has "
        "the program and the first file",
    }
    cpu_share = 0.01
    table: ClassVar[proc.ProcessTable] = ProcessMonitor.table
    helpers: ClassVar[Helpers] = Helpers()
    root: ClassVar[str] = "/proc"

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        me = process_stat("self", self.root)
        self._own = frozenset({int(pid) for pid in facts.get("own", ())} | ({me.parent} if me else set()))
        self._belonging = Belonging(facts.get("services", ()), self.table)
        self._before: Mapping[int, ProcessStat] | None = None
        self._whole = True
        self._total = 0.0
        self._concerned = 0.0
        self._threads: dict[int, _Threads] = {}
        self._whose: dict[tuple[int, int], str] = {}
        self._news: dict[str, str] = {}
        self._stat: proc.ProcFile | None = None
        self._beyond: tuple[float, float] | None = None

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return facts is None

    def sample(self) -> Iterable[Reading]:
        """Read all processes once, shared with the services' monitors."""
        now = self.table.renew(lately=not self._whole)
        self._whole = False
        # A process that once belonged stays ours, even if its parent ends and it is adopted.
        belonging = self._belonging.renew()
        belongs = self.table.families(self._own | belonging.keys())
        self._own = belongs if belongs <= now.keys() else belongs.intersection(now)
        used = [] if self._before is None else proc.used_between(self._before, now)
        self._before = now
        for pid, why in belonging.items():
            if pid in now:
                self._tell(now[pid], why)
        if KERNEL not in now or now[KERNEL].name != "kthreadd":
            return self._beyond_own(sum(one.seconds for one in used if one.pid in self._own))
        others = list(self._strangers(used, now))
        others.sort(key=lambda one: one.seconds, reverse=True)
        self._total += sum(one.seconds for one in others)
        self._concerned += self._beside(others, [one for one in used if one.pid in self._own], now)
        named = [one for one in others[:NAMED] if one.seconds >= LEAST_S]
        return [
            Reading("", "cpu_seconds_total", self._total),
            Reading("", "concerned_seconds_total", self._concerned),
            *(Reading(f"{one.name} {one.pid}", "cpu_seconds", one.seconds) for one in named),
            *(Reading(self._named(now[one.pid]), "pid", one.pid) for one in named),
        ]

    def _strangers(self, used: Iterable[proc.Used], now: Mapping[int, ProcessStat]) -> Iterator[proc.Used]:
        for one in used:
            stat = now[one.pid]
            if one.pid in self._own or stat.kernel or KERNEL in (one.pid, stat.parent):
                continue
            key = (one.pid, stat.start_ticks)
            self.helpers.used(key, one.seconds)
            if key in self.helpers:
                self._tell(stat, "uses CPU only while there is load")
            else:
                yield one

    def _beside(
        self, others: Iterable[proc.Used], own: Iterable[proc.Used], now: Mapping[int, ProcessStat]
    ) -> float:
        """Return others' CPU on the cores that our own used since the previous look, divided by the number of
        these cores: on a machine with many cores, a load that takes all of the server's is a small share of
        the whole."""
        ours = {core for core, _ in self._where(own, now)}
        found = sum(seconds for core, seconds in self._where(others, now) if core in ours)
        self._threads = {pid: seen for pid, seen in self._threads.items() if pid in now}
        return found / len(ours) if ours else 0.0

    def _where(
        self, used: Iterable[proc.Used], now: Mapping[int, ProcessStat]
    ) -> Iterator[tuple[int, float]]:
        """Yield the cores that they used, from where each thread ran last; without those that used little."""
        busiest = sorted(used, key=lambda one: -one.seconds)[:BUSIEST]
        for one in busiest:
            stat = now[one.pid]
            if one.seconds < LEAST_S:
                return
            if stat.threads <= 1:
                yield stat.core, one.seconds
                continue
            threads = self._threads.setdefault(one.pid, _Threads())
            threads.renew(one.pid, self.root)
            yield from ((core, one.seconds * share) for core, share in threads.shares.items())

    def _beyond_own(self, own_s: float) -> list[Reading]:
        """Return the machine's busy time beyond our own, for nothing else is visible here."""
        try:
            self._stat = self._stat or proc.ProcFile(f"{self.root}/stat")
            cores = proc.parse_cpu(self._stat.read().partition(b"\nintr ")[0].decode("ascii", "replace"))
        except (OSError, ValueError):
            return []
        busy_s = sum(states["user"] + states["system"] for states in cores.values())
        if busy_s <= 0:  # a sandbox that counts nothing
            return []
        first_s, all_own_s = self._beyond or (busy_s, 0.0)
        self._beyond = first_s, all_own_s + own_s
        self._total = max(self._total, busy_s - first_s - self._beyond[1])
        return [Reading("", "cpu_seconds_total", self._total)]

    def catch_up(self) -> None:
        """Read every process at the ends of a load."""
        self._whole = True

    def load(self, under_way: bool) -> None:
        """Note the start or end of a load: helpers are recognised by the pauses between loads."""
        if under_way:
            self._belonging.load()
        alive = [(one.pid, one.start_ticks) for one in (self._before or {}).values()]
        self.helpers.turn(under_way, time.monotonic(), alive)

    def news(self) -> list[str]:
        """Return which processes were taken as part of the servers, and why."""
        return list(self._news.values())

    def close(self) -> None:
        if self._stat is not None:
            self._stat.close()
        self._stat = None

    def _tell(self, stat: ProcessStat, why: str) -> None:
        """Add one sentence per program, however many processes it has."""
        if f"{stat.name} {why}" not in self._news:
            user = user_of(stat.pid, self.root)
            self._news[f"{stat.name} {why}"] = (
                f"{stat.name} (process {stat.pid}, {user}) counts as part of the servers, not as a stranger: it {why}."
            )

    def _named(self, stat: ProcessStat) -> str:
        key = (stat.pid, stat.start_ticks)
        if key not in self._whose:
            user, command = user_of(stat.pid, self.root), command_of(stat.pid, self.root)
            self._whose[key] = f"{stat.name} {stat.pid} {user} {command}".rstrip()
        return self._whose[key]


def threads_of(pid: int, root: str = "/proc") -> Iterator[tuple[str, ProcessStat]]:
    """Yield some of a process's threads, by number; those that end in between are left out."""
    folder = f"{root}/{pid}/task"
    try:
        names = os.listdir(folder)[:THREADS]
    except OSError:
        return
    for name in names:
        found = process_stat(int(name), folder) if name.isdigit() else None
        if found is not None:
            yield name, found


def user_of(pid: int, root: str = "/proc") -> str:
    """Return a process's user: by name, by number if the name is not known, `?` if it is gone."""
    try:
        uid = os.stat(f"{root}/{pid}").st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(uid).pw_name.replace(" ", "_")
    except KeyError:
        return str(uid)


def command_of(pid: int, root: str = "/proc") -> str:
    """Return a process's program and its first file or word argument, both without folders; empty if it is
    gone.

    Other arguments are left out: they may hold secrets.
    """
    try:
        with open(f"{root}/{pid}/cmdline", "rb") as file:
            words = [word for word in file.read(4096).decode("utf-8", "replace").split("\0") if word]
    except OSError:
        return ""
    program, *others = [os.path.basename(word.split(" ", 1)[0]) for word in words] or [""]
    first = others[0] if others and not words[1].startswith("-") and "=" not in words[1] else ""
    return f"{program} {first}".strip()[:_WORDS_BYTES]

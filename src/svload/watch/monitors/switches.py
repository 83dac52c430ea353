"""How often a service's threads were given a core, and how long they waited, which CPU time hides."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

from svload.host.machine.linux import TICKS_PER_S
from svload.watch import proc
from svload.watch.belonging import Belonging
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors.listeners import ports_of
from svload.watch.monitors.process import ProcessMonitor, members_of

LIST_AGE_S = 1.0
"""How old the table's list of processes may be: younger ones may have been missed by the last look."""


class SwitchesMonitor(Monitor):
    """One entity for each process in the facts, with its family; for a server that already ran, one for the
    owner of its port and the servers behind it. The last part of a thread that ended between two readings is
    missed."""

    name = "switches"
    summary = "context switches of a service's threads and how long they waited for a core, from schedstat"
    metrics: ClassVar[Mapping[str, str]] = {
        "switches_total": "number of times that its threads were given a core",
        "run_queue_seconds_total": "time in which its threads could have run and waited for a core, summed over them",
    }
    interval_s = 2.0
    cpu_share = 0.002
    table: ClassVar[proc.ProcessTable] = ProcessMonitor.table
    root: ClassVar[str] = "/proc"

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._seen: dict[tuple[int, str], tuple[int, int]] = {}
        self._sums: dict[str, tuple[int, int]] = {}
        self._looked_s = float("inf")
        self._belonging = None if facts.get("processes") else Belonging([facts], self.table)

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return bool(facts and (facts.get("processes") or ports_of(facts)))

    def sample(self) -> Iterable[Reading]:
        """Raises ProcessLookupError if none of the service's processes exists any more."""
        members = self._members()
        if not members:
            raise ProcessLookupError(f"no process of {self.service} is there")
        since_s, self._looked_s = self._looked_s, time.clock_gettime(time.CLOCK_BOOTTIME)
        known = {pid for pid, _ in self._seen}
        seen: dict[tuple[int, str], tuple[int, int]] = {}
        readings: list[Reading] = []
        for name, pids in members.items():
            waited, given = self._sums.get(name, (0, 0))
            for pid in pids:
                # Threads that are new since the last look started at zero; those of an older process that belongs
                # from now on count from now on.
                from_zero = pid in known or self._started_since(pid, since_s)
                for thread, now in threads_of(pid, self.root):
                    before = self._seen.get((pid, thread), (0, 0) if from_zero else now)
                    waited += max(now[0] - before[0], 0)
                    given += max(now[1] - before[1], 0)
                    seen[pid, thread] = now
            self._sums[name] = (waited, given)
            readings.append(Reading(name, "switches_total", given))
            readings.append(Reading(name, "run_queue_seconds_total", waited / 1e9))
        self._seen = seen
        return readings

    def load(self, under_way: bool) -> None:
        """Look more often, after a load's start, for processes that belong to a server that already ran."""
        if under_way and self._belonging is not None:
            self._belonging.load()

    def _started_since(self, pid: int, since_s: float) -> bool:
        stat = self.table.now(pid)
        return stat is not None and stat.start_ticks / TICKS_PER_S >= since_s - LIST_AGE_S

    def _members(self) -> Mapping[str, AbstractSet[int]]:
        if self._belonging is None:
            return members_of(self.facts, self.table)
        found = self.table.families(self._belonging.renew())
        return {self.service: found} if found else {}


def threads_of(pid: int, root: str = "/proc") -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield (thread, (ns waited for a core, times given one)), without those that end in between."""
    folder = f"{root}/{pid}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return
    for thread in threads:
        try:
            held = os.open(f"{folder}/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:  # a file object costs twice as much as all else here, and there may be a thousand threads
            _, waited, given = os.read(held, 256).split()
        except (OSError, ValueError):
            continue
        finally:
            os.close(held)
        yield thread, (int(waited), int(given))

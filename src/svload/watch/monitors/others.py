"""CPU of processes that are no part of the measurement: neither generators, servers, monitors nor svload itself, nor the kernel's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.watch import proc
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors.process import ProcessMonitor

KERNEL = 2
"""kthreadd: its children work for whoever asked, the load included."""
NAMED = 5
LEAST_S = 0.01


class OthersMonitor(Monitor):
    """The empty entity for all of them; `name pid` for those that used most since the reading before.

    Times are the scheduler's own, process by process; the time of one that ended is found with the parent that waited for it.
    """

    name = "others"
    summary = "CPU of processes that are no part of the measurement"
    metrics: ClassVar[Mapping[str, str]] = {
        "cpu_seconds_total": "CPU time of all of them",
        "cpu_seconds": "of those that used most: CPU time since the reading before, ended children included",
    }
    interval_s = 1.0
    table: ClassVar[proc.ProcessTable] = ProcessMonitor.table
    root: ClassVar[str] = "/proc"

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._own = {int(pid) for pid in facts.get("own", ())}
        me = proc.read_stat("self", self.root)
        self._own |= {me.parent} if me else set()
        self._before: list[proc.Stat] | None = None
        self._total = 0.0

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """The machine itself."""
        return facts is None

    def sample(self) -> Iterable[Reading]:
        """One pass over all processes, shared with the services' monitors."""
        now = self.table.renew()
        # Who once belonged stays ours, even if its parent ends and it is adopted.
        self._own = proc.families(self._own, now) & {one.pid for one in now}
        apart = self._own | proc.families({KERNEL}, now)
        used = [] if self._before is None else proc.used_between(self._before, now)
        self._before = now
        others = sorted(
            (one for one in used if one.pid not in apart), key=lambda one: one.seconds, reverse=True
        )
        self._total += sum(one.seconds for one in others)
        named = [one for one in others[:NAMED] if one.seconds >= LEAST_S]
        return [
            Reading("", "cpu_seconds_total", self._total),
            *(Reading(f"{one.name} {one.pid}", "cpu_seconds", one.seconds) for one in named),
        ]

"""The other machines of a run: each has a sampler. The readings of its servers are copied unchanged; of the
readings on disturbances of the machine, those that the judge needs (monitor `fleet`)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.watch.control import PASS_NS, SamplerProcess
from svload.watch.series import Rows, SeriesReader

if TYPE_CHECKING:
    from svload.host.machines.remote import RemoteMachine
    from svload.model.facts import ServiceFacts

MONITOR = "fleet"
METRICS: Mapping[str, str] = {
    "busy_seconds_total": "per core of another machine, `machine/core`: time that it was busy",
    "steal_seconds_total": "per core of another machine: time that its hypervisor gave to others",
    "others_cpu_seconds_total": "per other machine: CPU time of processes that are no part of the measurement",
}
"""Metric → its meaning."""
_TAKEN = {
    ("host", "busy_seconds_total"): "busy_seconds_total",
    ("host", "steal_seconds_total"): "steal_seconds_total",
    ("others", "cpu_seconds_total"): "others_cpu_seconds_total",
}
Table = dict[str, tuple[str, Any]]


class MachineWatch:
    """One machine's sampler. Its output is copied into `folder` and read there."""

    def __init__(self, machine: RemoteMachine, folder: Path) -> None:
        self._machine = machine
        self._there = machine.agent.dir / "monitors.jsonl"
        self._here = folder / f"{machine.name}.monitors.jsonl"
        cores = machine.cores.servers if machine.cores.pinned else None
        self._process = SamplerProcess(machine.agent, self._there, cores, machine.agent.python)
        self._reader = SeriesReader(self._here)
        self._copied = 0
        self._marked_ns = 0

    def spawn(self) -> None:
        """Start its process. Raises SvloadError agent-refused, agent-lost."""
        self._process.spawn()

    def attach(self, facts: Sequence[ServiceFacts], interval_s: float) -> dict[str, Any]:
        """Watch the machine and its services among these from now on; return the sampler's answer."""
        own = [one for one in facts if one.machine == self._machine.name]
        return self._process.attach(own, self._machine.pid, interval_s)

    def renew(self, facts: ServiceFacts) -> None:
        """Use new facts to watch a service from now on, if it runs on that machine."""
        if facts.machine == self._machine.name:
            self._process.renew(facts)

    def mark(self) -> None:
        """Read everything now: the first reading of the next slice."""
        self._marked_ns = int(self._process.sample(True)["at_ns"])

    def readings(self, origin_ns: int) -> Table:
        """Return the readings since the mark; offsets count from `origin_ns` of this machine's clock."""
        last_ns = int(self._process.sample(False)["at_ns"])
        self._copy()
        offset = self._machine.offset()
        found = self._reader.between(self._marked_ns, last_ns + PASS_NS, offset.there(origin_ns))
        return as_fleet(found, self._machine.name)

    def _copy(self) -> None:
        data = self._machine.agent.collect(self._there, self._copied)
        with self._here.open("ab") as file:
            file.write(data)
        self._copied += len(data)


def as_fleet(table: Mapping[str, tuple[str, Any]], machine: str) -> Table:
    """Return those of a machine's readings that concern its servers, and those needed about the machine,
    renamed to this run's monitor `fleet`. Pure."""
    rows = Rows()
    offsets, values = array("q", table["offset_ns"][1]), array("d", table["value"][1])
    names = (table[name][1] for name in ("service", "monitor", "entity", "metric"))
    for at_ns, value, service, monitor, entity, metric in zip(offsets, values, *names, strict=True):
        if service:
            rows.add(at_ns, service, monitor, [[entity, metric]], [value])
        elif (taken := _TAKEN.get((monitor, metric))) and (monitor != "others" or not entity):
            own = f"{machine}/{entity}" if entity else machine
            rows.add(at_ns, "", MONITOR, [[own, taken]], [value])
    return rows.table()

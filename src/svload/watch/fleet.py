"""The other machines of a run: each has a sampler. The readings of its servers are copied unchanged; of the
readings on disturbances of the machine, those that the judge needs (monitor `fleet`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from svload.host.process.interpreter import python
from svload.watch.control import CHILD, PASS_NS, PREPARE_S
from svload.watch.series import SeriesReader

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
        self._there = machine.dir / "monitors.jsonl"
        self._here = folder / f"{machine.name}.monitors.jsonl"
        self._reader = SeriesReader(self._here)
        self._copied = 0
        self._marked_ns = 0

    def spawn(self) -> None:
        """Start its process. Raises SvloadError agent-refused, agent-lost."""
        from svload.model.messages import Limits, Spawn

        agent, cores = self._machine.agent, self._machine.cores
        order = Spawn(
            child=CHILD,
            role="monitor",
            argv=python("-m", "svload.watch.sampler", executable=agent.python),
            log=str(self._machine.dir / f"{CHILD}.log"),
            limits=Limits(cores=cores.servers if cores.pinned else None),
        )
        agent.prepare([order])

    def attach(self, facts: Sequence[ServiceFacts], interval_s: float) -> dict[str, Any]:
        """Watch the machine from now on, and those of these services that run on it; return the sampler's
        answer."""
        own = [one for one in facts if one.machine == self._machine.name]
        pids = {process.pid for one in own for process in one.processes}
        told = {
            "services": [one.model_dump(mode="json") for one in own],
            "own": sorted({self._machine.pid} | pids),
            "interval_s": interval_s,
            "out": str(self._there),
        }
        return self._tell({"prepare": told})

    def renew(self, facts: ServiceFacts) -> None:
        """Use new facts to watch a service from now on, if it runs on that machine."""
        if facts.machine == self._machine.name:
            self._tell({"renew": facts.model_dump(mode="json")})

    def mark(self) -> None:
        """Read everything now: the first reading of the next slice."""
        self._marked_ns = int(self._tell({"sample": True, "load": True})["at_ns"])

    def readings(self, origin_ns: int) -> Table:
        """Return the readings from the mark to now; offsets count from `origin_ns` of this machine's
        clock."""
        last_ns = int(self._tell({"sample": True, "load": False})["at_ns"])
        self._copy()
        offset = self._machine.offset()
        found = self._reader.between(self._marked_ns, last_ns + PASS_NS, offset.there(origin_ns))
        return as_fleet(found, self._machine.name)

    def _copy(self) -> None:
        data = self._machine.agent.collect(self._there, self._copied)
        with self._here.open("ab") as file:
            file.write(data)
        self._copied += len(data)

    def _tell(self, message: dict[str, Any]) -> dict[str, Any]:
        from svload.model.messages import Tell

        said: dict[str, Any] = self._machine.agent.prepare(
            [Tell(child=CHILD, message=message, timeout_s=PREPARE_S)]
        )[0]
        return said


def as_fleet(table: Mapping[str, tuple[str, Any]], machine: str) -> Table:
    """Return those of a machine's readings that concern its servers, and those needed about the machine,
    renamed to this run's monitor `fleet`. Pure."""
    kept = list(_kept(table, machine))
    offsets, values = array("q"), array("d")
    offsets.frombytes(table["offset_ns"][1])
    values.frombytes(table["value"][1])
    return {
        "offset_ns": ("i64", array("q", (offsets[one.row] for one in kept)).tobytes()),
        "service": ("utf8", [one.service for one in kept]),
        "monitor": ("utf8", [one.monitor for one in kept]),
        "entity": ("utf8", [one.entity for one in kept]),
        "metric": ("utf8", [one.metric for one in kept]),
        "value": ("f64", array("d", (values[one.row] for one in kept)).tobytes()),
    }


class _Kept(NamedTuple):
    row: int
    service: str
    monitor: str
    entity: str
    metric: str


def _kept(table: Mapping[str, tuple[str, Any]], machine: str) -> Iterator[_Kept]:
    rows = zip(*(table[name][1] for name in ("service", "monitor", "entity", "metric")), strict=True)
    for row, (service, monitor, entity, metric) in enumerate(rows):
        if service:
            yield _Kept(row, service, monitor, entity, metric)
            continue
        taken = _TAKEN.get((monitor, metric))
        if taken is None or (monitor == "others" and entity):
            continue
        yield _Kept(row, "", MONITOR, f"{machine}/{entity}" if entity else machine, taken)

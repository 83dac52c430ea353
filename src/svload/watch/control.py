"""The controller's side of monitoring: one sampler process on the agent's machine for a whole run."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.host.process.interpreter import EXECUTABLE, python
from svload.watch.series import SeriesReader, together

if TYPE_CHECKING:
    from svload.host.agent.client import Agent
    from svload.model.facts import ServiceFacts
    from svload.watch.fleet import MachineWatch

CHILD = "sampler"
PREPARE_S = 30.0
PASS_NS = 1_000_000_000
"""The time within which all monitors are read once."""

LIVE_INTERVALS = 4
"""The span of a live look, in sampling intervals: the sampler may be a little late."""


class SamplerProcess:
    """A sampler on its agent's machine, which writes to `out`. Raises SvloadError agent-refused, -lost."""

    def __init__(
        self, agent: Agent, out: Path, cores: tuple[int, ...] | None, executable: str = EXECUTABLE
    ) -> None:
        self._agent, self._out, self._cores, self._executable = agent, out, cores, executable

    def spawn(self) -> None:
        """Start it, without waiting until it accepts commands."""
        from svload.model.messages import Limits, Spawn

        order = Spawn(
            child=CHILD,
            role="monitor",
            argv=python("-m", "svload.watch.sampler", executable=self._executable),
            log=str(self._out.with_name(f"{CHILD}.log")),
            limits=Limits(cores=self._cores),
        )
        self._agent.prepare([order])

    def attach(self, facts: Iterable[ServiceFacts], own: int, interval_s: float) -> dict[str, Any]:
        """Watch the machine and these services from now on. The process `own` belongs to the measurement, and
        theirs do; the owners of servers that already ran are found by the sampler."""
        services = [one.model_dump(mode="json") for one in facts]
        pids = {own} | {process["pid"] for one in services for process in one["processes"]}
        message = {"services": services, "own": sorted(pids), "interval_s": interval_s, "out": str(self._out)}
        return self._tell({"prepare": message})

    def renew(self, facts: ServiceFacts) -> None:
        """Watch a service's new processes; everything else continues."""
        self._tell({"renew": facts.model_dump(mode="json")})

    def sample(self, load: bool | None) -> dict[str, Any]:
        """Read everything now: a load begins, or has ended (False); None: neither."""
        return self._tell({"sample": True, "load": load})

    def _tell(self, message: dict[str, Any]) -> dict[str, Any]:
        from svload.model.messages import Tell

        return self._agent.prepare([Tell(child=CHILD, message=message, timeout_s=PREPARE_S)])[0]


class Sampler:
    """Watches the host and every service from `start` until its agent ends. `problems`: sentences about
    monitors that could not start.

    `cores`: where the process may run (None: anywhere); preferably not those of the servers.
    """

    def __init__(self, agent: Agent, folder: Path, cores: tuple[int, ...] | None = None) -> None:
        out = folder / "monitors.jsonl"
        self._process = SamplerProcess(agent, out, cores)
        self._reader, self._live, self._latest = SeriesReader(out), SeriesReader(out), SeriesReader(out)
        self._interval_s = 1.0
        self._spawned = False
        self._news: list[str] = []
        self.problems: tuple[str, ...] = ()
        self.elsewhere: tuple[MachineWatch, ...] = ()
        """Samplers of other machines: their readings are added to this one's."""

    def spawn(self) -> None:
        """Start the process without waiting. Raise SvloadError agent-refused, agent-lost."""
        self._process.spawn()
        self._spawned = True

    def start(self, facts: Mapping[str, ServiceFacts], interval_s: float = 1.0) -> tuple[str, ...]:
        """Start the process (if it is not running) and its monitors; return their names (`cache.varnish`).
        Raise SvloadError agent-refused, agent-lost."""
        if not self._spawned:
            self.spawn()
        self._interval_s = interval_s
        return self.attach(facts)

    def attach(self, facts: Mapping[str, ServiceFacts]) -> tuple[str, ...]:
        """Watch these services from now on, others or the same restarted; return the monitors' names."""
        here = [one for one in facts.values() if not one.machine]
        ready = [self._process.attach(here, int(os.readlink("/proc/self")), self._interval_s)]
        ready += [watch.attach(list(facts.values()), self._interval_s) for watch in self.elsewhere]
        self.problems = tuple(problem for one in ready for problem in one["problems"])
        return tuple(name for one in ready for name in one["monitors"])

    def renew(self, facts: ServiceFacts) -> None:
        """Watch a service's new processes during a load; everything else continues."""
        if not facts.machine:
            self._process.renew(facts)
        for watch in self.elsewhere:
            watch.renew(facts)

    def mark(self) -> int:
        """Read everything now, and return its time: the first reading of a later slice of `readings`."""
        for watch in self.elsewhere:
            watch.mark()
        return self._sample(load=True)

    def read(self) -> None:
        """Read everything once more, within a load."""
        self._sample(load=None)

    def _sample(self, *, load: bool | None) -> int:
        answer = self._process.sample(load)
        self._news += answer.get("news", ())
        return int(answer["at_ns"])

    def news(self) -> list[str]:
        """Return sentences about what the monitors have found, each once."""
        found, self._news = self._news, []
        return found

    def readings(
        self, marked_ns: int, to_ns: int, origin_ns: int, *, ask: bool = True
    ) -> dict[str, tuple[str, Any]]:
        """Return the readings from the one at `marked_ns` to one not before `to_ns` (CLOCK_MONOTONIC), so
        that counters cover the whole time.

        A table of `model.columns.MONITORS`; `offset_ns` counts from `origin_ns`, so the marked reading's is
        just below zero. Without `ask`, return only this machine's readings that have been written: no wait
        for a sampler that hangs.
        """
        last_ns = max(to_ns, self._sample(load=False)) if ask else to_ns
        own = self._reader.between(marked_ns, last_ns + PASS_NS, origin_ns)
        return together([own, *(watch.readings(origin_ns) for watch in self.elsewhere if ask)])

    def busy_cores(self) -> dict[str, float]:
        """Return each service's busy cores between its last two readings, for a live view; services with
        fewer readings are left out."""
        from_ns = time.monotonic_ns() - round(LIVE_INTERVALS * self._interval_s * 1e9)
        return busy_cores(self._live.between(from_ns, time.monotonic_ns(), 0, "process"))

    def latest(self, from_ns: int, to_ns: int) -> dict[str, tuple[str, Any]]:
        """Return the readings written between two moments of CLOCK_MONOTONIC; offsets count from 0."""
        return self._latest.between(from_ns, to_ns, 0)

    def notes(self) -> list[str]:
        """Return sentences about what could not be read, with when that began and ended."""
        return self._reader.notes()


def busy_cores(table: Mapping[str, tuple[str, Any]]) -> dict[str, float]:
    """Return service → cores busy between the last two readings of its processes' CPU time, from a table of
    `model.columns.MONITORS`."""
    offsets, values = array("q", table["offset_ns"][1]), array("d", table["value"][1])
    services, entities, metrics = (table[name][1] for name in ("service", "entity", "metric"))
    seen: dict[str, list[tuple[int, float]]] = {}
    for row, metric in enumerate(metrics):
        if metric == "cpu_seconds_total" and services[row] and not entities[row]:
            seen.setdefault(services[row], []).append((offsets[row], values[row]))
    found = {}
    for service, readings in seen.items():
        (before_ns, before), (after_ns, after) = (
            readings[-2:] if len(readings) > 1 else (readings[0], readings[0])
        )
        if after_ns > before_ns:
            found[service] = max(0.0, (after - before) / (after_ns - before_ns) * 1e9)
    return found

"""A monitor of a server: its readings, the facts that it is given, and the state of its declared limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tests.servers import wait_until

from svload.analysis.evidence import Readings, declared_clauses, evidence
from svload.analysis.view import Window
from svload.host.machine.linux import process_stat
from svload.model.evidence import Evidence
from svload.model.facts import ServiceFacts
from svload.watch import Monitor, monitors_for


def values(monitor: Monitor) -> dict[str, float]:
    """Return one reading of each metric, whatever its entity."""
    return {one.metric: one.value for one in monitor.sample()}


def by_entity(monitor: Monitor) -> dict[tuple[str, str], float]:
    """Return one reading of each (entity, metric)."""
    return {(one.entity, one.metric): one.value for one in monitor.sample()}


def processes(root: str = "/proc", **pids: int) -> dict[str, Any]:
    """Return the facts of a service that has these processes: name=pid."""
    known = {"service": "web", "processes": list[dict[str, Any]]()}
    for name, pid in pids.items():
        stat = process_stat(pid, root)
        known["processes"].append({"name": name, "pid": pid, "start_ticks": stat.start_ticks})
    return known


def at_port(port: int, *others: int, address: str = "127.0.0.1") -> dict[str, Any]:
    """Return the facts of a service that listens on these ports, without processes of its own."""
    ends = [{"scheme": "http", "address": address, "port": one} for one in (port, *others)]
    return {"service": "web", "processes": [], "endpoints": ends}


class Watched:
    """A monitor of one service, with its readings as a trial keeps them; the load begins with the second."""

    def __init__(
        self, facts: dict[str, Any], name: str, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.clock = clock
        (kind,) = [one for one in monitors_for(facts) if one.name == name]
        self.monitor: Monitor = kind("web", facts)
        self._rows: list[tuple[int, str, str, float]] = []
        self._began_ns = 0
        self.sample()
        self._began_ns = self.clock()

    def sample(self) -> dict[str, float]:
        at_ns = self.clock()
        found = list(self.monitor.sample())
        self._rows += [(at_ns, one.entity, one.metric, one.value) for one in found]
        return {one.metric: one.value for one in found}

    def shown(self) -> Evidence:
        """Return the evidence of all readings so far."""
        at, entities, metrics, values = zip(*self._rows, strict=True)
        offsets = np.array(at) - self._began_ns
        names = {"service": "web", "monitor": self.monitor.name}
        table: dict[str, Any] = {name: np.full(len(at), text, dtype=object) for name, text in names.items()}
        table |= {"entity": np.array(entities, dtype=object), "metric": np.array(metrics, dtype=object)}
        table |= {"offset_ns": offsets, "value": np.array(values)}
        end_ns = int(offsets.max()) + 1
        return evidence(Readings(table), [self.monitor.declared()], Window(0, end_ns, 1), end_ns)

    def until(self, condition: Callable[[dict[str, float]], bool]) -> Evidence:
        def holds() -> bool:
            try:
                return condition(self.sample())
            except OSError:  # a full server may refuse its monitor too
                return False

        wait_until(holds)
        return self.shown()


@contextmanager
def counted(facts: ServiceFacts, name: str, **grown: float) -> Iterator[dict[str, float]]:
    """Check that a monitor reads all its metrics, and these grow so in the block; yield its first reading."""
    watched = Watched({"admin": facts.admin}, name)
    wait_until(lambda: watched.sample().get("threads", 1) > 0)  # Varnish's workers start after its listener
    before = watched.sample()
    assert set(before) == set(type(watched.monitor).metrics)
    yield before

    def since() -> dict[str, float]:
        now = watched.sample()
        return {metric: now[metric] - before[metric] for metric in grown}

    # Varnish adds up a worker's counters when it becomes idle.
    wait_until(lambda: all(value >= grown[metric] for metric, value in since().items()))
    assert since() == grown
    watched.monitor.close()


def saturated(found: Evidence) -> tuple[str, ...]:
    """Return the reasons by which a server would be SATURATED."""
    return tuple(declared_clauses(found))


def states(found: Evidence) -> dict[str, str]:
    """Return clear, approached or reached, by the limit's name."""
    return {one.name: one.state for one in found.limits}


def moved(found: Evidence) -> set[str]:
    """Return the counters of refusals that grew."""
    return {one.counter for one in found.refusals}

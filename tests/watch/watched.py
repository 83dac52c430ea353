"""A monitor of a real server, and the state of its declared limits by its readings."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.servers import wait_until

from svload.analysis.evidence import Readings, declared_clauses, evidence
from svload.analysis.view import Window
from svload.model.evidence import Evidence
from svload.watch import Monitor, monitors_for


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


def saturated(found: Evidence) -> tuple[str, ...]:
    """Return the reasons by which a server would be SATURATED."""
    return tuple(declared_clauses(found))


def states(found: Evidence) -> dict[str, str]:
    """Return clear, approached or reached, by the limit's name."""
    return {one.name: one.state for one in found.limits}


def moved(found: Evidence) -> set[str]:
    """Return the counters of refusals that grew."""
    return {one.counter for one in found.refusals}

"""Are users spread evenly over workers that share a port? The kernel distributes connections by hash
(docs/method.md §3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context
from svload.analysis.view import Window, kept_window
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.store import TrialData


class Spread(NamedTuple):
    """Connections by worker of one service, at the moment with most of them."""

    service: str
    connections: tuple[int, ...]

    @property
    def uneven(self) -> float:
        """The busiest worker's connections over an even share, less one."""
        return max(self.connections) * len(self.connections) / sum(self.connections) - 1


class WorkerSpread(Check):
    """WEAK where the busiest of workers that share a port (SO_REUSEPORT) has more than 1.25 even shares of
    the open connections."""

    name = "worker-spread"
    order = 59

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Judge each service that users keep connections to, at the reading within the window that counted
        most.

        Connections of one request each are distributed again every time, and those of other servers are not
        users'.
        """
        window = kept_window(trial.summary, context.cut.cut_ns)
        mine = trial.monitors["monitor"] == "workers"
        listeners = mine & (trial.monitors["metric"] == "listeners")
        if not np.any(listeners):
            return self.unmeasured("no monitor checked for workers that share a port")
        sharing = sorted(set(trial.monitors["service"][listeners & (trial.monitors["value"] > 1)]))
        if not sharing:
            return self.result("VALID", "No server's workers share a port.", 0.0)
        kept = _kept_to(config)
        sharing = [service for service in sharing if kept is None or service in kept]
        if not sharing:
            return self.result("VALID", "No users keep connections to workers that share a port.", 0.0)
        spreads = [found for service in sharing if (found := _spread(trial, service, window)) is not None]
        if not spreads:
            return self.unmeasured(
                f"the workers of {', '.join(sharing)} share a port, but their connections in the "
                f"kept window were not counted"
            )
        worst = max(spreads, key=lambda one: one.uneven)
        counts = ", ".join(str(count) for count in sorted(worst.connections, reverse=True)[:8])
        return self.result(
            "WEAK" if worst.uneven > limits.UNEVEN_WORKERS else "VALID",
            f"{len(worst.connections)} workers of {worst.service} shared {sum(worst.connections):,} "
            f"connections: {counts}" + (" …" if len(worst.connections) > 8 else "") + ".",
            worst.uneven,
            limits.UNEVEN_WORKERS,
            "Use more connections (or connection: new), or let one process accept for all workers.",
        )


def _kept_to(config: CaseConfig) -> set[str] | None:
    """Return the services to which users keep connections; None where an answer determines the service."""
    groups = [group for group in config.groups if group.connection != "new"]
    requests = [request for group in groups for request in group.requests]
    if any(request.goes_anywhere for request in requests):
        return None
    return {request.host for request in requests}


def _spread(trial: TrialData, service: str, window: Window) -> Spread | None:
    table = trial.monitors
    inside = (table["offset_ns"] >= window.low_ns) & (table["offset_ns"] < window.high_ns)
    rows = np.flatnonzero((table["service"] == service) & (table["metric"] == "connections") & inside)
    by_moment: dict[int, list[int]] = {}
    for at, value in zip(table["offset_ns"][rows], table["value"][rows], strict=True):
        by_moment.setdefault(int(at), []).append(int(value))
    counts = max(by_moment.values(), key=sum, default=[])
    return Spread(service, tuple(counts)) if sum(counts) and len(counts) > 1 else None

"""Does a server work at its limit? What its own monitors show of workers, threads and accept queues over the kept window (METHOD §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.readings import Series, entities, of_monitor
from svload.analysis.view import Window

if TYPE_CHECKING:
    from svload.store import TrialData


def saturated(trial: TrialData, window: Window) -> tuple[str, ...]:
    """A clause for each limit that a service was at; empty where none shows, or none is offered."""
    services = sorted({facts.service for facts in trial.lab.services})
    found = [clause for service in services for clause in _service(trial, service, window)]
    overflows = of_monitor(trial.monitors, "host", "listen_overflows_total").get("")
    if overflows is not None and (lost := overflows.enclosing(window).change) > 0:
        found.append(f"accept queues overflowed {lost:,.0f} times")
    return tuple(found)


def _service(trial: TrialData, service: str, window: Window) -> Iterator[str]:
    busy, workers, queued = (
        _inside(trial, service, name, window) for name in ("in_service", "workers", "queued")
    )
    if (
        busy is not None
        and workers is not None
        and queued is not None
        and len(busy) == len(workers) == len(queued)
    ):
        full = float(np.mean((busy >= workers) & (queued > 0)))
        if full >= limits.WORKERS_FULL:
            yield (
                f"all {workers[-1]:,.0f} workers of {service} were at work and {float(np.mean(queued)):,.3g} requests waited for one "
                f"on average (in {100 * full:.3g} % of its readings)"
            )
    for metric, told in (
        ("threads_limited_total", "reached its most threads"),
        ("sess_dropped_total", "dropped sessions for a full queue"),
    ):
        counted = _series(trial, service, metric)
        if counted is not None and (count := counted.enclosing(window).change) > 0:
            yield f"{service} {told} {count:,.0f} times"


def _inside(trial: TrialData, service: str, metric: str, window: Window) -> NDArray[np.float64] | None:
    """A gauge's readings within the window."""
    series = _series(trial, service, metric)
    if series is None:
        return None
    inside = (series.at >= window.low_ns) & (series.at < window.high_ns)
    values = series.values[inside]
    return values if len(values) else None


def _series(trial: TrialData, service: str, metric: str) -> Series | None:
    mine = (trial.monitors["service"] == service) & (trial.monitors["metric"] == metric)
    return next(iter(entities(trial.monitors, mine)), None)

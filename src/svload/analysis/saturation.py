"""Does a server work at its limit? What its own monitors show of workers, threads and accept queues over the kept window (docs/method.md §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.readings import Series, by_entity, entities, of_monitor
from svload.analysis.view import Window

if TYPE_CHECKING:
    from svload.store import TrialData


def saturated(trial: TrialData, window: Window) -> tuple[str, ...]:
    """A clause for each limit that a service was at; empty where none shows, or none is offered."""
    services = sorted({facts.service for facts in trial.lab.services})
    return tuple(
        clause
        for service in services
        for clause in (*_service(trial, service, window), *_accept_queues(trial, service, window))
    )


def _accept_queues(trial: TrialData, service: str, window: Window) -> Iterator[str]:
    """Ports of the service whose own listening sockets were full, or dropped connections.

    The machine's counter of overflows stands beside as evidence; alone it says nothing, since it counts every program's.
    """
    queue, limit, drops = (
        _by_entity(trial, service, name)
        for name in ("accept_queue", "accept_queue_limit", "accept_drops_total")
    )
    machine = of_monitor(trial.monitors, "host", "listen_overflows_total").get("")
    overflows = machine.enclosing(window).change if machine is not None else None
    for port in sorted(queue.keys() | drops.keys()):
        dropped = drops[port].enclosing(window).change if port in drops else 0.0
        full = _share_full(queue.get(port), limit.get(port), window)
        # A listening socket drops for other reasons too; a full queue shows in the machine's counter at the same time.
        lost = dropped > 0 and overflows != 0
        if lost or full > 0:
            counted = f"; the machine counted {overflows:,.0f} overflows" if overflows else ""
            yield (
                f"the accept queue of {service} (port {port}) was full in {100 * full:.3g} % of its readings and dropped "
                f"{dropped:,.0f} connections{counted}"
            )


def _share_full(queue: Series | None, limit: Series | None, window: Window) -> float:
    """Share of a port's readings in which no further connection could wait: the kernel lets one more in than the limit says."""
    if queue is None or limit is None or len(queue.values) != len(limit.values):
        return 0.0
    inside = (queue.at >= window.low_ns) & (queue.at < window.high_ns)
    return float(np.mean(queue.values[inside] > limit.values[inside])) if inside.any() else 0.0


def _by_entity(trial: TrialData, service: str, metric: str) -> dict[str, Series]:
    mine = (trial.monitors["service"] == service) & (trial.monitors["metric"] == metric)
    return by_entity(trial.monitors, mine & (trial.monitors["monitor"] == "listeners"))


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

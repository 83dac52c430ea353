"""Numbers for criteria on monitors' metrics, over the kept window: `cache.threads_limited`,
`backend.throttled`, `app.fds.max`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from svload.analysis.readings import Monitors, Readings, Series, readings_of, whole_of
from svload.analysis.view import Window
from svload.model.metrics import MetricRef
from svload.model.monitored import Monitored, meanings
from svload.model.results import Estimate

LAST_ASKED = "process"
"""The monitor that a plain name does not refer to where another monitor has a metric of that name: it reads
every service alike."""


def monitored_measures(monitors: Monitors, refs: Iterable[MetricRef], window: Window) -> dict[str, Estimate]:
    """Return numbers by the reference as it is written; references that no monitor read are absent."""
    asked = {str(ref): ref for ref in refs}
    readings = readings_of(monitors)
    found = {name: value_of(readings, ref, window) for name, ref in asked.items()}
    return {name: Estimate(value=value, n=1) for name, value in found.items() if value is not None}


def value_of(readings: Readings, ref: MetricRef, window: Window) -> float | None:
    """Return the number in its base unit; None where it was not read in the window."""
    monitor, _, written = ref.metric.name.rpartition(".")
    named = readings.named(ref.owner)
    by_monitor: dict[str, list[str]] = {}
    for name, metric in named:
        by_monitor.setdefault(name, []).append(metric)
    wanted = [monitor] if monitor else sorted(by_monitor, key=lambda name: (name == LAST_ASKED, name))
    for name in wanted:
        if (meant := meanings(by_monitor.get(name, ())).get(written)) is not None:
            return _number(named[name, meant.metric], meant, ref.stat or "max", window)
    return None


def _number(by_entity: Mapping[str, Series], meant: Monitored, stat: str, window: Window) -> float | None:
    """Return the number: for a counter the growth over all entities, for a counter of seconds its share of
    the time; for a gauge the statistic, by default the largest value."""
    parts = whole_of(by_entity)
    if meant.how != "gauge":
        inside = [one for part in parts if (one := part.enclosing(window)).seconds > 0]
        if not inside:
            return None
        return sum(one.growth / (one.seconds if meant.how == "share" else 1.0) for one in inside)
    values = [part.values[(part.at >= window.low_ns) & (part.at <= window.high_ns)] for part in parts]
    values = [one for one in values if len(one)]
    if not values:
        return None
    together = np.concatenate(values)
    if stat in ("max", "min", "mean"):
        return float(getattr(np, stat)(together))
    return float(np.percentile(together, float(stat[1:]), method="inverted_cdf"))

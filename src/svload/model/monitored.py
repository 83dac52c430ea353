"""How a criterion names a monitor's metric: `cache.threads_limited`, `backend.throttled`, `app.fds.max`;
derived from the metric's name alone.

A monitor's metric ends in its unit, and in `_total` if it counts (svload.watch.monitor). From this follow its
number for a trial, its unit, and the shorter names that a study may use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from svload.model.units import Dimension

How = Literal["growth", "share", "gauge"]
"""What the number is: for a counter of things or bytes its growth in the kept window; for a counter of
seconds the share of the time; for a gauge a statistic."""
_UNITS: tuple[tuple[str, Dimension], ...] = (
    ("_seconds", "time_s"),
    ("_bytes", "size_bytes"),
    ("_ratio", "ratio"),
)


@dataclass(frozen=True)
class Monitored:
    """One metric as criteria use it."""

    metric: str
    """the name that its monitor uses"""
    names: tuple[str, ...]
    """the accepted names: in full, without `_total`, without its unit"""
    how: How
    dimension: Dimension
    """the unit of its value; a share of the time is in %"""
    meaning: str = ""
    """the monitor's description of it"""


def monitored(metric: str, meaning: str = "") -> Monitored:
    """Derive everything from the metric's name."""
    counter = metric.endswith("_total")
    name = metric.removesuffix("_total")
    unit, dimension = next(
        ((suffix, found) for suffix, found in _UNITS if name.endswith(suffix)), ("", "count")
    )
    how: How = "gauge"
    if counter:
        how = "share" if dimension == "time_s" else "growth"
    names = dict.fromkeys((metric, name, name.removesuffix(unit)))
    return Monitored(metric, tuple(names), how, "ratio" if how == "share" else dimension, meaning)


def meanings(metrics: Iterable[str]) -> dict[str, Monitored]:
    """Return name → the metric that it means: the one spelled like it, else the first one that accepts it."""
    found = [monitored(metric) for metric in sorted(metrics)]
    meant: dict[str, Monitored] = {}
    for place in range(3):
        for one in found:
            for name in one.names[place : place + 1]:
                meant.setdefault(name, one)
    return meant

"""How a criterion names what a monitor read: `cache.threads_limited`, `backend.throttled`, `app.fds.max`;
by the metric's own name alone.

A monitor's metric ends in its unit, and in `_total` where it counts (svload.watch.monitor). From that follow
what its number over a trial is, its unit, and the shorter names under which a study may ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from svload.model.units import Dimension

How = Literal["growth", "share", "gauge"]
"""What the number is: how much a counter of things or bytes grew in the kept window; of a counter of seconds
the share of the time; of a gauge a statistic.
"""
_UNITS: tuple[tuple[str, Dimension], ...] = (
    ("_seconds", "time_s"),
    ("_bytes", "size_bytes"),
    ("_ratio", "ratio"),
)


@dataclass(frozen=True)
class Monitored:
    """One metric as a criterion sees it."""

    metric: str
    """its monitor's own name for it"""
    names: tuple[str, ...]
    """how it may be written: whole, without `_total`, without its unit"""
    how: How
    dimension: Dimension
    """the unit that its value is written in; a share of the time in %"""
    meaning: str = ""
    """its monitor's own words for it"""


def monitored(metric: str, meaning: str = "") -> Monitored:
    """What the metric's name says."""
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
    """Written name → the metric of these that it means: one that is spelled so, else the first that may be."""
    found = [monitored(metric) for metric in sorted(metrics)]
    meant: dict[str, Monitored] = {}
    for place in range(3):
        for one in found:
            for name in one.names[place : place + 1]:
                meant.setdefault(name, one)
    return meant

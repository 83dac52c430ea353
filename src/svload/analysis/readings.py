"""Monitors' readings of one trial as the judges ask for them: series by entity, and what a counter did over the kept window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svload.analysis.view import Window

Floats = NDArray[np.float64]
Monitors = Mapping[str, NDArray[Any]]


class Series(NamedTuple):
    """One entity's readings in time order: offsets in ns from the load's start, values in the metric's unit."""

    at: Floats
    values: Floats

    def enclosing(self, window: Window) -> Series:
        """The readings of the window, with the last before it and the first after it: a counter's differences cover all of it."""
        first = max(int(np.searchsorted(self.at, window.low_ns, side="right")) - 1, 0)
        last = min(int(np.searchsorted(self.at, window.high_ns)), len(self.at) - 1)
        return Series(self.at[first : last + 1], self.values[first : last + 1])

    @property
    def seconds(self) -> float:
        """From its first reading to its last."""
        return float(self.at[-1] - self.at[0]) / 1e9 if len(self.at) > 1 else 0.0

    @property
    def change(self) -> float:
        """Last less first."""
        return float(self.values[-1] - self.values[0]) if len(self.at) > 1 else 0.0


def of_monitor(monitors: Monitors, monitor: str, metric: str) -> dict[str, Series]:
    """Every entity's series of one metric of a monitor that reads the machine; empty where it was not read."""
    mine = (monitors["monitor"] == monitor) & (monitors["metric"] == metric)
    return by_entity(monitors, mine & (monitors["service"] == ""))


def entities(monitors: Monitors, mine: NDArray[np.bool_]) -> list[Series]:
    """The chosen rows by entity; the sum over all processes (entity "") stands for them where it is read."""
    found = by_entity(monitors, mine)
    return [found[""]] if "" in found else list(found.values())


def by_entity(monitors: Monitors, mine: NDArray[np.bool_]) -> dict[str, Series]:
    """The chosen rows as one series an entity."""
    at, entity, value = monitors["offset_ns"][mine], monitors["entity"][mine], monitors["value"][mine]
    found = {}
    for name in sorted(set(entity)):
        which = np.flatnonzero(entity == name)
        which = which[np.argsort(at[which], kind="stable")]
        found[str(name)] = Series(at[which].astype(float), value[which].astype(float))
    return found


def mean_rate(series: Series, window: Window) -> float | None:
    """A counter's growth per second over the window, from the readings that enclose it; None with fewer than two."""
    inside = series.enclosing(window)
    return inside.change / inside.seconds if inside.seconds > 0 else None

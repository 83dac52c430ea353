"""Monitors' readings of one trial in the form that judges need: series by entity, and the growth of a counter
over the kept window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
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
        """Return the readings in the window, with the last before it and the first after it, so that a
        counter's differences cover all of it."""
        first = max(int(np.searchsorted(self.at, window.low_ns, side="right")) - 1, 0)
        last = min(int(np.searchsorted(self.at, window.high_ns)), len(self.at) - 1)
        return Series(self.at[first : last + 1], self.values[first : last + 1])

    def standing(self, at: Floats) -> Floats:
        """Return a gauge's most recent value at each moment; 0 before its first reading."""
        latest = np.searchsorted(self.at, at, side="right") - 1
        return np.where(latest >= 0, self.values[np.maximum(latest, 0)], 0.0)

    @property
    def seconds(self) -> float:
        """The time from the first reading to the last."""
        return float(self.at[-1] - self.at[0]) / 1e9 if len(self.at) > 1 else 0.0

    @property
    def growth(self) -> float:
        """The sum of the increases between readings: a counter that restarted in between subtracts
        nothing."""
        return float(np.maximum(np.diff(self.values), 0.0).sum()) if len(self.at) > 1 else 0.0


class Readings:
    """A trial's readings by (service, monitor, metric), then by entity: sorted once, since many are
    requested."""

    def __init__(self, monitors: Monitors) -> None:
        at = monitors["offset_ns"]
        code, names = np.zeros(len(at), dtype=np.int64), []
        for name in ("service", "monitor", "metric", "entity"):
            cells = monitors[name].tolist()
            known = {cell: number for number, cell in enumerate(sorted(set(cells)))}
            names.append(list(known))
            code = code * max(len(known), 1) + np.fromiter(
                map(known.__getitem__, cells), np.int64, len(cells)
            )
        order = np.lexsort((at, code))
        first = np.flatnonzero(np.diff(code[order], prepend=-1))
        at, values = at[order].astype(float), monitors["value"][order].astype(float)
        self._series: dict[tuple[str, str, str], dict[str, Series]] = {}
        for begin, end in pairwise([*first.tolist(), len(order)]):
            left, words = int(code[order[begin]]), []
            for column in reversed(names):
                left, number = divmod(left, len(column))
                words.append(str(column[number]))
            entity, *owner = words
            metric, monitor, service = owner
            of = self._series.setdefault((service, monitor, metric), {})
            of[entity] = Series(at[begin:end], values[begin:end])

    def of(self, service: str, monitor: str, metric: str) -> dict[str, Series]:
        """Return the series by entity; empty where it was not read."""
        return dict(self._series.get((service, monitor, metric), {}))

    def whole(self, service: str, monitor: str, metric: str) -> list[Series]:
        """Return a service's series; where the sum over all processes (entity "") is read, return that."""
        return whole_of(self.of(service, monitor, metric))

    def metric(self, service: str, metric: str) -> dict[str, Series]:
        """Return the series by entity, from whichever monitor read it; empty where none did."""
        found: dict[str, Series] = {}
        for (_, name), by_entity in self.named(service).items():
            found |= by_entity if name == metric else {}
        return found

    def named(self, service: str) -> dict[tuple[str, str], dict[str, Series]]:
        """Return all of a service's metrics: (monitor, metric) → by entity."""
        return {
            (monitor, metric): self.of(service, monitor, metric)
            for owner, monitor, metric in self._series
            if owner == service
        }

    def services_of(self, monitor: str) -> list[str]:
        """Return the services that a monitor read; the machine is the empty name."""
        return sorted({service for service, name, _ in self._series if name == monitor})


def readings_of(monitors: Monitors) -> Readings:
    """Return a trial's readings, sorted once and cached beside its table."""
    beside: dict[str, Any] | None = getattr(monitors, "beside", None)
    if beside is None:
        return Readings(monitors)
    if "readings" not in beside:
        beside["readings"] = Readings(monitors)
    found: Readings = beside["readings"]
    return found


def of_monitor(monitors: Monitors, monitor: str, metric: str) -> dict[str, Series]:
    """Return every entity's series of one metric of a monitor that reads the machine; empty where it was not
    read."""
    return readings_of(monitors).of("", monitor, metric)


def whole_of(by_entity: Mapping[str, Series]) -> list[Series]:
    """Return the sum over all processes (entity "") where it is read, else all entities."""
    return [by_entity[""]] if "" in by_entity else list(by_entity.values())


def mean_rate(series: Series, window: Window) -> float | None:
    """Return a counter's growth per second over the window, from the readings that enclose it; None with
    fewer than two."""
    inside = series.enclosing(window)
    return inside.growth / inside.seconds if inside.seconds > 0 else None


def total_rate(several: Iterable[Series], window: Window) -> float | None:
    """Return the total growth per second; None where none of them was read."""
    rates = [rate for series in several if (rate := mean_rate(series, window)) is not None]
    return sum(rates) if rates else None

"""Every monitored quantity of a trial as a line over time, with its wording. Needs numpy: import late."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.model.units import Dimension

Floats = NDArray[np.float64]
BINS = 60
"""Maximum number of points of a line over time."""

MACHINE = "machine"
ALL_CORES, HOTTEST_CORE = "all cores", "hottest core"
CPU = ("process", "cpu_seconds_total")
MEMORY = ("process", "rss_bytes")
_CORE = re.compile(r"cpu\d+")


@dataclass(frozen=True)
class Series:
    """A line over time: seconds from the load's start and values; a NaN breaks the line."""

    at_s: Floats
    values: Floats


@dataclass(frozen=True, order=True)
class Resource:
    """One monitored quantity. `service` is empty for the machine; `entity` is a disk, interface or process,
    empty for the whole.

    There are two for the machine's cores: `all cores` (their sum) and `hottest core` (the busiest at each
    moment).
    """

    service: str
    monitor: str
    metric: str
    entity: str = ""

    @property
    def owner(self) -> str:
        """The service, or `machine`."""
        return self.service or MACHINE

    @property
    def counter(self) -> bool:
        """Whether it is a counter, shown as its rate per second."""
        return self.metric.endswith("_total")

    @property
    def dimension(self) -> Dimension:
        """The dimension of what is shown. A rate of seconds is a number: of cores or
        workers busy, or a share of the time."""
        name = self.metric.removesuffix("_total")
        if name.endswith("_bytes"):
            return "size_bytes"
        if name.endswith("_seconds"):
            return "count" if self.counter else "time_s"
        if name.endswith("_ratio"):
            return "ratio"
        return "rate_rps" if self.counter else "count"

    @property
    def label(self) -> str:
        """The text shown, with its unit if the axis cannot show it: `received bytes a second, eth0`."""
        name = self.metric.removesuffix("_total")
        words = name.removesuffix("_seconds").removesuffix("_ratio").replace("_", " ")
        if self.counter:
            words += _per_second(self) if name.endswith("_seconds") else " a second"
        return f"{words}, {self.entity}" if self.entity else words

    @property
    def meaning(self) -> str:
        """The monitor's description of it; empty if the monitor is not installed."""
        return meanings().get((self.monitor, self.metric), "")


def _per_second(resource: Resource) -> str:
    cores = resource.entity in (ALL_CORES, HOTTEST_CORE) or (resource.monitor, resource.metric) == CPU
    return ", cores" if cores else ", seconds a second"


@cache
def meanings() -> dict[tuple[str, str], str]:
    """Return (monitor, metric) → the monitor's description of it."""
    from svload.watch import load_monitors

    return {
        (monitor.name, metric): text
        for monitor in load_monitors()
        for metric, text in monitor.metrics.items()
    }


MACHINE_CPU = Resource("", "host", "busy_seconds_total", ALL_CORES)


def resources_of(monitors: Mapping[str, NDArray[Any]], end_ns: int) -> dict[Resource, Series]:
    """Return every series of a trial's `monitors` table, counters as rates, on at most `BINS` points between
    the load's start and `end_ns`."""
    readings: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    columns = (monitors[name].tolist() for name in ("service", "monitor", "metric", "entity"))
    for row, (service, monitor, metric, entity) in enumerate(zip(*columns, strict=True)):
        readings.setdefault((service, monitor, metric), {}).setdefault(entity, []).append(row)
    offset, value = monitors["offset_ns"], monitors["value"]
    found: dict[Resource, Series] = {}
    for (service, monitor, metric), by_entity in readings.items():
        whole = Resource(service, monitor, metric)
        lines = {
            entity: _line(offset[rows], value[rows], whole.counter) for entity, rows in by_entity.items()
        }
        for entity, line in _entities(lines).items():
            series = _within(line, end_ns)
            if len(series.at_s):
                found[Resource(service, monitor, metric, entity)] = series
    return found


def monitors_cpu(monitors: Mapping[str, NDArray[Any]]) -> float | None:
    """Return the CPU of all monitors over the time from the first to the last of their readings; None if that
    time is zero.

    Each reading gives its share of the time since the previous one, and these times differ: the trial's first
    and last readings come just after others.
    """
    mine = (
        (monitors["service"] == "") & (monitors["monitor"] == "sampler") & (monitors["metric"] == "cpu_ratio")
    )
    order = np.argsort(monitors["offset_ns"][mine], kind="stable")
    gaps_ns = np.diff(monitors["offset_ns"][mine][order])
    shares = monitors["value"][mine][order][1:]
    return float(shares @ gaps_ns / gaps_ns.sum()) if gaps_ns.sum() else None


def _entities(lines: dict[str, Series]) -> dict[str, Series]:
    """Return the lines by entity; cores as their sum and their busiest; a part that is the only one is left
    out, since it equals the whole."""
    if all(_CORE.fullmatch(entity) for entity in lines):
        return {ALL_CORES: _joined(lines, np.sum), HOTTEST_CORE: _joined(lines, np.max)}
    return {"": lines[""]} if "" in lines and len(lines) == 2 else lines


def _joined(lines: Mapping[str, Series], how: Callable[..., Any]) -> Series:
    first = next(iter(lines.values()))
    if not len(first.at_s):
        return first
    table = [np.interp(first.at_s, line.at_s, line.values) for line in lines.values() if len(line.at_s)]
    return Series(first.at_s, np.asarray(how(np.array(table), axis=0), dtype=np.float64))


def _line(offset_ns: NDArray[Any], value: NDArray[Any], counter: bool) -> Series:
    """Return readings in order of time; a counter's rate per second between them, at their middles."""
    order = np.argsort(offset_ns, kind="stable")
    at, held = offset_ns[order].astype(np.float64) / 1e9, value[order].astype(np.float64)
    if not counter:
        return Series(at, held)
    gap = np.diff(at)
    usable = gap > 0
    rate = np.maximum(
        np.diff(held)[usable] / gap[usable], 0.0
    )  # a counter that was reset has no negative rate
    return Series(((at[1:] + at[:-1]) / 2)[usable], rate)


def _within(line: Series, end_ns: int) -> Series:
    """Return the part of the line within the trial; beyond `BINS` points the means of equal slices."""
    inside = (line.at_s >= 0) & (line.at_s <= end_ns / 1e9)
    at, values = line.at_s[inside], line.values[inside]
    if len(at) <= BINS:
        return Series(at, values)
    starts = np.linspace(0, len(at), BINS + 1).astype(np.int64)[:-1]
    sizes = np.diff(np.append(starts, len(at)))
    return Series(np.add.reduceat(at, starts) / sizes, np.add.reduceat(values, starts) / sizes)

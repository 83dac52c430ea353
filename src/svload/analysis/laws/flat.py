"""Saturation as levels show it: more load without more throughput, while response rises (docs/method.md §3,
the server; §4, the gain rule).

The gain between two levels is d ln X / d ln load. Below 0.1, over levels at least a factor of 1.25 apart with
throughputs that differ by 5 % at most, throughput is flat. Both levels are then at the server's limit, the
lower one too: requests beyond it wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from svload.analysis import limits
from svload.analysis.inference import welch_interval
from svload.analysis.laws.levels import Kind, Level, offered


def gain(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Return d ln X / d ln load between two (load, throughput)."""
    return log(second[1] / first[1]) / log(second[0] / first[0])


def flat_levels(levels: Sequence[Level], kind: Kind) -> tuple[Level, ...]:
    """Return the levels at which throughput is flat and response rises, from the least load on; none where
    there is no such pair."""
    loads = offered(levels, kind)
    order = sorted(range(len(levels)), key=lambda at: loads[at])
    found: set[int] = set()
    for place, low in enumerate(order):
        for high in order[place + 1 :]:
            if _is_flat(levels[low], levels[high], loads[low], loads[high]):
                # All levels between them ask for more than the lower one, and get no more than the higher one.
                found |= set(order[place : order.index(high) + 1])
    return tuple(levels[at] for at in order if at in found)


def _is_flat(low: Level, high: Level, low_load: float, high_load: float) -> bool:
    if low_load <= 0 or high_load < limits.LOADS_APART * low_load * (1 - 1e-9):
        return False
    grown = log(high.throughput_rps / low.throughput_rps)
    flat = gain((low_load, low.throughput_rps), (high_load, high.throughput_rps)) < limits.GAIN
    return flat and grown <= log(1 + limits.FLAT) and _rises(low, high)


def _rises(low: Level, high: Level) -> bool:
    """Return whether response is surely longer at the higher load; with single runs, by more than 5 %."""
    logs = [np.log([run.response_s for run in level.runs]) for level in (high, low)]
    difference, interval = welch_interval(logs[0], logs[1])
    return interval[0] > 0 if interval else difference > log(1 + limits.FLAT)


def plateau_rps(levels: Sequence[Level]) -> float | None:
    """Return the mean throughput of flat levels."""
    return float(np.mean([run.throughput_rps for level in levels for run in level.runs])) if levels else None

"""From values to positions, and the places of ticks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, isfinite, log10

from svload.model.units import Dimension
from svload.report.told.spelling import show_value, unit_for

_HALF_DECADE = 3.0


@dataclass(frozen=True)
class Scale:
    """[low, high] mapped onto [start, end] of the drawing; logarithmic or linear. Values beyond are
    clipped."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value."""
        at, low, high = (
            (log10(max(v, 1e-300)) for v in (value, self.low, self.high))
            if self.log
            else (value, self.low, self.high)
        )
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, most: int = 6, dimension: Dimension = "count") -> list[float]:
        """Return values within the scale that are round in the unit in which `dimension` is shown. A
        logarithmic scale over less than half a decade has evenly spaced ones too."""
        if self.log and self.high > _HALF_DECADE * self.low:
            return log_ticks(self.low, self.high, most)
        factor = unit_for(self.high, dimension)[1]
        return [tick * factor for tick in linear_ticks(self.low / factor, self.high / factor, most)]


def apart(places: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """Move places so that neighbours are `least` apart, each as near to its original place as possible, all
    in [low, high] if they fit.

    Returned in the given order. Neighbours that are too near form a block, centred on the mean of their
    original places.
    """
    order = sorted(range(len(places)), key=lambda at: places[at])
    blocks: list[tuple[float, int]] = []  # mean place of its first, count
    for index in order:
        first, count = min(max(places[index], low), high), 1
        while blocks and first - blocks[-1][0] < blocks[-1][1] * least:
            before, earlier = blocks.pop()
            first = (before * earlier + (first - earlier * least) * count) / (earlier + count)
            count += earlier
            first = min(max(first, low), max(low, high - (count - 1) * least))
        blocks.append((first, count))
    spread = [first + step * least for first, count in blocks for step in range(count)]
    moved = [0.0] * len(places)
    for index, place in zip(order, spread, strict=True):
        moved[index] = place
    return moved


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return multiples of 1, 2 or 5 · 10ⁿ in [low, high], at most about `most`."""
    if not high > low:
        return [low]
    raw = (high - low) / max(most - 1, 1)
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = ceil(low / step - 1e-9)
    return [n * step for n in range(first, floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return powers of ten, with 2 and 5 between them if there is room."""
    found: list[float] = []
    for factors in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
        exponents = range(floor(log10(low)), ceil(log10(high)) + 1)
        found = [
            f * 10.0**e for e in exponents for f in factors if low * 0.999 <= f * 10.0**e <= high * 1.001
        ]
        if len(found) <= most:
            break
    return found


def around(values: Iterable[float], log: bool, start: float, end: float, zero: bool = False) -> Scale | None:
    """Return a scale that holds all finite values with a margin; None without any. On a log scale only values
    above 0 count."""
    usable = [value for value in values if isfinite(value) and (value > 0 or not log)]
    if not usable:
        return None
    low, high = min(usable), max(usable)
    if log:
        if high / low < 1.2:
            low, high = low / 1.2, high * 1.2
        air = (high / low) ** 0.06
        return Scale(low / air, high * air, start, end, True)
    if zero:
        return Scale(min(low, 0.0), high * 1.08 or 1.0, start, end)
    air = (high - low or abs(high) or 1.0) * 0.08
    return Scale(low - air, high + air, start, end)


def tick_texts(ticks: list[float], dimension: Dimension) -> list[str]:
    """Return texts of evenly spaced ticks, all in the unit of the largest, with as many decimals as their
    step needs."""
    unit, factor = unit_for(max(ticks, key=abs, default=0.0), dimension)
    shown = [tick / factor for tick in ticks]
    step = min((b - a for a, b in pairwise(shown)), default=abs(shown[0]) if shown else 1.0)
    enough = (
        decimals for decimals in range(10) if all(abs(round(v, decimals) - v) <= step * 1e-6 for v in shown)
    )
    decimals = next(enough, 9)
    texts = [f"{value:,.{decimals}f}" for value in shown]
    space = "" if unit.startswith("/") else " "
    return [
        "0" if tick == 0 else text + (space + unit if unit else "")
        for tick, text in zip(ticks, texts, strict=True)
    ]


def own_unit_texts(ticks: list[float], dimension: Dimension) -> list[str]:
    """Return texts of ticks, each in the unit that suits it: `500 µs`, `1 ms`, `2 s`."""
    return [show_value(round(tick, 12), dimension) for tick in ticks]


TAIL_STOPS = (0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)


def tail_position(p: float) -> float:
    """Return the position of a percentile on a logarithmic tail, −log₁₀(1 − p), so that p90, p99, p99.9 are
    evenly spaced."""
    return -log10(max(1.0 - p, 1e-12))

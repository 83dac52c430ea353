"""The load at which a margin is 0: a line of margin on log load over all trials near it, a jackknife over
rounds.

A margin is the logarithm of the distance to the limit, positive where the criterion holds, and cut at ±
FARTHEST: a trial far from the limit shows on which side it lies, but not where the limit is. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from svload.analysis.inference import jackknife_error, t_reach
from svload.analysis.limits import TAIL

FARTHEST = 0.7
"""A margin beyond this (a factor of two) is cut."""
_FEWEST = 8
"""Trials of a line; where fewer lie within reach of the limit, the nearest ones are used."""
_NARROWEST = 0.005
"""The least scatter of margins that is believed."""
_FLATTEST = 0.3
_FALLS = 0.1
_SLOPES = -np.geomspace(0.1, 20, 16)
_PLACES = 80
_FARTHEST_AWAY = 3.0
"""A line that reaches 0 further away from its trials than this (as log load) is no answer."""
_WRONG = 0.2
"""Share of the trials clearly on one side of the limit that may lie on the other side of the line: with more,
there is no line."""
_FAR_OFF = 3.5
"""Standard deviations (by the median) from the line: such a trial is an outlier, and reported."""

_STEEPNESS = np.geomspace(3, 60, 30)
"""Steepness of the chance that a trial breaks, over log load: all equally likely before any trial. From 3 (a
tenth of the trials break at half the limit) to 60 (a twentieth at 5 % below it)."""
_BEYOND = 1.0
"""How far outside its trials, as log load, a limit is searched for."""
_MATTERS = 3.0
"""How much better the log likelihood must be than with the same chance of breaking at all loads."""
_JUMPS = 0.75

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """A trial: the logarithm of its load, its margin, the round that it belongs to, and its weight."""

    x: float
    margin: float
    round: int
    weight: float = 1.0


@dataclass(frozen=True)
class Line:
    """Where the margin is 0, and its slope there, over log load. `drift`: how far this load moved, as log."""

    zero: float
    slope: float
    drift: float = 0.0


@dataclass(frozen=True)
class Limit:
    """The limit with its 95 % interval, as loads; `drift` as a share of it, 0 where chance explains it."""

    value: float
    low: float
    high: float
    drift: float = 0.0
    far_off: int = 0
    """Trials so far from the line that they are left out of it."""
    by_outcome: bool = False
    """The limit comes from which trials held and which broke: there is no line."""

    @property
    def width(self) -> float:
        """0.1: the upper end is 10 % above the lower one."""
        return self.high / self.low - 1


def cut(margin: float) -> float:
    """Clip to ± FARTHEST."""
    return min(max(margin, -FARTHEST), FARTHEST)


def line_of(points: Sequence[Point]) -> Line | None:
    """Return the line through these points; None where it does not fall, or there are too few."""
    return _fitted(*_arrays(points), None) if len(points) >= 3 else None


def limit_of(points: Sequence[Point]) -> Limit | None:
    """Return the limit by a line of the margins. None where they jump: where most lie beyond ± FARTHEST, a
    line through the few between has no meaning."""
    jumps = sum(abs(one.margin) >= FARTHEST for one in points) >= _JUMPS * len(points)
    return None if jumps else _by_line(points)


def limit_by_outcome(points: Sequence[Point]) -> Limit | None:
    """Return where half of the trials break, by a logistic curve over log load: the median and the middle 95
    % of the posterior of its place, over all steepnesses. Meant for servers that refuse above a number of
    connections, with margins that show on which side of the limit a load lies, and no more. None where all
    trials have the same outcome."""
    x = np.array([one.x for one in points])
    breaks = np.array([one.margin < 0 for one in points])
    if not breaks.any() or breaks.all():
        return None
    places = np.linspace(x.min() - _BEYOND, x.max() + _BEYOND, 20 * _PLACES)
    away = _STEEPNESS[:, None, None] * (x - places[:, None])
    likelihood = -np.logaddexp(0, np.where(breaks, -away, away)).sum(axis=2)
    share = breaks.mean()
    flat = len(x) * (share * log(share) + (1 - share) * log(1 - share))
    if likelihood.max() - flat < _MATTERS:
        return None
    chance = np.exp(likelihood - likelihood.max()).sum(axis=0)
    below = np.cumsum(chance) / chance.sum()
    low, value, high = (float(places[np.searchsorted(below, at)]) for at in (TAIL, 0.5, 1 - TAIL))
    return Limit(exp(value), exp(low), exp(high), by_outcome=True)


def _by_line(points: Sequence[Point]) -> Limit | None:
    """Return the limit and its interval, t over rounds left out one by one. None where some rounds leave no
    falling line.

    A trend over time is part of the line where it is certain; the interval is then about the middle of the
    search, and covers the limit at either end. Rounds that resemble the one before count as fewer.
    """
    of = np.array([one.round for one in points])
    rounds = np.unique(of)
    n = len(rounds)
    if n < 3:
        return None
    x, y, weight = _arrays(points)
    when = np.arange(len(points), dtype=float) / len(points) - 0.5
    near, far_off = _near(x, y)
    if not near.any():
        return None
    time = when if _drifts(x[near], y[near], when[near]) else None
    whole = _fitted(x, y, weight, time)
    left = [
        _fitted(x[of != one], y[of != one], weight[of != one], None if time is None else time[of != one])
        for one in rounds
    ]
    if whole is None or any(one is None for one in left):
        return None
    error, slopes = (
        jackknife_error([found for one in left if one is not None for found in (one.zero, one.slope)][at::2])
        for at in (0, 1)
    )
    t = t_reach(n - 1)
    if whole.slope + t_reach(n - 1, _FALLS) * slopes >= 0:
        return None  # it is not certain that the load has an effect at all
    error = max(error, _NARROWEST / sqrt(near.sum()) / max(-whole.slope, _FLATTEST))
    moved = 0.0 if time is None else whole.drift * time[near]
    residuals = y[near] - whole.slope * (x[near] - whole.zero - moved)
    error *= _widened(
        np.array([residuals[of[near] == one].mean() for one in rounds if (of[near] == one).any()])
    )
    reach = t * error + abs(whole.drift) / 2
    if reach > _FARTHEST_AWAY:
        return None
    drift = exp(whole.drift) - 1
    return Limit(exp(whole.zero), exp(whole.zero - reach), exp(whole.zero + reach), drift, far_off)


def _fitted(x: Floats, y: Floats, weight: Floats, time: Floats | None) -> Line | None:
    near, _ = _near(x, y)
    return _line(x[near], y[near], weight[near], None if time is None else time[near])


def _arrays(points: Sequence[Point]) -> tuple[Floats, Floats, Floats]:
    found = np.array([(one.x, cut(one.margin), one.weight) for one in points])
    return found[:, 0], found[:, 1], found[:, 2]


def _near(x: Floats, y: Floats) -> tuple[NDArray[np.bool_], int]:
    """Return the trials that the line goes through: those where a first, robust line lies within ± FARTHEST,
    chosen by their load and never by what they measured; without the few outliers, which are counted."""
    places = np.linspace(x.min(), x.max(), _PLACES)
    lines = np.clip(_SLOPES[:, None, None] * (x - places[:, None]), -FARTHEST, FARTHEST)
    misses = np.abs(lines - y).sum(axis=2)
    slope, place = np.unravel_index(int(misses.argmin()), misses.shape)
    expected = _SLOPES[slope] * (x - places[place])
    clear = np.abs(expected) >= FARTHEST / 2
    if (clear & (expected * y < 0)).sum() > max(_WRONG * clear.sum(), 2):
        return np.zeros(len(x), dtype=bool), 0  # no line describes these trials
    nearest = np.argsort(np.abs(expected), kind="stable")
    near = np.abs(expected) < FARTHEST
    near[nearest[:_FEWEST]] = True
    apart = np.abs(np.clip(expected, -FARTHEST, FARTHEST) - y)
    allowed = _FAR_OFF * max(1.48 * float(np.median(apart[near])), 0.03)
    far = near & (apart > allowed)
    if far.sum() > near.sum() / 4:
        return near, 0
    return near & ~far, int(far.sum())


def _line(x: Floats, y: Floats, weight: Floats, time: Floats | None) -> Line | None:
    """Fit by least squares; with `time` (from −½ to ½) including a trend."""
    if len(x) < 3 or np.ptp(x) == 0:
        return None
    middle = float(x.mean())
    columns = [np.ones(len(x)), x - middle] + ([] if time is None else [time])
    root = np.sqrt(weight)
    found, _, rank, _ = np.linalg.lstsq(np.column_stack(columns) * root[:, None], y * root, rcond=None)
    if rank < len(columns) or found[1] >= 0:
        return None
    drift = 0.0 if time is None else float(-found[2] / found[1])
    away = float(-found[0] / found[1])
    return (
        Line(middle + away, float(found[1]), drift) if max(abs(away), abs(drift)) < _FARTHEST_AWAY else None
    )


def _drifts(x: Floats, y: Floats, time: Floats) -> bool:
    """Return whether margins surely change with time, apart from the load."""
    columns = np.column_stack([np.ones(len(x)), x - x.mean(), time])
    free = len(x) - 3
    found, _, rank, _ = np.linalg.lstsq(columns, y, rcond=None)
    if free < 5 or rank < 3:
        return False
    variance = float(((y - columns @ found) ** 2).sum()) / free * np.linalg.inv(columns.T @ columns)[2, 2]
    return bool(abs(found[2]) > t_reach(free) * sqrt(variance)) if variance > 0 else False


def _widened(means: Floats) -> float:
    """Return the factor by which an error grows where neighbouring rounds resemble each other (AR(1), bias
    corrected)."""
    apart = means - means.mean()
    total = float((apart**2).sum())
    if len(means) < 4 or total == 0:
        return 1.0
    likeness = float((apart[1:] * apart[:-1]).sum()) / total + 1 / len(means)
    likeness = min(max(likeness, 0.0), 0.8)
    return sqrt((1 + likeness) / (1 - likeness))

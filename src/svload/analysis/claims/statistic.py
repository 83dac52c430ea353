"""The one statistic of a claim (docs/method.md §2), on arrays of log ratios: weights, effect, standard error,
p and interval.

Log ratios are in an array [..., case, block]; NaN where there is no pair. `unit` gives the independent unit
of each block. Any axes before these two are separate data sets: the simulation of benches/claims.py judges
thousands in one call with the functions that judge a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, stdtr, stdtrit

from svload.analysis import limits

Floats = NDArray[np.float64]
_NOTHING = 1e-12
"""A log ratio that is only rounding."""


class Effect(NamedTuple):
    """A mean log ratio with its standard error over `units` independent units; NaN where there are too
    few. `kept`: cases that count."""

    mean: Floats
    se: Floats
    units: NDArray[np.int64]
    kept: NDArray[np.bool_]


def effect_of(
    logs: ArrayLike, unit: ArrayLike, weight: Floats | None = None, least: ArrayLike = 0.0
) -> Effect:
    """Return the mean over cases of the weighted mean of each case's pairs, with its standard error by
    leaving out one unit at a time (jackknife).

    A case with pairs in fewer than `CASE_UNITS` units does not count. `least`: the minimal scatter of one
    pair, since its numbers lie on a lattice: units that agree exactly are no proof (docs/method.md §2).
    """
    y = np.asarray(logs, dtype=float)
    units, place = np.unique(np.asarray(unit), return_inverse=True)
    belongs = (place[:, None] == np.arange(len(units))).astype(float)
    there = ~np.isnan(y)
    w = there.astype(float) if weight is None else np.where(there, weight, 0.0)
    sums, counts = (w * np.where(there, y, 0.0)) @ belongs, w @ belongs
    kept = (counts > 0).sum(axis=-1) >= limits.CASE_UNITS
    sums, counts = sums * kept[..., None], counts * kept[..., None]
    total, number = sums.sum(axis=-1), counts.sum(axis=-1)
    alive = counts.sum(axis=-2) > 0
    n = alive.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cases = kept.sum(axis=-1)
        mean = np.where(kept, total / number, 0.0).sum(axis=-1) / cases
        without = (total[..., None] - sums) / (number[..., None] - counts)
        left = np.where(kept[..., None], without, 0.0).sum(axis=-2) / cases[..., None]
        centre = np.where(alive, left, 0.0).sum(axis=-1) / n
        spread = np.where(alive, (left - centre[..., None]) ** 2, 0.0).sum(axis=-1)
        se = np.maximum(np.sqrt((n - 1) / n * spread), np.asarray(least) / np.sqrt(n))
    se = np.where(n >= 2, se, np.nan)
    return Effect(np.asarray(mean), np.asarray(se), np.asarray(n), kept)


def p_of(effect: Effect) -> Floats:
    """Return the two-sided p of "no difference", t with one degree of freedom less than units; NaN below
    `CLAIM_BLOCKS` units."""
    return p_of_distance(effect.mean, effect)


def p_of_distance(distance: ArrayLike, effect: Effect) -> Floats:
    """Return the same p for a given distance, such as the effect's from a gate's margin."""
    far = np.where(np.abs(distance) < _NOTHING, 0.0, np.abs(distance))
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(far == 0.0, 0.0, far / effect.se)
        p = 2.0 * stdtr(np.maximum(effect.units - 1, 1), -t)
    return np.where(effect.units >= limits.CLAIM_BLOCKS, p, np.nan)


def half_width(effect: Effect, claims: int = 1) -> Floats:
    """Return half of the 95 % interval of one claim, or of each of `claims` together (Bonferroni); NaN below
    `CLAIM_BLOCKS` units."""
    reach = stdtrit(np.maximum(effect.units - 1, 1), 1 - limits.TAIL / claims)
    return np.where(effect.units >= limits.CLAIM_BLOCKS, reach * effect.se, np.nan)


def fits_of(
    logs: Floats,
    clean: Floats,
    broken: NDArray[np.bool_],
    weight: Floats,
    unit: ArrayLike,
    least: ArrayLike = 0.0,
) -> tuple[Effect, ...]:
    """Return the effect as measured, without the generator's delays (`clean`), and each with all broken pairs
    at the least and at the greatest ratio of the others: what a treatment may have broken is never
    ignored."""
    sets = [logs] if np.array_equal(logs, clean, equal_nan=True) else [logs, clean]
    if broken.any():
        ends = (np.nanmin, np.nanmax)
        sets += [
            np.where(broken, end(one, (-2, -1), keepdims=True), one) for one in tuple(sets) for end in ends
        ]
    return tuple(effect_of(one, unit, np.where(broken, 1.0, weight), least) for one in sets)


def largest_p(fits: Sequence[Effect]) -> Floats:
    """Return the largest p of the fits; 1 where their signs differ; NaN with too few units."""
    above = np.array([one.mean > 0 for one in fits])
    same = (above == above[0]).all(axis=0)
    p = np.max([p_of(one) for one in fits], axis=0)
    return np.where(same | np.isnan(p), p, 1.0)


def span(fits: Sequence[Effect], claims: int = 1) -> tuple[Floats, Floats]:
    """Return the interval over all fits: 95 % for one claim, or for each of `claims` together."""
    halves = [half_width(one, claims) for one in fits]
    return (
        np.min([one.mean - half for one, half in zip(fits, halves, strict=True)], axis=0),
        np.max([one.mean + half for one, half in zip(fits, halves, strict=True)], axis=0),
    )


def apart(alike: Effect, low: float | None, high: float | None) -> NDArray[np.bool_]:
    """Return whether the effect with all pairs weighed alike lies beyond a margin, and is surely not zero:
    weights, or a mean that a few bad trials hardly move, would hide it."""
    over = alike.mean > (np.inf if high is None else high)
    under = alike.mean < (-np.inf if low is None else low)
    return np.asarray((over | under) & (p_of(alike) < limits.APART_P))


def calm_at(p: float) -> float:
    """Return the share of the machine used by other programs at which a pair of percentile `p` weighs half: a
    burst affects a tail more than a median. A mean counts as the median."""
    tail = max(limits.CALM_TAIL, limits.DILUTION * (1 - p))
    return limits.CALM if p < limits.TAIL_FROM else tail


def weights(strangers: ArrayLike, p: float = 0.5) -> Floats:
    """Return [..., case, block]: the weight of each pair, by the share of the machine that other programs had
    beside each of its trials, [..., case, block, side]; baselines and treatments in turn.

    Both sides' means are made equal first: otherwise a build that leaves less to other programs would give
    more weight to its disturbed pairs. All weigh alike where other programs lean to one side (`leaning`), or
    where a share that is needed is not known (NaN).
    """
    x = np.asarray(strangers, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        side = np.stack([_mean_of_side(x, one) for one in (0, 1)], axis=-1)
        factor = (limits.EVEN + side.mean(axis=-1, keepdims=True)) / (limits.EVEN + side)
    even = x * np.take(factor, np.arange(x.shape[-1]) % 2, axis=-1)[..., None, None, :]
    found = 1 / (1 + (even.max(axis=-1) / calm_at(p)) ** 2)
    alike = leaning(x) < limits.LEANING
    return np.where(alike[..., None, None] | np.isnan(found), 1.0, found)


def _mean_of_side(x: Floats, side: int) -> Floats:
    mine = x[..., side::2]
    known = ~np.isnan(mine)
    return np.asarray(np.where(known, mine, 0.0).sum((-3, -2, -1)) / known.sum((-3, -2, -1)))


def leaning(strangers: ArrayLike) -> Floats:
    """Return p of the sign test on which side of each pair other programs had more of the machine; 1 where
    all lie within `UNEQUAL`."""
    x = np.asarray(strangers, dtype=float)
    apart = x[..., 1::2].mean(axis=-1) - x[..., ::2].mean(axis=-1)
    more, less = ((sign * apart > limits.UNEQUAL).sum((-2, -1)) for sign in (1, -1))
    n = more + less
    return np.where(n > 0, np.minimum(2 * bdtr(np.minimum(more, less), n, 0.5), 1.0), 1.0)


def dilution(strangers: ArrayLike, weight: Floats, p: float = 0.5) -> Floats:
    """Return the share of a log ratio by which other programs pull it towards 0 at most: waits that are added
    to both sides.

    Fitted on simulated bursts of all lengths, so that a build at a gate's margin passes in at most 3 %
    (benches/claims.py). 0 where no share is known.
    """
    worse = np.asarray(strangers, dtype=float).max(axis=-1)
    known = ~np.isnan(worse)
    w = np.where(known, weight, 0.0)
    total = w.sum((-2, -1))
    mean = (w * np.where(known, worse, 0.0)).sum((-2, -1)) / np.maximum(total, _NOTHING)
    return np.asarray(limits.DILUTION * mean / (1 - p))


def stretched(low: ArrayLike, high: ArrayLike, pull: ArrayLike) -> tuple[Floats, Floats]:
    """Return an interval as it may be without other programs, which pull a log ratio towards 0 by the share
    `pull`: its ends are further from 0, and infinite where other programs had too much for any answer."""
    rest = 1 - np.minimum(pull, limits.DILUTION_MOST)
    too_much = np.asarray(pull) > limits.DILUTION_MOST
    far = (np.where(np.asarray(end) * sign > 0, end / rest, end) for end, sign in ((low, -1), (high, 1)))
    lower, upper = far
    return np.where(too_much, -np.inf, lower), np.where(too_much, np.inf, upper)

"""The one statistic of a claim (docs/method.md §2), on arrays of log ratios: effect, standard error, p and interval.

Log ratios stand in an array [..., case, slot]; NaN where a pair was lost. A slot is a block, or a pair that
was made anew; `unit` says which independent unit each slot belongs to. Any axes before these two are separate
data sets: the simulation of benches/claims.py judges thousands at once with the functions that judge a run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from svload.analysis import limits

Floats = NDArray[np.float64]
_NOTHING = 1e-12
"""A log ratio that is rounding."""


class Effect(NamedTuple):
    """A mean log ratio with its standard error over `units` independent units; NaN where there are too
    few. `kept`: cases that count."""

    mean: Floats
    se: Floats
    units: NDArray[np.int64]
    kept: NDArray[np.bool_]


def effect_of(logs: ArrayLike, unit: ArrayLike) -> Effect:
    """Mean over cases of the mean of each case's pairs; its standard error by leaving out
    one unit at a time (jackknife).

    A case with pairs in fewer than `CASE_UNITS` units does not count. Where nothing is missing and each slot
    is a unit of its own, mean and error are those of the block means.
    """
    y = np.asarray(logs, dtype=float)
    units, place = np.unique(np.asarray(unit), return_inverse=True)
    belongs = (place[:, None] == np.arange(len(units))).astype(float)
    there = ~np.isnan(y)
    sums = np.where(there, y, 0.0) @ belongs
    counts = there.astype(float) @ belongs
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
        se = np.sqrt((n - 1) / n * spread)
    se = np.where(n >= 2, se, np.nan)
    return Effect(np.asarray(mean), np.asarray(se), np.asarray(n), kept)


def p_of(effect: Effect, bound: ArrayLike = 0.0) -> Floats:
    """Two-sided p of "no difference", t with one degree of freedom less than units; NaN below `CLAIM_BLOCKS` units.

    `bound`: so far the numbers themselves may be off against the effect; the p is that of what surely
    remains, as the widened interval's.
    """
    return p_of_distance(np.maximum(np.abs(effect.mean) - np.asarray(bound), 0.0), effect)


def p_of_distance(distance: ArrayLike, effect: Effect) -> Floats:
    """The same of a distance that is given, such as the effect's from a gate's margin."""
    far = np.where(np.abs(distance) < _NOTHING, 0.0, np.abs(distance))
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(far == 0.0, 0.0, far / effect.se)
        p = 2.0 * stdtr(np.maximum(effect.units - 1, 1), -t)
    return np.where(effect.units >= limits.CLAIM_BLOCKS, p, np.nan)


def half_width(effect: Effect, claims: int = 1) -> Floats:
    """Half of the 95 % interval of one claim, or of each of `claims` together (Bonferroni);
    NaN below `CLAIM_BLOCKS` units."""
    reach = stdtrit(np.maximum(effect.units - 1, 1), 1 - limits.TAIL / claims)
    return np.where(effect.units >= limits.CLAIM_BLOCKS, reach * effect.se, np.nan)


def whole_units(logs: ArrayLike, unit: ArrayLike) -> Floats:
    """Means of the units in which every case that counts has its pairs, for the sign flip
    over whole units. One data set."""
    y = np.asarray(logs, dtype=float)
    kept = effect_of(y, unit).kept
    found = []
    for one in np.unique(np.asarray(unit)):
        cells = y[kept][:, np.asarray(unit) == one]
        there = ~np.isnan(cells)
        if len(cells) and there.any(axis=1).all():
            found.append(float(np.mean(np.nansum(cells, axis=1) / there.sum(axis=1))))
    return np.array(found)


def unit_values(logs: ArrayLike, unit: ArrayLike) -> Floats:
    """A value for each unit with any pair: the effect and how far its pairs lie from their cases' means. One data set.

    With nothing missing these are the units' means.
    """
    y, effect = np.asarray(logs, dtype=float), effect_of(logs, unit)
    kept = y[effect.kept]
    if not len(kept):
        return np.array([])
    away = kept - np.nanmean(kept, axis=1, keepdims=True)
    sides = [away[:, np.asarray(unit) == one] for one in np.unique(np.asarray(unit))]
    return np.array(
        [float(effect.mean) + float(np.nanmean(cells)) for cells in sides if not np.isnan(cells).all()]
    )

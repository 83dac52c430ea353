"""Tests and intervals (docs/method.md §2): sign flips, Holm, t on logs, minimum detectable effects, batch
means.

All of them work on plain arrays of numbers, one per block (paired) or per run (unpaired). Random draws are
seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from svload.analysis import limits

Floats = NDArray[np.float64]
Interval = tuple[float, float]
_TIE = 1e-9
DRAWS = 20_000
"""Random sign flips where there are too many to enumerate."""


def t_reach(freedom: float, tail: float = limits.TAIL) -> float:
    """Return how many standard errors Student's t reaches on each side, with `tail` beyond it."""
    return float(stdtrit(freedom, 1 - tail))


def jackknife_error(left: ArrayLike) -> float:
    """Return the standard error of an estimate from its values with each unit left out in turn (Efron)."""
    found = np.asarray(left, dtype=float)
    return sqrt((len(found) - 1) / len(found) * float(((found - found.mean()) ** 2).sum()))


def t_interval(values: ArrayLike) -> Interval | None:
    """Return Student's t interval of the mean of `values`, 95 %; None for fewer than two."""
    x = np.asarray(values, dtype=float)
    if len(x) < 2:
        return None
    half = t_reach(len(x) - 1) * float(x.std(ddof=1)) / sqrt(len(x))
    mean = float(x.mean())
    return mean - half, mean + half


def replicates_for(shrink: float, made: int) -> int | None:
    """Return how many replicates would have a t interval `shrink` times narrower than that of the `made`
    ones; None above `MOST_MORE_BLOCKS`."""

    def half(n: int) -> float:
        return t_reach(n - 1) / sqrt(n)

    wanted = half(made) / max(shrink, 1e-9)
    return next((n for n in range(made + 1, limits.MOST_MORE_BLOCKS) if half(n) <= wanted), None)


def welch_interval(treatment: ArrayLike, baseline: ArrayLike) -> tuple[float, Interval | None]:
    """Return the difference of means (treatment − baseline) and Welch's 95 % interval; no interval with fewer
    than two on a side."""
    t, b = np.asarray(treatment, dtype=float), np.asarray(baseline, dtype=float)
    difference = float(t.mean() - b.mean())
    if len(t) < 2 or len(b) < 2:
        return difference, None
    vt, vb = float(t.var(ddof=1)) / len(t), float(b.var(ddof=1)) / len(b)
    if vt + vb == 0:
        return difference, (difference, difference)
    freedom = (vt + vb) ** 2 / (vt**2 / (len(t) - 1) + vb**2 / (len(b) - 1))
    half = t_reach(freedom) * sqrt(vt + vb)
    return difference, (difference - half, difference + half)


def sign_flip_p(differences: ArrayLike) -> float:
    """Return the two-sided p of "no difference" by flipping the sign of each block: exact up to 2^16 flips,
    seeded draws above.

    The statistic is |Σ|. With draws the observed one counts too: p = (1 + hits)/(1 + draws).
    """
    d = np.asarray(differences, dtype=float)
    if not len(d):
        return 1.0
    observed = abs(float(d.sum())) * (1 - _TIE)
    if len(d) <= limits.ENUMERATE_UP_TO:
        sums = np.zeros(1)
        for value in d:
            sums = np.concatenate([sums + value, sums - value])
        return float(np.mean(np.abs(sums) >= observed))
    rng = np.random.default_rng(len(d))
    signs = rng.integers(0, 2, (DRAWS, len(d))) * 2 - 1
    hits = int(np.count_nonzero(np.abs(signs @ d) >= observed))
    return (1 + hits) / (1 + DRAWS)


def least_detectable(sd_log: float, blocks: int, claims: int = 1) -> float | None:
    """Return the relative effect that `blocks` detect with power 0.8 at alpha/claims: exp((t₁₋α/₂ +
    t₀.₈)·sd/√n) − 1. None below two blocks."""
    if blocks < 2:
        return None
    alpha = limits.ALPHA / max(claims, 1)
    reach = t_reach(blocks - 1, alpha / 2) + t_reach(blocks - 1, 1 - limits.POWER)
    return exp(min(reach * sd_log / sqrt(blocks), 50.0)) - 1


def sd_of_interval(low: float, high: float, blocks: int) -> float | None:
    """Return the sd of block log ratios behind a ratio's t interval [low, high]; None where it cannot be
    recovered."""
    if blocks < 2 or low <= 0 or high < low:
        return None
    return (log(high) - log(low)) / 2 * sqrt(blocks) / t_reach(blocks - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given (Holm 1979): step-down, monotone, at most 1."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(order):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted


@dataclass(frozen=True)
class Batched:
    """The ratio Σx/Σn of each series and its variance, by batch means (Law, Simulation Modeling and Analysis,
    ch. 9).

    The number of batches is fixed: chosen by the data, it would make intervals narrow just where a run
    happened to be calm.
    """

    ratio: Floats
    variance: Floats
    batches: int

    def interval(self, scale: float = 1.0) -> tuple[float, float] | tuple[None, None]:
        """Return the 95 % interval of the first series' ratio; None with fewer than two batches."""
        if self.batches < 2:
            return None, None
        half = t_reach(self.batches - 1) * float(self.variance[0]) ** 0.5
        value = float(self.ratio[0])
        return max(value - half, 0.0) * scale, (value + half) * scale


def batch_means(x: NDArray[np.generic], n: NDArray[np.generic] | None = None) -> Batched:
    """Compute batch means of each row of `x` (series × units) over `n` (units; None: ones)."""
    series = np.atleast_2d(np.asarray(x, dtype=float))
    units = series.shape[1]
    cumulated = np.concatenate([np.zeros((len(series), 1)), np.cumsum(series, axis=1)], axis=1)
    counted = np.concatenate([[0.0], np.arange(1, units + 1) if n is None else np.cumsum(n, dtype=float)])
    total = float(counted[-1]) or 1.0
    ratio = cumulated[:, -1] / total
    groups = min(units, limits.BATCHES)
    edges = batch_edges(units)
    residuals = np.diff(cumulated[:, edges], axis=1) - ratio[:, None] * np.diff(counted[edges])
    scale = groups / max(groups - 1, 1) / total**2
    return Batched(ratio, scale * (residuals**2).sum(axis=1), groups)


def autocorrelation_times(above: NDArray[np.generic], n: NDArray[np.generic] | None = None) -> Floats:
    """Return τ of each series of exceedances 1{R > q} (or their counts per unit): the variance relative to
    that of independent requests, ≥ 1, stretched by how much wider t is than the normal with so few
    batches."""
    found = batch_means(above, n)
    total = np.shape(above)[-1] if n is None else float(np.sum(n))
    independent = found.ratio * (1 - found.ratio) / max(total, 1)
    if found.batches < 2:
        return np.ones_like(independent)
    wider = (t_reach(found.batches - 1) / ndtri(1 - limits.TAIL)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = np.where(independent > 0, wider * found.variance / independent, 1.0)
    return np.maximum(tau, 1.0)


def batch_edges(units: int) -> NDArray[np.int64]:
    """Return where each batch of this many units begins, and the end of the last."""
    return _edges(units, max(min(units, limits.BATCHES), 1))


@lru_cache(maxsize=256)
def _edges(units: int, k: int) -> NDArray[np.int64]:
    return np.linspace(0, units, k + 1).astype(np.int64)


def bin_means(x: Floats, bins: int) -> Floats:
    """Return the means of this many stretches of neighbours."""
    edges = _edges(len(x), bins)
    return np.asarray(np.add.reduceat(x, edges[:-1]) / np.diff(edges))


def block_length(points: int) -> int:
    return max(2, round(float(np.cbrt(points))))


def resampled_blocks(residuals: Floats, resamples: int) -> Floats:
    """Return residuals resampled in blocks of n^(1/3) neighbours (Künsch 1989), seeded: one row per
    resample."""
    size = len(residuals)
    length = block_length(size)
    starts = np.random.default_rng(size).integers(0, size - length + 1, (resamples, -(-size // length)))
    at = (starts[:, :, None] + np.arange(length)).reshape(resamples, -1)[:, :size]
    return np.asarray(residuals[at])

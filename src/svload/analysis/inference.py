"""Tests and intervals between runs (docs/method.md §2): sign flips, permutations, t and bootstrap on
logs, least detectable effects.

All of it on plain arrays of numbers, one per block (paired) or per run (unpaired). Random draws are seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb, exp, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from svload.analysis import limits
from svload.analysis.multiplicity import DRAWS

Floats = NDArray[np.float64]
Interval = tuple[float, float]
_TIE = 1e-9


def t_interval(values: ArrayLike, level: float = 1 - 2 * limits.TAIL) -> Interval | None:
    """Student's t interval of the mean of `values`; None for fewer than two."""
    x = np.asarray(values, dtype=float)
    if len(x) < 2:
        return None
    half = float(stdtrit(len(x) - 1, (1 + level) / 2)) * float(x.std(ddof=1)) / sqrt(len(x))
    mean = float(x.mean())
    return mean - half, mean + half


def replicates_for(shrink: float, made: int) -> int | None:
    """How many replicates have a t interval `shrink` times narrower than that of those `made`; None: above
    `MOST_MORE_BLOCKS`."""

    def half(n: int) -> float:
        return float(stdtrit(n - 1, 1 - limits.TAIL)) / sqrt(n)

    wanted = half(made) / max(shrink, 1e-9)
    return next((n for n in range(made + 1, limits.MOST_MORE_BLOCKS) if half(n) <= wanted), None)


def welch_interval(treatment: ArrayLike, baseline: ArrayLike) -> tuple[float, Interval | None]:
    """Difference of means (treatment − baseline) and Welch's 95 % interval; no interval
    with fewer than two on a side."""
    t, b = np.asarray(treatment, dtype=float), np.asarray(baseline, dtype=float)
    difference = float(t.mean() - b.mean())
    if len(t) < 2 or len(b) < 2:
        return difference, None
    vt, vb = float(t.var(ddof=1)) / len(t), float(b.var(ddof=1)) / len(b)
    if vt + vb == 0:
        return difference, (difference, difference)
    freedom = (vt + vb) ** 2 / (vt**2 / (len(t) - 1) + vb**2 / (len(b) - 1))
    half = float(stdtrit(freedom, 1 - limits.TAIL)) * sqrt(vt + vb)
    return difference, (difference - half, difference + half)


def sign_flip_p(differences: ArrayLike) -> float:
    """Two-sided p of "no difference" by flipping the sign of each block: exact up to 2^16 flips, seeded draws above.

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


def permutation_p(treatment: ArrayLike, baseline: ArrayLike) -> float:
    """Two-sided p of "no difference" of unblocked runs by relabelling them; exact up to 2^16
    labellings, seeded draws above."""
    t, b = np.asarray(treatment, dtype=float), np.asarray(baseline, dtype=float)
    joined = np.concatenate([t, b])
    observed = abs(float(t.mean() - b.mean())) * (1 - _TIE)
    total = float(joined.sum())

    def gap(sums: Floats) -> Floats:
        return np.asarray(np.abs(sums / len(t) - (total - sums) / len(b)))

    if comb(len(joined), len(t)) <= 2**limits.ENUMERATE_UP_TO:
        chosen = np.array(list(combinations(range(len(joined)), len(t))))
        return float(np.mean(gap(joined[chosen].sum(axis=1)) >= observed))
    rng = np.random.default_rng(len(joined))
    order = np.argsort(rng.random((DRAWS, len(joined))), axis=1)[:, : len(t)]
    hits = int(np.count_nonzero(gap(joined[order].sum(axis=1)) >= observed))
    return (1 + hits) / (1 + DRAWS)


def hodges_lehmann(values: ArrayLike) -> float:
    """Median of all pairwise (Walsh) averages: the robust centre of the blocks' differences.
    Above 400 values, of a seeded 400."""
    x = np.asarray(values, dtype=float)
    if len(x) > 400:
        x = np.random.default_rng(len(x)).choice(x, 400, replace=False)
    upper = np.triu_indices(len(x))
    return float(np.median((x[upper[0]] + x[upper[1]]) / 2))


def least_detectable(sd_log: float, blocks: int, claims: int = 1) -> float | None:
    """Relative effect that `blocks` detect with power 0.8 at alpha/claims: exp((t₁₋α/₂ +
    t₀.₈)·sd/√n) − 1. None below two blocks."""
    if blocks < 2:
        return None
    alpha = limits.ALPHA / max(claims, 1)
    reach = float(stdtrit(blocks - 1, 1 - alpha / 2)) + float(stdtrit(blocks - 1, limits.POWER))
    return exp(min(reach * sd_log / sqrt(blocks), 50.0)) - 1


def sd_of_interval(low: float, high: float, blocks: int) -> float | None:
    """The sd of block log ratios behind a ratio's t interval [low, high]; None where it can't be read back."""
    if blocks < 2 or low <= 0 or high < low:
        return None
    return (log(high) - log(low)) / 2 * sqrt(blocks) / float(stdtrit(blocks - 1, 1 - limits.TAIL))


def welch_over_cases(
    treatment: Sequence[ArrayLike], baseline: Sequence[ArrayLike]
) -> tuple[float, float, float] | None:
    """(mean over cases of the difference of means, its standard error, its degrees of freedom); None where
    a side of a case has under two."""
    sides = [(np.asarray(t, dtype=float), np.asarray(b, dtype=float)) for t, b in zip(treatment, baseline, strict=True)]  # fmt: skip
    if not sides or any(len(one) < 2 for pair in sides for one in pair):
        return None
    mean = float(np.mean([t.mean() - b.mean() for t, b in sides]))
    parts = [(float(one.var(ddof=1)) / len(one) / len(sides) ** 2, len(one) - 1) for pair in sides for one in pair]  # fmt: skip
    variance = sum(part for part, _ in parts)
    freedom = (
        variance**2 / sum(part**2 / n for part, n in parts) if variance > 0 else sum(n for _, n in parts)
    )
    return mean, sqrt(variance), float(freedom)


def permutation_over_cases_p(treatment: Sequence[ArrayLike], baseline: Sequence[ArrayLike]) -> float:
    """Two-sided p of relabelling the runs of each case; of one case exact where it can be, else by seeded draws."""
    if len(treatment) == 1:
        return permutation_p(treatment[0], baseline[0])
    rng = np.random.default_rng(len(treatment))
    total, observed = np.zeros(DRAWS), 0.0
    for t, b in zip(treatment, baseline, strict=True):
        joined = np.concatenate([np.asarray(t, dtype=float), np.asarray(b, dtype=float)])
        n = len(np.asarray(t))
        observed += float(joined[:n].mean() - joined[n:].mean())
        order = np.argsort(rng.random((DRAWS, len(joined))), axis=1)
        drawn = joined[order]
        total += drawn[:, :n].mean(axis=1) - drawn[:, n:].mean(axis=1)
    hits = int(np.count_nonzero(np.abs(total) >= abs(observed) * (1 - _TIE)))
    return (1 + hits) / (1 + DRAWS)


def sign_test_p(one: int, other: int) -> float:
    """Two-sided p that so uneven a split of discordant pairs comes by chance."""
    n = one + other
    return min(1.0, 2.0 * sum(comb(n, k) for k in range(min(one, other) + 1)) / 2.0**n) if n else 1.0

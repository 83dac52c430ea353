"""Batch means inside one run: how much a correlated series is worth (docs/method.md §2; Banks et al., Law ch. 9).

A series is units in time order, each with `x` (a sum) over `n` (a count): a single request (n = 1) or an
interval. The estimate is the ratio Σx/Σn; its variance comes from batches of neighbouring units.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Batched:
    """Per series: the ratio, the variance of the ratio, and whether its batches were
    uncorrelated enough for an interval."""

    ratio: Floats
    variance: Floats
    trusted: NDArray[np.bool_]
    batches: int


def batch_means(x: NDArray[np.generic], n: NDArray[np.generic] | None = None) -> Batched:
    """Batch means of each row of `x` (series × units) over `n` (units; None: ones).

    400, 200 or 100 batches (the most whose lag-1 correlation is ≤ 0.2 in that series) regrouped to 20–40. A
    series none of whose choices pass, or with fewer than 100 units, takes 20 batches and is not trusted.
    """
    series = np.atleast_2d(np.asarray(x, dtype=float))
    units = series.shape[1]
    cumulated = np.concatenate([np.zeros((len(series), 1)), np.cumsum(series, axis=1)], axis=1)
    counted = np.concatenate([[0.0], np.arange(1, units + 1) if n is None else np.cumsum(n, dtype=float)])
    total = float(counted[-1]) or 1.0
    ratio = cumulated[:, -1] / total
    choices = [k for k in limits.BATCHES if k <= units]
    trusted = np.zeros(len(series), dtype=bool)
    for k in choices:
        residuals = _residuals(cumulated, counted, ratio, k)
        trusted |= _lag1(residuals) <= limits.BATCH_LAG1
    least, most = limits.REGROUPED
    groups = most if units >= 2 * most * 2 and trusted.all() else min(units, least)
    residuals = _residuals(cumulated, counted, ratio, groups)
    scale = groups / max(groups - 1, 1) / total**2
    return Batched(ratio, scale * (residuals**2).sum(axis=1), trusted, groups)


def autocorrelation_times(
    above: NDArray[np.generic], n: NDArray[np.generic] | None = None
) -> tuple[Floats, NDArray[np.bool_]]:
    """(τ, trusted) per series of exceedances 1{R > q} (or their counts per unit): variance against
    that of independent requests, ≥ 1."""
    found = batch_means(above, n)
    total = np.shape(above)[-1] if n is None else float(np.sum(n))
    independent = found.ratio * (1 - found.ratio) / max(total, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = np.where(independent > 0, found.variance / independent, 1.0)
    if found.batches < limits.REGROUPED[0]:
        tau = np.ones_like(tau)
    return np.maximum(tau, 1.0), found.trusted


@lru_cache(maxsize=256)
def _edges(units: int, k: int) -> NDArray[np.int64]:
    return np.linspace(0, units, k + 1).astype(np.int64)


def _residuals(cumulated: Floats, counted: Floats, ratio: Floats, k: int) -> Floats:
    edges = _edges(cumulated.shape[1] - 1, max(k, 1))
    found: Floats = np.diff(cumulated[:, edges], axis=1) - ratio[:, None] * np.diff(counted[edges])
    return found


def _lag1(residuals: Floats) -> Floats:
    power = (residuals**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(power > 0, (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1) / power, 0.0)

"""Batch means inside one run: how much a correlated series is worth (docs/method.md §2; Law, Simulation Modeling
and Analysis, ch. 9).

A series is units in time order, each with `x` (a sum) over `n` (a count): a single request (n = 1) or an
interval. The estimate is the ratio Σx/Σn; its variance comes from batches of neighbouring units. How many there
are is fixed: chosen by what they show, they would make intervals narrow just where a run happened to be calm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from svload.analysis import limits
from svload.analysis.inference import t_reach

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Batched:
    """Per series: the ratio and the variance of the ratio, from so many batches."""

    ratio: Floats
    variance: Floats
    batches: int

    def interval(self, scale: float = 1.0) -> tuple[float, float] | tuple[None, None]:
        """The 95 % interval of the first series' ratio; none from fewer than two batches."""
        if self.batches < 2:
            return None, None
        half = t_reach(self.batches - 1) * float(self.variance[0]) ** 0.5
        value = float(self.ratio[0])
        return max(value - half, 0.0) * scale, (value + half) * scale


def batch_means(x: NDArray[np.generic], n: NDArray[np.generic] | None = None) -> Batched:
    """Batch means of each row of `x` (series × units) over `n` (units; None: ones)."""
    series = np.atleast_2d(np.asarray(x, dtype=float))
    units = series.shape[1]
    cumulated = np.concatenate([np.zeros((len(series), 1)), np.cumsum(series, axis=1)], axis=1)
    counted = np.concatenate([[0.0], np.arange(1, units + 1) if n is None else np.cumsum(n, dtype=float)])
    total = float(counted[-1]) or 1.0
    ratio = cumulated[:, -1] / total
    groups = min(units, limits.BATCHES)
    edges = _edges(units, max(groups, 1))
    residuals = np.diff(cumulated[:, edges], axis=1) - ratio[:, None] * np.diff(counted[edges])
    scale = groups / max(groups - 1, 1) / total**2
    return Batched(ratio, scale * (residuals**2).sum(axis=1), groups)


def autocorrelation_times(above: NDArray[np.generic], n: NDArray[np.generic] | None = None) -> Floats:
    """τ of each series of exceedances 1{R > q} (or their counts per unit): variance against that of independent
    requests, ≥ 1, and stretched by what t of so few batches is wider than the normal."""
    found = batch_means(above, n)
    total = np.shape(above)[-1] if n is None else float(np.sum(n))
    independent = found.ratio * (1 - found.ratio) / max(total, 1)
    if found.batches < 2:
        return np.ones_like(independent)
    wider = (t_reach(found.batches - 1) / ndtri(1 - limits.TAIL)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = np.where(independent > 0, wider * found.variance / independent, 1.0)
    return np.maximum(tau, 1.0)


@lru_cache(maxsize=256)
def _edges(units: int, k: int) -> NDArray[np.int64]:
    return np.linspace(0, units, k + 1).astype(np.int64)

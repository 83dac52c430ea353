"""N_peak: the users at which throughput is largest before it falls, by the Universal Scalability Law
(Gunther, Guerrilla Capacity Planning, 2007).

X(N) = λN/(1 + σ(N − 1) + κN(N − 1)): σ is the serialised part, κ the cost of keeping users consistent with
one another. N/X is a polynomial in N, so the fit is linear least squares of relative deviations. κ's interval
is a bootstrap of residuals, which includes the law's own misfit. A peak is reported only if that interval
excludes 0, two levels lie past it, and throughput at the last is below its largest by more than 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from svload.analysis import limits
from svload.analysis.laws.levels import Floats, Limit, Run, levels_of

_RESAMPLES = 1_000
_PARAMETERS = 3


@dataclass(frozen=True)
class Scalability:
    """The law's parameters: λ in requests a second, σ and κ; κ's 95 % interval."""

    one_rps: float
    serial: float
    crosstalk: float
    crosstalk_low: float
    crosstalk_high: float

    def throughput_rps(self, users: float) -> float:
        """Return X at this many users."""
        return (
            self.one_rps
            * users
            / max(1 + self.serial * (users - 1) + self.crosstalk * users * (users - 1), 1e-12)
        )

    @property
    def peak(self) -> float | None:
        """√((1 − σ)/κ); None where throughput never falls."""
        return sqrt((1 - self.serial) / self.crosstalk) if self.crosstalk > 0 and self.serial < 1 else None


def scalability(runs: Sequence[Run]) -> Scalability | None:
    """Fit the law to runs at six numbers of users or more; None with fewer, or where no server scales like
    that."""
    levels = levels_of(runs, "users")
    if len(levels) < limits.USL_LEVELS:
        return None
    n = np.array([level.at for level in levels for _ in level.runs])
    x = np.array([run.throughput_rps for level in levels for run in level.runs])
    drawn = _resampled(n, x)
    fits = _fitted(n, np.vstack([x, drawn]))
    one, serial, crosstalk = fits[0]
    if not np.isfinite(fits[0]).all() or one <= 0:
        return None
    known = fits[1:][np.isfinite(fits[1:]).all(axis=1), 2]
    low, high = np.quantile(known, [limits.TAIL, 1 - limits.TAIL]) if len(known) else (-np.inf, np.inf)
    return Scalability(float(one), float(serial), float(crosstalk), float(low), float(high))


def _fitted(n: Floats, throughputs: Floats) -> Floats:
    """Return (λ, σ, κ) of each row of throughputs: N/X = (1 + σ(N − 1) + κN(N − 1))/λ, deviations relative to
    N/X."""
    terms = np.stack([np.ones(len(n)), n - 1, n * (n - 1)], axis=1)
    weighted = terms[None, :, :] * (throughputs / n)[:, :, None]
    scale = np.sqrt((weighted**2).mean(axis=1, keepdims=True)) + 1e-300
    scaled = weighted / scale
    normal = scaled.transpose(0, 2, 1) @ scaled
    right = scaled.sum(axis=1)[:, :, None]
    found = (
        np.linalg.lstsq(scaled[0], np.ones(len(n)), rcond=None)[0][None, :, None]
        if len(normal) == 1
        else np.linalg.pinv(normal) @ right
    )
    a, b, c = (found[:, :, 0] / scale[:, 0, :]).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.stack([1 / a, b / a, c / a], axis=1)


def _resampled(n: Floats, x: Floats) -> Floats:
    """Resample throughputs around the fit, with residuals drawn from all of them, seeded."""
    one, serial, crosstalk = _fitted(n, x[None, :])[0]
    fit = one * n / (1 + serial * (n - 1) + crosstalk * n * (n - 1))
    spent = max(len(n) - _PARAMETERS, 1)
    residuals = np.log(np.maximum(x / np.maximum(fit, 1e-300), 1e-300))
    residuals = (residuals - residuals.mean()) * sqrt(len(n) / spent)
    rng = np.random.default_rng(len(n))
    drawn: Floats = fit * np.exp(residuals[rng.integers(0, len(n), (_RESAMPLES, len(n)))])
    return drawn


def n_peak(runs: Sequence[Run], fit: Scalability | None) -> Limit:
    """Return the peak of throughput, or why there is none."""
    levels = levels_of(runs, "users")
    if fit is None:
        return Limit(None, reason=f"the Universal Scalability Law needs {limits.USL_LEVELS} levels of users")
    peak = fit.peak
    if fit.crosstalk_low <= 0 or peak is None:
        return Limit(None, reason="no peak in range: κ may be 0")
    past = [level for level in levels if level.at > peak]
    most_rps = max(level.throughput_rps for level in levels)
    falls = levels[-1].throughput_rps < (1 - limits.FLAT) * most_rps
    if len(past) < limits.LEVELS_PAST or not falls:
        return Limit(
            None, reason="no peak in range: two levels do not lie past it, or throughput does not fall"
        )
    low = sqrt((1 - fit.serial) / fit.crosstalk_high)
    high = sqrt((1 - fit.serial) / fit.crosstalk_low)
    return Limit(
        peak, low, high, "bracketed" if peak > levels[0].at else "below", "from the Universal Scalability Law"
    )

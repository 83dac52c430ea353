"""What throughput alone shows of a limit, without any data on resources (docs/method.md §3, the server; §4).

Flat levels: more load without more throughput, while response rises. The gain between two levels is d ln X /
d ln load. Below 0.1, over levels at least a factor of 1.25 apart with throughputs that differ by 5 % at most,
throughput is flat. Both levels are then at the server's limit, the lower one too: requests beyond it wait.

N_break: where throughput breaks from its rise, by a fit of two segments (Quandt 1958; Hudson 1966). X(load)
rises from 0 in a line up to the break, then stays or falls. Least squares of relative deviations, with the
break found by search over the range. N_break is not N*: a server with slowly growing queues breaks late and
softly. Where the two differ by more than 25 % a report says so.

N_peak: the users at which throughput is largest before it falls, by the Universal Scalability Law (Gunther,
Guerrilla Capacity Planning, 2007). X(N) = λN/(1 + σ(N − 1) + κN(N − 1)): σ is the serialised part, κ the cost
of keeping users consistent with one another. N/X is a polynomial in N, so the fit is linear least squares of
relative deviations. κ's interval is a bootstrap of residuals, which includes the law's own misfit. A peak is
reported only if that interval excludes 0, two levels lie past it, and throughput at the last is below its
largest by more than 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import log, sqrt

import numpy as np

from svload.analysis import limits
from svload.analysis.inference import welch_interval
from svload.analysis.laws.levels import (
    Floats,
    Kind,
    Level,
    Limit,
    Run,
    jackknifed,
    levels_of,
    offered,
    placed,
)

_CANDIDATES = 400
_LEAST_LEVELS = 4


def two_segments(load: Floats, throughput_rps: Floats) -> float:
    """Return the load at the break; the least or the largest load where one segment fits as well."""
    x, y = np.asarray(load, dtype=float), np.asarray(throughput_rps, dtype=float)
    at = np.geomspace(x.min(), x.max(), _CANDIDATES)
    rise = np.minimum(x, at[:, None]) / y
    after = np.maximum(x - at[:, None], 0.0) / y
    rr, ra, aa = (rise * rise).sum(1), (rise * after).sum(1), (after * after).sum(1)
    r1, a1 = rise.sum(1), after.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = rr * aa - ra * ra
        slope = (r1 * aa - a1 * ra) / determinant
        tail = (a1 * rr - r1 * ra) / determinant
    flat = ~(np.isfinite(tail) & (tail < 0))  # it stays or falls, and does not rise further
    slope, tail = np.where(flat, r1 / rr, slope), np.where(flat, 0.0, tail)
    residual = ((1 - slope[:, None] * rise - tail[:, None] * after) ** 2).sum(1)
    return float(at[int(np.argmin(residual))])


def n_break(runs: Sequence[Run], kind: Kind) -> Limit:
    """Return the break with its interval, for levels of users or of rates. Bracketed only with two levels
    beyond it."""
    levels = levels_of(runs, kind)
    if len(levels) < _LEAST_LEVELS or kind == "think":
        return Limit(None, reason=f"a fit of two segments needs {_LEAST_LEVELS} levels of users or rates")
    found = jackknifed(partial(_break_of, kind), runs)
    if found is None:
        return Limit(None, reason="no two segments fit")
    at = [level.at for level in levels]
    inside = at[: 1 - limits.LEVELS_PAST] if limits.LEVELS_PAST > 1 else at
    return placed(Limit(found.value, found.low, found.high), inside)


def _break_of(kind: Kind, runs: Sequence[Run]) -> float | None:
    levels = levels_of(runs, kind)
    if len(levels) < _LEAST_LEVELS:
        return None
    return two_segments(
        np.array([level.at for level in levels]), np.array([level.throughput_rps for level in levels])
    )


def agree(first: Limit, second: Limit) -> bool | None:
    """Return whether two limits lie within 25 % of each other; None where one of them is not bracketed."""
    if first.state != "bracketed" or second.state != "bracketed" or not first.value or not second.value:
        return None
    return max(first.value, second.value) <= (1 + limits.LIMITS_AGREE) * min(first.value, second.value)


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
    found = Limit(peak, low, high, reason="from the Universal Scalability Law")
    return placed(found, [level.at for level in levels])

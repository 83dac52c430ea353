"""N_break: where measured throughput breaks from its rise, by a fit of two segments (Quandt 1958; Hudson
1966). It uses no data on resources.

X(load) rises from 0 in a line up to the break, then stays or falls. Least squares of relative deviations,
with the break found by search over the range. N_break is not N*: a server with slowly growing queues breaks
late and softly. Where the two differ by more than 25 % a report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from svload.analysis import limits
from svload.analysis.laws.levels import Floats, Kind, Limit, Run, jackknifed, levels_of, placed

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

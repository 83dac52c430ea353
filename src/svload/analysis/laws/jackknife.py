"""An interval for any estimate over runs: leave one block out at a time (Efron; docs/method.md §2).

The block is the unit of randomisation, so the interval includes whatever its runs share. On logarithms, t
with B − 1 degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log

from svload.analysis import limits
from svload.analysis.inference import jackknife_error, t_reach
from svload.analysis.laws.levels import Run


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval; None, None where there are too few blocks for one."""

    value: float
    low: float | None = None
    high: float | None = None


def jackknifed(estimate: Callable[[Sequence[Run]], float | None], runs: Sequence[Run]) -> Interval | None:
    """Return `estimate` of all runs, which is above 0, with its interval; None where it gives no value."""
    value = _usable(estimate(runs))
    if value is None:
        return None
    blocks = sorted({run.block for run in runs})
    if len(blocks) < limits.CLAIM_BLOCKS:
        return Interval(value)
    left = [_usable(estimate([run for run in runs if run.block != block])) for block in blocks]
    logs = [log(one) for one in left if one is not None]
    if len(logs) < len(blocks):
        return Interval(value)
    half = t_reach(len(blocks) - 1) * jackknife_error(logs)
    return Interval(value, value * exp(-half), value * exp(min(half, 700.0 - abs(log(value)))))


def _usable(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) and value > 0 else None

"""`fail_if` of a comparison: fail, pass, or open (docs/method.md §2). A null, a
refusal or too few blocks never pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p
from typing import Literal

import numpy as np

from svload.analysis import limits
from svload.analysis.claims.evidence import Shown
from svload.analysis.claims.pairs import Gathered
from svload.analysis.claims.statistic import effect_of, half_width
from svload.analysis.multiplicity import holm
from svload.model.pairs import Gate

_FAIL_IF = re.compile(r"^(worse|better|different) by more than (\d+(?:\.\d+)?) ?%$")
Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True)
class Limit:
    """What a comparison may not exceed: log ratios of treatment over baseline."""

    text: str
    share: float
    high: float | None
    low: float | None
    worse: bool

    def nearest(self, mean: float) -> float:
        """The margin that the effect is nearest to."""
        ends = [end for end in (self.high, self.low) if end is not None]
        return min(ends, key=lambda end: abs(mean - end))


@dataclass(frozen=True)
class Facts:
    """All that a gate looks at. `blocked_by`: why its interval may not decide, as a clause; empty: it may."""

    limit: Limit
    found: Gathered
    shown: Shown
    floor: float | None
    blocked_by: str


def limit_of(text: str | None, better: Better) -> Limit | None:
    """The margins that `worse by more than 5 %` draws for a metric of which `better` is better; None without a gate."""
    matched = _FAIL_IF.match(text) if text else None
    if matched is None or text is None:
        return None
    share = float(matched[2]) / 100
    up, down = log1p(share), log1p(-share) if share < 1 else -np.inf
    direction = matched[1] if better != "neither" else "different"
    worse_is_up = better == "lower"
    if direction == "different":
        return Limit(text, share, up, down, True)
    above = (direction == "worse") == worse_is_up
    return Limit(text, share, up if above else None, None if above else down, direction == "worse")


def judge_gates(gates: Sequence[Facts | None]) -> list[Gate | None]:
    """Every comparison's gate, in order: failing by times is Holm-corrected over all gates,
    passing is not, since it needs all."""
    p = [_p_fail(gate) for gate in gates if gate is not None]
    adjusted = iter(holm(p))
    return [None if gate is None else _judge(gate, next(adjusted)) for gate in gates]


def _p_fail(gate: Facts) -> float:
    if gate.blocked_by:
        return 1.0
    ends = ((gate.limit.high, True), (gate.limit.low, False))
    return min(gate.shown.p_beyond(end, upward) for end, upward in ends if end is not None)


def _judge(gate: Facts, p_fail: float) -> Gate:
    text = gate.limit.text
    if why := _certain_failure(gate):
        return Gate(text=text, outcome="fail", why=why)
    if why := _keeps_open(gate):
        return Gate(text=text, outcome="open", why=why)
    mean = gate.shown.mean
    above_floor = mean is not None and (gate.floor is None or abs(mean) >= gate.floor)
    if p_fail <= limits.ALPHA and above_floor and gate.shown.holds:
        return Gate(text=text, outcome="fail", why="the whole interval lies beyond the margin")
    if _within(gate) and not gate.shown.leans:
        return Gate(text=text, outcome="pass", why="the whole interval lies within the margin")
    why = "refusals lean to one side" if gate.shown.leans else "the interval reaches over the margin"
    return Gate(text=text, outcome="open", why=why)


def _within(gate: Facts) -> bool:
    interval = gate.shown.interval()
    if interval is None:
        return False
    low, high = interval
    return (gate.limit.high is None or high <= gate.limit.high) and (
        gate.limit.low is None or low >= gate.limit.low
    )


def _certain_failure(gate: Facts) -> str:
    """What is worse than any limit: the treatment beyond the time-out or overloaded where the
    baseline is not, or failing more."""
    if not gate.limit.worse:
        return ""
    _, late = gate.found.timed_out
    if late > gate.found.timed_out_of / 2:
        return f"the treatment is beyond the time-out in {late} of {gate.found.timed_out_of} pairs, the baseline is not"
    (before, after), (of_before, of_after) = gate.found.overloaded, gate.found.overloaded_of
    if after > of_after / 2 and before <= of_before / 2:
        return f"the treatment's server is OVERLOADED in {after} of {of_after} trials"
    lower = _success_lost(gate)
    if lower is not None and lower[1] < -gate.limit.share:
        return f"success falls from {_percent(gate.found.success[0])} to {_percent(gate.found.success[1])}"
    return ""


def _keeps_open(gate: Facts) -> str:
    early, late = gate.found.timed_out
    if gate.found.overloaded[1] > gate.found.overloaded_of[1] / 2:
        return "both sides are OVERLOADED, and their times grow with the run's length"
    if gate.blocked_by:
        return gate.blocked_by
    if early or late:
        return f"{early + late} of {gate.found.timed_out_of} pairs have one side beyond the time-out"
    lower = _success_lost(gate)
    if gate.limit.worse and lower is not None and lower[0] < -gate.limit.share:
        return f"success may fall by more than {100 * gate.limit.share:g} %"
    return ""


def _success_lost(gate: Facts) -> tuple[float, float] | None:
    """Both ends of the 95 % interval of how the success rate changes, as a share of the
    baseline's; None where it is not known."""
    interval, before = success_interval(gate.found), gate.found.success[0]
    return None if interval is None or not before else (interval[0] / before, interval[1] / before)


def success_interval(found: Gathered) -> tuple[float, float] | None:
    """95 % interval of the treatment's success rate less the baseline's, by the claim's own
    statistic; None with too few units."""
    columns = len(found.success_differences.T)
    if not columns:
        return None
    effect = effect_of(found.success_differences, found.unit[:columns])
    half = float(half_width(effect))
    return None if np.isnan(half) else (float(effect.mean) - half, float(effect.mean) + half)


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.4g} %"


def margin_of(limit: Limit | None, mean: float | None) -> float | None:
    """The log ratio of the gate's margin that an effect is nearest to; None without a gate."""
    return None if limit is None or mean is None else limit.nearest(mean)

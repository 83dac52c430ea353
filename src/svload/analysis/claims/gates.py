"""Decisions on `fail_if` of a comparison: fail, pass, or open (docs/method.md §2). A null, a refusal or too
few blocks never pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, log, log1p
from typing import Literal

import numpy as np

from svload.analysis import limits
from svload.analysis.claims.evidence import Shown
from svload.analysis.claims.pairs import Gathered
from svload.analysis.claims.statistic import Effect, effect_of, half_width, p_of_distance
from svload.analysis.inference import holm
from svload.model.pairs import Gate
from svload.model.units import show_percent

_FAIL_IF = re.compile(
    r"^(worse|better|different) by more than (\d+(?:\.\d+)?) ?%"
    r"(?:,? (?:or )?success by more than (\d+(?:\.\d+)?) points?)?$"
)
Better = Literal["lower", "higher", "neither"]
_TIMES_FROM = 2.0
"""From this ratio on a change is written as a multiple."""
_MOST_MORE = 100.0
"""The greatest narrowing of an interval that is proposed."""


@dataclass(frozen=True)
class Limit:
    """The limits of a comparison: log ratios of treatment over baseline; how far success may fall, a share of
    one (`worse` alone asks for that)."""

    text: str
    share: float
    high: float | None
    low: float | None
    worse: bool
    success: float = limits.SUCCESS_MARGIN

    def nearest(self, mean: float) -> float:
        """Return the margin that the effect is nearest to."""
        ends = [end for end in (self.high, self.low) if end is not None]
        return min(ends, key=lambda end: abs(mean - end))

    def p_beyond(self, shown: Shown) -> float:
        """Return p that the effect lies within the margin, for an effect seen beyond it."""
        ends = ((self.high, True), (self.low, False))
        return min(shown.p_beyond(end, upward) for end, upward in ends if end is not None)

    def holds(self, interval: tuple[float, float] | None) -> bool:
        """Return whether the whole interval of the log ratio lies within the margins; no interval never does."""
        if interval is None:
            return False
        low, high = interval
        return (self.high is None or high <= self.high) and (self.low is None or low >= self.low)

    def decided_by(self, shown: Shown, gates: int) -> bool:
        """Return whether it fails or passes at levels so strict that looking after each block costs little
        (Haybittle 1971), and that Holm's correction over times and success of all `gates` changes nothing."""
        if self.p_beyond(shown) <= min(limits.GATE_FAILS_P, limits.ALPHA / (2 * gates)):
            return True
        strict = shown.far(round(limits.ALPHA / limits.GATE_PASSES_P))
        return self.holds(strict) and not shown.held_back(self.low, self.high, strict)


@dataclass(frozen=True)
class Facts:
    """All inputs of a gate. `about`: the compared number in words; `blocked_by`: why its interval may not
    decide, as a clause; empty: it may."""

    about: str
    limit: Limit
    found: Gathered
    shown: Shown
    floor: float | None
    blocked_by: str


def limit_of(text: str | None, better: Better) -> Limit | None:
    """Return the margins that `worse by more than 5 %` sets for a metric with this `better` direction; None
    without a gate."""
    matched = _FAIL_IF.match(text) if text else None
    if matched is None or text is None:
        return None
    share = float(matched[2]) / 100
    success = float(matched[3]) / 100 if matched[3] else limits.SUCCESS_MARGIN
    up, down = log1p(share), log1p(-share) if share < 1 else -np.inf
    direction = matched[1] if better != "neither" else "different"
    worse_is_up = better == "lower"
    if direction == "different":
        return Limit(text, share, up, down, True, success)
    above = (direction == "worse") == worse_is_up
    return Limit(text, share, up if above else None, None if above else down, direction == "worse", success)


def judge_gates(gates: Sequence[Facts | None]) -> list[Gate | None]:
    """Judge every comparison's gate, in order: failing, by times or by success, is Holm-corrected over all
    tests of both kinds; passing is not, since it needs all of them.

    A success rate is a separate test only where a request failed: without a failure it could not fail,
    whatever else was seen, and so does not make the other tests stricter (Tarone 1990).
    """
    asked = [gate for gate in gates if gate is not None]
    tests = [(_p_times(gate), _p_success(gate)) for gate in asked]
    adjusted = iter(holm([p for both in tests for p in both if p is not None]))
    judged = iter(
        [
            _judge(gate, next(adjusted), next(adjusted) if success is not None else 1.0)
            for gate, (_, success) in zip(asked, tests, strict=True)
        ]
    )
    return [None if gate is None else next(judged) for gate in gates]


def _p_times(gate: Facts) -> float:
    if gate.blocked_by:
        return 1.0
    return gate.limit.p_beyond(gate.shown)


def _p_success(gate: Facts) -> float | None:
    """Return p that success fell by no more than its margin, by the claim's own statistic, two-sided as the
    interval; None where success is not judged, no request failed, or there are too few units."""
    effect = _success_effect(gate.found)
    if not _asks_success(gate) or effect is None:
        return None
    p = float(p_of_distance(max(-float(effect.mean) - gate.limit.success, 0.0), effect))
    return None if np.isnan(p) else p


def _asks_success(gate: Facts) -> bool:
    before, after = gate.found.success
    return gate.limit.worse and before is not None and after is not None and min(before, after) < 1


def _judge(gate: Facts, p_times: float, p_success: float) -> Gate:
    """Judge one gate. A sure failure is reported in full: success, and also times where nothing keeps them
    open."""
    text = gate.limit.text
    before, after = ("?" if one is None else show_percent(one, 4) for one in gate.found.success)
    falls = f"success falls from {before} to {after}" if p_success <= limits.ALPHA else ""
    sure = (_certain_failure(gate), falls)
    times_open = _keeps_times_open(gate)
    times = "" if times_open or not _times_fail(gate, p_times) else _moves(gate)
    if failed := " and ".join(filter(None, (*sure, times))):
        return Gate(text=text, outcome="fail", why=failed)
    if why := times_open or _keeps_success_open(gate):
        return Gate(text=text, outcome="open", why=why)
    if _is_surely_no_worse(gate):
        pairs = gate.found.timed_out_of
        why = f"the baseline is beyond the timeout in all {pairs} pairs, the treatment in none"
        return Gate(text=text, outcome="pass", why=why)
    if not gate.limit.holds(gate.shown.interval()):
        return Gate(text=text, outcome="open", why="the interval extends beyond the margin")
    if why := gate.shown.held_back(gate.limit.low, gate.limit.high, gate.shown.interval()):
        return Gate(text=text, outcome="open", why=why)
    if not gate.limit.holds(gate.shown.far()):
        why = f"other programs used {show_percent(gate.shown.strangers.mean or 0.0, 4)} of the machine, which can hide a difference"
        return Gate(text=text, outcome="open", why=why)
    read = gate.shown.strangers.readable and not gate.shown.strangers.unread
    note = "" if read else "; the server's machine could not be read"
    return Gate(text=text, outcome="pass", why=f"the whole interval lies within the margin{note}")


def _times_fail(gate: Facts, p_times: float) -> bool:
    mean = gate.shown.mean
    above_floor = mean is not None and (gate.floor is None or abs(mean) >= gate.floor)
    return p_times <= limits.ALPHA and above_floor


def _moves(gate: Facts) -> str:
    """Return `probe.response.p50 rises by 16 to 22 %`: the interval that lies beyond the margin."""
    mean = gate.shown.mean or 0.0
    low, high = gate.shown.interval() or (mean, mean)
    if high >= log(_TIMES_FROM):
        return f"{gate.about} is {_span(exp(low), exp(high))} times as high"
    ends = sorted(100 * abs(expm1(end)) for end in (low, high))
    return f"{gate.about} {'rises' if mean > 0 else 'falls'} by {_span(*ends)} %"


def _span(low: float, high: float) -> str:
    shown = list(dict.fromkeys(f"{end:.3g}" if end < 1000 else f"{end:,.0f}" for end in (low, high)))
    return " to ".join(shown)


def _certain_failure(gate: Facts) -> str:
    """Return what is worse than any limit: the treatment beyond the timeout or overloaded in most pairs,
    where the baseline is not. An interaction has no such answer: the same may be true at the first level of
    `by`.

    These are counts and no tests, so Holm has nothing to correct: such a gate could not pass in any case. Of
    equal sides, each beyond in half of its trials, the treatment alone is beyond in most of three pairs with
    a chance of 16 %, of six with 4 %.
    """
    if not gate.limit.worse or gate.found.contrast.by_levels:
        return ""
    _, late = gate.found.timed_out
    if late > gate.found.timed_out_of / 2:
        return f"the treatment is beyond the timeout in {late} of {gate.found.timed_out_of} pairs, the baseline is not"
    (before, after), (of_before, of_after) = gate.found.overloaded, gate.found.overloaded_of
    if after > of_after / 2 and before <= of_before / 2:
        return f"the treatment's server is OVERLOADED in {after} of {of_after} trials"
    return ""


def _is_surely_no_worse(gate: Facts) -> bool:
    """Return whether the gate asks only for worse, and the baseline alone is beyond the timeout, in every
    pair: no number is worse than that."""
    one_sided = gate.limit.low is None or gate.limit.high is None
    broken = any(one.why == "broken" for one in gate.found.lost)
    return gate.limit.worse and one_sided and gate.found.beyond < 0 and not (broken or gate.shown.guards)


def blocks_decide(gate: Facts) -> bool:
    """Return whether more blocks may decide an open gate: not one of overloaded servers, nor one that success
    keeps open, for which the gate says how many requests would."""
    return not _is_overloaded(gate) and not _keeps_success_open(gate)


def _is_overloaded(gate: Facts) -> bool:
    return gate.found.overloaded[1] > gate.found.overloaded_of[1] / 2


def _keeps_times_open(gate: Facts) -> str:
    early, late = gate.found.timed_out
    if _is_overloaded(gate):
        return "both sides are OVERLOADED, and their times grow with the run's length"
    if gate.blocked_by:
        return gate.blocked_by
    if (early or late) and not _is_surely_no_worse(gate):
        return f"{early + late} of {gate.found.timed_out_of} pairs have one side beyond the timeout"
    return ""


def _keeps_success_open(gate: Facts) -> str:
    """Return why success is neither within its margin nor surely beyond it, with what would decide that;
    empty where it is within."""
    interval = success_interval(gate.found)
    if not _asks_success(gate) or (interval is not None and interval[0] >= -gate.limit.success):
        return ""
    points = 100 * gate.limit.success
    text = f"success may fall by more than {points:g} point{'' if points == 1 else 's'}"
    return f"{text}{_would_decide(gate, interval)} (`success by more than 1 point` sets another margin)"


def _would_decide(gate: Facts, interval: tuple[float, float] | None) -> str:
    """Return how many requests a side, given the scatter seen, would show whether success stays within its
    margin."""
    if interval is None:
        return ""
    drop, half = -(interval[0] + interval[1]) / 2, (interval[1] - interval[0]) / 2
    away = abs(gate.limit.success - drop)
    made = gate.found.requests * len(gate.found.blocks) * len(gate.found.cells)
    if away < half / _MOST_MORE or not made:
        return ""
    needed = int(float(f"{made * (half / away) ** 2:.2g}"))  # to two figures
    return f"; about {needed:,} requests a side would decide it"


def success_interval(found: Gathered) -> tuple[float, float] | None:
    """Return the 95 % interval of the treatment's success rate minus the baseline's, by the claim's own
    statistic; None with too few units."""
    effect = _success_effect(found)
    half = float("nan") if effect is None else float(half_width(effect))
    return (
        None if effect is None or np.isnan(half) else (float(effect.mean) - half, float(effect.mean) + half)
    )


def _success_effect(found: Gathered) -> Effect | None:
    """Return the mean difference of the trials' success rates, with a scatter of at least one request per
    block; None without any."""
    if not found.success_differences.size:
        return None
    a_block = found.requests * len(found.cells)
    return effect_of(found.success_differences, found.unit, least=1 / a_block if a_block else 0.0)

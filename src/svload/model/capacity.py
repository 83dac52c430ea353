"""The result of a search for the largest load (docs/method.md §4)."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen

SearchState = Literal["searching", "found", "above", "below", "undecided"]


def noun_of(over: str) -> str:
    """Return what the values of a searched factor count, to follow a number in a sentence."""
    return "requests a second" if over == "rate" else over


class CapacityLevel(Frozen):
    """All trials of a search at one load."""

    load: int
    """users, or requests a second"""
    case: str
    """its case"""
    outcome: Literal["holds", "breaks", "mixed", "no number"]
    """whether its trials keep the criteria; mixed: some do"""
    by: str
    """the criterion that is nearest to its limit, or furthest beyond it"""
    value: float | None
    """the measured number of `by`, as geometric mean of the trials, in base units; null: none"""
    low: float | None
    """smallest value in a trial"""
    high: float | None
    """largest value in a trial"""
    throughput_rps: float | None
    """ok completions per second, mean of its trials; null: not measured"""
    trials: int
    """trials with a number"""
    without: int
    """trials without one"""
    why: str = ""
    """why a trial has no number; empty: all have one"""


class CapacityTrial(Frozen):
    """One trial of a search, in the order they ran."""

    trial: str
    """the trial, such as users-8.r1"""
    load: int
    """its load"""
    look: bool
    """made on the way to the limit, at twice the load before or half way between two; false: in a round"""
    outcome: Literal["holds", "breaks", "no number"]
    """whether this trial alone keeps the criteria"""
    low: float | None
    """lower end of the limit's interval after this trial; null: none yet"""
    high: float | None
    """upper end; null: none yet"""


class GainStep(Frozen):
    """One step up of a search for the knee: two consecutive trials."""

    low_load: int
    """the lower load"""
    high_load: int
    """the higher load"""
    gain: float
    """d ln X / d ln N: relative growth of throughput over relative growth of load (1: proportional)"""
    low_rps: float
    """ok completions per second at the lower load"""
    high_rps: float
    """ok completions per second at the higher load"""


class CapacityGate(Frozen):
    """The gate `--at-least`: whether the load found reaches the required one."""

    at_least: int
    """the required load"""
    outcome: Literal["pass", "fail", "open"]
    """pass: the limit's whole interval is at or above it; fail: wholly below; open: it lies inside"""
    sentence: str
    """the outcome in words"""


class CapacityResult(Frozen):
    """The result of a search for the largest load."""

    over: str
    """the open factor"""
    that: tuple[str, ...] = ()
    """criteria that must all hold; empty: the search was for the knee"""
    gain: float | None = None
    """the smallest gain that a step must have, in a search for the knee"""
    least: int | None = None
    """the smallest load allowed"""
    most: int | None = None
    """the largest load allowed"""
    ended: bool = True
    """false: there is more to measure"""
    state: SearchState = "undecided"
    """found: the limit has an interval; above, below: it is outside the allowed loads; undecided: there were
    too few trials, or their results do not depend on the load"""
    limit: float | None = None
    """the load at which the criteria are just met, from a line through all trials near it; null: not known"""
    low: int | None = None
    """lower end of its 95 % interval, rounded down; until that is known, the largest load that held"""
    high: int | None = None
    """upper end, rounded up; until that is known, the smallest load that broke"""
    width: float | None = None
    """upper end over lower end, minus 1 (0.1: 10 %); null: no interval"""
    drift: float = 0.0
    """relative change of the limit from the first round to the last (-0.1: it fell by a tenth); 0: no more
    than chance explains"""
    levels: tuple[CapacityLevel, ...] = ()
    """every measured load, ascending"""
    steps: tuple[GainStep, ...] = ()
    """every measured step, in the order they ran"""
    trials: tuple[CapacityTrial, ...] = ()
    """every trial, in the order they ran"""
    why_open: str = ""
    """why the result is undecided, or wider than requested; empty: neither"""
    gate: CapacityGate | None = None
    """null: `--at-least` was not given"""
    sentence: str
    """the result in words"""

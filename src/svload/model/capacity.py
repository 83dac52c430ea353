"""What a search for the largest load has found (docs/method.md §4)."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen

SearchState = Literal["searching", "found", "above", "below", "undecided"]


def noun_of(over: str) -> str:
    """What the values of a searched factor count, for sentences: a number stands before it."""
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
    """the number that `by` is about, geometric mean of its trials, in base units; null: none"""
    low: float | None
    """the least of its trials"""
    high: float | None
    """the greatest"""
    throughput_rps: float | None
    """ok completions a second, mean of its trials; null: not measured"""
    trials: int
    """trials with a number"""
    without: int
    """trials without one"""
    why: str = ""
    """why a trial has no number; empty: each has"""


class CapacityTrial(Frozen):
    """One trial of a search, in the order they ran."""

    trial: str
    """the trial, such as users-8.r1"""
    load: int
    """its load"""
    look: bool
    """made on the way to the limit: a load twice the one before, or half way between; else one of a round"""
    outcome: Literal["holds", "breaks", "no number"]
    """what this trial alone says of the criteria"""
    low: float | None
    """lower end of the limit's interval after it; null: none yet"""
    high: float | None
    """upper end; null: none yet"""


class GainStep(Frozen):
    """One step up of a search for the knee: two trials, one after the other."""

    low_load: int
    """from this load"""
    high_load: int
    """to this one"""
    gain: float
    """d ln X / d ln N: by how much of the added load throughput grows (1: by all of it)"""
    low_rps: float
    """ok completions a second at the lower load"""
    high_rps: float
    """the same at the higher load"""


class CapacityGate(Frozen):
    """`--at-least`: does the load that was found reach what is needed?"""

    at_least: int
    """the load that is needed"""
    outcome: Literal["pass", "fail", "open"]
    """pass: the whole interval of the limit lies at it or above; fail: wholly below; open: it lies inside"""
    sentence: str
    """the outcome in words"""


class CapacityResult(Frozen):
    """What a search for the largest load has found."""

    over: str
    """the open factor"""
    that: tuple[str, ...] = ()
    """criteria that all must hold; empty: the knee was sought"""
    gain: float | None = None
    """the least gain of a step, where the knee was sought"""
    least: int | None = None
    """no load below it was allowed"""
    most: int | None = None
    """nor above it"""
    ended: bool = True
    """false: there is more to measure"""
    state: SearchState = "undecided"
    """found: the limit has an interval; above, below: it lies beyond the loads that were allowed; undecided: there
    were too few trials, or what they say does not depend on the load"""
    limit: float | None = None
    """the load at which the criteria are reached, by a line through all trials near it; null: not known"""
    low: int | None = None
    """lower end of its 95 % interval, rounded down; before that is known the largest load that held"""
    high: int | None = None
    """upper end, rounded up; before that is known the least load that broke"""
    width: float | None = None
    """upper end over lower end, less 1 (0.1: 10 %); null: no interval"""
    drift: float = 0.0
    """by how much of itself the limit moved from the first round to the last (-0.1: it fell by a tenth); 0: no more
    than chance moves it"""
    levels: tuple[CapacityLevel, ...] = ()
    """every load that was measured, ascending"""
    steps: tuple[GainStep, ...] = ()
    """every step that was measured, in the order they ran"""
    trials: tuple[CapacityTrial, ...] = ()
    """every trial, in the order they ran"""
    why_open: str = ""
    """why it is undecided, or wider than asked; empty: neither"""
    gate: CapacityGate | None = None
    """null: `--at-least` was not asked"""
    sentence: str
    """the answer in words"""

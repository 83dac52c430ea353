"""What a search for the largest load has found (docs/method.md §4)."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen

SearchState = Literal["searching", "bracketed", "above", "below", "undecided"]


def noun_of(over: str) -> str:
    """What the values of a searched factor count, for sentences: a number stands before it."""
    return "requests a second" if over == "rate" else over


class CapacityLevel(Frozen):
    """One load of a search: what its replicates say together."""

    load: int
    """users, or requests a second"""
    outcome: Literal["kept", "broken", "more", "open"]
    """more: the search ended before it could be told; open: it cannot be told, and counts neither way"""
    by: str
    """the criterion that says so, the nearest to its limit"""
    margin: float | None
    """mean log distance to the limit, positive where it holds; null: beyond the time-out, OVERLOADED, or unknown"""
    low: float | None
    """lower end of its interval over the looks that were planned"""
    high: float | None
    """upper end"""
    replicates: int
    """trials that count"""
    refused: int
    """trials without a number for a criterion"""
    case: str = ""
    """its case"""
    value: float | None = None
    """the number that `by` is about, over the trials that count, in base units; null: none"""
    value_low: float | None = None
    """lower end of its interval"""
    value_high: float | None = None
    """upper end"""
    throughput_rps: float | None = None
    """ok completions a second, mean over the trials in which that number is believed; null: in none"""
    why: str = ""
    """why it has no number, or what tells it where its interval does not; empty: neither"""


class CapacityTrial(Frozen):
    """One trial of a search, in the order they ran."""

    trial: str
    """the trial, such as users-8.r1"""
    load: int
    """its load"""
    scout: bool
    """a single look on the way to the limit: it guides the search and counts for no level"""
    outcome: Literal["holds", "breaks", "no number"]
    """what this trial alone says of the criteria; of a search for a knee whether its throughput is known (holds)"""
    kept: int | None
    """lower end of the bracket after it; null: none yet"""
    broken: int | None
    """upper end; null: none yet"""


class CapacityWay(Frozen):
    """The kept end once more, reached from one side."""

    way: Literal["from below", "from above"]
    """from which side it was reached"""
    outcome: Literal["kept", "broken", "more", "open"]
    """what those trials say"""
    replicates: int
    """trials that count"""


class GainStep(Frozen):
    """One step up of a search for the knee."""

    low_load: int
    """from this load"""
    high_load: int
    """to this one"""
    gain: float
    """d ln X / d ln N: by how much of the added load throughput grows (1: by all of it)"""
    low: float
    """lower end of its interval"""
    high: float
    """upper end"""
    outcome: Literal["worth it", "flat", "more", "open"]
    """against the gain that was asked"""
    low_rps: float | None = None
    """ok completions a second at the lower load, geometric mean; null: written by an older svload"""
    high_rps: float | None = None
    """the same at the higher load"""


class CapacityGate(Frozen):
    """`--at-least`: does the load that was found reach what is needed?"""

    at_least: int
    """the load that is needed"""
    outcome: Literal["pass", "fail", "open"]
    """pass: the kept end reaches it; fail: it is broken there or below; open: the bracket holds it"""
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
    """no load below it was allowed; null: written by an older svload"""
    most: int | None = None
    """nor above it"""
    ended: bool = True
    """false: there is more to measure"""
    state: SearchState = "undecided"
    """bracketed: the limit lies between two measured levels; above, below: not bracketed, it lies beyond the
    levels that were allowed; undecided: a level that cannot be told, or the time, stands between"""
    kept: int | None = None
    """the largest load that kept the criteria (the last before the knee); null: none did"""
    broken: int | None = None
    """the least load that broke them; null: none did"""
    levels: tuple[CapacityLevel, ...] = ()
    """every load that was measured, ascending"""
    steps: tuple[GainStep, ...] = ()
    """every step that was measured, ascending"""
    trials: tuple[CapacityTrial, ...] = ()
    """every trial, in the order they ran"""
    confirmed: tuple[CapacityWay, ...] = ()
    """the kept end measured again"""
    hysteresis: tuple[int, ...] = ()
    """loads that keep the criteria when reached from below, and break them from above"""
    why_wide: str = ""
    """what keeps the bracket wider than asked; empty: nothing"""
    gate: CapacityGate | None = None
    """null: `--at-least` was not asked"""
    sentence: str
    """the answer in words"""

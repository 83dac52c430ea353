"""What a claim rests on: its pairs, those that were lost, whether their order mattered, and the answer of its gate."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen


class RoundOfTurns(Frozen):
    """One turn of each side, neither joined with others."""

    baseline: float | None
    """the compared percentile of the baseline's requests that count, in s; null: it has none, or it lies among failures"""
    treatment: float | None
    """the same of the treatment's"""
    strangers: float | None = None
    """share of the machine that strangers had in the more disturbed of the two turns; null: not read"""


class PairRatio(Frozen):
    """Two matched trials of one block, and what they say."""

    block: int
    """the block that holds both"""
    unit: int
    """the independent unit that it counts to: its block, or its bring-up"""
    baseline: str
    """trial of the baseline's case"""
    treatment: str
    """trial of the other"""
    log_ratio: float
    """ln(treatment / baseline) of the compared number; of sides that took turns the median of their rounds'"""
    treatment_first: bool
    """the treatment's trial ran before the baseline's; false where they took turns"""
    strangers: float | None = None
    """share of the machine that strangers had beside its more disturbed trial; null: not read"""
    against: tuple[str, str] | None = None
    """of an interaction: the trials of baseline and treatment at the first level of `by`, whose log ratio
    is taken off; null: a plain pair"""
    rounds: tuple[RoundOfTurns, ...] = ()
    """its rounds, in the order they ran; empty: the two took no turns"""


class LostPair(Frozen):
    """Two matched trials of one block that say nothing, and why."""

    block: int
    """the block"""
    baseline: str
    """case of the baseline"""
    treatment: str
    """case of the other"""
    side: Literal["baseline", "treatment", "both"]
    """which of them is broken, missing or without a number"""
    why: Literal["broken", "missing", "no number"]
    """broken: a trial is not what its case says, or its load was not made; missing: it was not made, or its clock was set"""
    checks: tuple[str, ...] = ()
    """the checks that say so"""
    trials: tuple[str, ...] = ()
    """its trials, as far as they were made"""
    reason: str = ""
    """why, as a clause"""


class Gate(Frozen):
    """`fail_if` of a comparison (docs/method.md §2)."""

    text: str
    """as the study wrote it"""
    outcome: Literal["fail", "pass", "open"]
    """fail: beyond the margin, surely; pass: within it, surely; open: neither can be said"""
    why: str = ""
    """why it is so, as a clause"""


class CarryOver(Frozen):
    """The ratio with the side that ran just before as a term: an effect of one trial on the next is taken out."""

    ratio: float
    """treatment over baseline"""
    low: float
    """its 95 % interval"""
    high: float
    """its 95 % interval"""
    differs: bool
    """it decides otherwise than the ratio itself: nothing is claimed"""


class Strangers(Frozen):
    """What others had of the machine beside a comparison's pairs, and what its pairs weigh for it."""

    readable: bool
    """false: not of every trial, so that all pairs count alike"""
    unread: bool = False
    """the machine of a server is not among those that were read"""
    mean: float = 0.0
    """share of the machine beside the more disturbed trial of a pair, under the weights"""
    most: float = 0.0
    """the largest"""
    sides: tuple[float, float] = (0.0, 0.0)
    """mean share beside the baseline's trials, and beside the treatment's"""
    lean_p: float = 1.0
    """p of the sign test on which side had more; below 0.1 all pairs count alike"""
    calm_pairs: float = 0.0
    """so many calm pairs the pairs count as: the sum of their weights"""
    dilution: float = 0.0
    """they pull the ratio towards 1 by this share of its logarithm at most"""
    who: str = ""
    """what they were, where it is known, with the pairs in which they were the busiest"""


class SideSpread(Frozen):
    """How one side's trials lie about their cases' means."""

    sd: float
    """standard deviation of the logarithms"""
    worst: float
    """the slowest (of what should be high: the lowest) trial over its case's mean"""

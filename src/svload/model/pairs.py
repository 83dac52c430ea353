"""The evidence of a claim: its pairs, lost pairs, the effect of their order, and the outcome of its gate."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen


class RoundOfTurns(Frozen):
    """One turn of each side, each measured separately."""

    baseline: float | None
    """the compared percentile of the baseline's requests that count, in s; null: it has none, or it lies
    among failures"""
    treatment: float | None
    """the same for the treatment"""
    strangers: float | None = None
    """share of the machine used by other programs in the more disturbed of the two turns; null: not read"""


class PairRatio(Frozen):
    """Two matched trials of one block, and their ratio."""

    block: int
    """the block that holds both"""
    unit: int
    """the independent unit that it counts for: its block, or its bring-up"""
    baseline: str
    """trial of the baseline's case"""
    treatment: str
    """trial of the treatment's case"""
    log_ratio: float
    """ln(treatment / baseline) of the compared number; if sides took turns, the median of their rounds"""
    treatment_first: bool
    """the treatment's trial ran before the baseline's; false if they took turns"""
    strangers: float | None = None
    """share of the machine used by other programs during its more disturbed trial; null: not read"""
    against: tuple[str, str] | None = None
    """for an interaction: the trials of baseline and treatment at the first level of `by`, whose log ratio is
    subtracted; null: a plain pair"""
    rounds: tuple[RoundOfTurns, ...] = ()
    """its rounds, in the order they ran; empty: the two took no turns"""


class LostPair(Frozen):
    """Two matched trials of one block that give no ratio, and why."""

    block: int
    """the block"""
    baseline: str
    """case of the baseline"""
    treatment: str
    """case of the treatment"""
    side: Literal["baseline", "treatment", "both"]
    """which of them is broken, missing or without a number"""
    why: Literal["broken", "missing", "no number"]
    """broken: a trial is not what its case says, or its load was not made; missing: it was not made, or its
    clock was set"""
    checks: tuple[str, ...] = ()
    """the checks that found this"""
    trials: tuple[str, ...] = ()
    """its trials, as far as they were made"""
    reason: str = ""
    """why, as a clause"""


class Gate(Frozen):
    """`fail_if` of a comparison (docs/method.md §2)."""

    text: str
    """the rule as the study wrote it"""
    outcome: Literal["fail", "pass", "open"]
    """fail: beyond the margin with confidence; pass: within it with confidence; open: neither is certain"""
    why: str = ""
    """the reason for the outcome, as a clause"""


class CarryOver(Frozen):
    """The ratio from a model with the side that ran just before as a term: removes the effect of one trial on
    the next."""

    ratio: float
    """treatment over baseline"""
    low: float
    """lower end of its 95 % interval"""
    high: float
    """upper end"""
    differs: bool
    """it leads to another decision than the ratio itself: nothing is claimed"""


class Strangers(Frozen):
    """Machine use by other programs during a comparison's pairs, and the resulting weights of the pairs."""

    readable: bool
    """false: not known for every trial, so that all pairs count alike"""
    unread: bool = False
    """the machine of a server is not among those that were read"""
    mean: float = 0.0
    """share of the machine during the more disturbed trial of a pair, weighted mean; if not `readable`, over
    the pairs for which it is known"""
    most: float = 0.0
    """the largest such share"""
    sides: tuple[float, float] = (0.0, 0.0)
    """mean share during the baseline's trials, and during the treatment's"""
    lean_p: float = 1.0
    """p of the sign test on which side had more; below 0.1 all pairs count alike"""
    calm_pairs: float = 0.0
    """the number of calm pairs to which the pairs are equivalent: the sum of their weights"""
    dilution: float = 0.0
    """the largest share of the ratio's logarithm by which they pull it towards 1, given `mean`"""
    who: str = ""
    """what they were, if known, with the pairs in which they were the busiest"""


class SideSpread(Frozen):
    """The scatter of one side's trials about their cases' means."""

    sd: float
    """standard deviation of the logarithms"""
    worst: float
    """the slowest (if higher is better: the lowest) trial over its case's mean"""

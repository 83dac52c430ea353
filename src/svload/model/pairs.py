"""What a claim rests on: its pairs, those that were lost, whether their order mattered, and the answer of its gate."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen


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
    """ln(treatment / baseline) of the compared number"""
    treatment_first: bool
    """the treatment's trial ran before the baseline's"""
    below: float = 0.0
    """by their own bounds the true log ratio lies at most this below"""
    above: float = 0.0
    """and at most this above"""
    against: tuple[str, str] | None = None
    """of an interaction: the trials of baseline and treatment at the first level of `by`, whose log ratio
    is taken off; null: a plain pair"""


class LostPair(Frozen):
    """Two matched trials of one block that say nothing, and why."""

    block: int
    """the block"""
    baseline: str
    """case of the baseline"""
    treatment: str
    """case of the other"""
    side: Literal["baseline", "treatment", "both"]
    """which of them is refused, missing or without a number"""
    why: Literal["refused", "missing", "no number"]
    """refused: the compared number of a trial is REFUSED"""
    checks: tuple[str, ...] = ()
    """the checks that refused it"""
    trials: tuple[str, ...] = ()
    """its trials, as far as they were made"""
    refused: tuple[str, ...] = ()
    """those of them whose number is REFUSED"""
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
    """Whether the order of two neighbouring trials mattered to a claim."""

    baseline_first: float | None
    """ratio over the neighbours of which the baseline ran first; null: none"""
    treatment_first: float | None
    """ratio over the others; null: none"""
    differ: bool
    """they differ by more than chance, and one is less than half of the other: nothing is claimed"""
    p: float | None = None
    """that both are the same (Welch on logs); null: too few"""

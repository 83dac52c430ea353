"""A study's claims as one family of tests (docs/method.md §2): adjusted p-values, and the least p
that a design can reach at all.

Arithmetic on counts and p-values alone, so that `svload plan` answers without numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from svload.analysis import limits

DRAWS = 20_000
"""Random sign flips or labellings where there are too many to enumerate."""


def smallest_sign_flip_p(blocks: int) -> float:
    """The least p that sign flips over so many blocks can give."""
    if blocks < 1:
        return 1.0
    return max(2.0 / 2.0**blocks, 1 / (1 + DRAWS)) if blocks > limits.ENUMERATE_UP_TO else 2.0 / 2.0**blocks


def smallest_permutation_p(treatment: int, baseline: int) -> float:
    """The least two-sided p of relabelling so many runs a side."""
    return min(1.0, (2.0 if treatment == baseline else 1.0) / comb(treatment + baseline, treatment))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given (Holm 1979): step-down, monotone, at most 1."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(order):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values for a matrix that is explored, in the order given (Benjamini & Hochberg 1995)."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index], reverse=True)
    adjusted = [0.0] * len(p_values)
    reached = 1.0
    for above, index in enumerate(order):
        reached = min(reached, p_values[index] * len(p_values) / (len(p_values) - above))
        adjusted[index] = reached
    return adjusted

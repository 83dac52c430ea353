"""Load that changes in stages, as numbers: what a rate brings until a moment, and how long users are there (METHOD §1).

The engine plans the same (engine/engine/src/ramp.rs); tests/conformance holds the two against each other.
Moments are ns from the begin of the first stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

from pydantic import Field

from svload.model.base import Frozen


class Stage(Frozen):
    """From the level before to `target` (users, or arrivals a second) in a straight line; no duration is a jump."""

    duration_ns: int = Field(ge=0)
    target: float = Field(ge=0)


def stages_ns(stages: Sequence[Stage]) -> int:
    """How long all stages take."""
    return sum(stage.duration_ns for stage in stages)


def _pieces(start: float, stages: Sequence[Stage]) -> Iterator[tuple[int, int, float, float]]:
    """(begin, length, level before, level after) of each stage."""
    at, level = 0, start
    for stage in stages:
        yield at, stage.duration_ns, level, stage.target
        at, level = at + stage.duration_ns, stage.target


def arrivals_until(start_rps: float, stages: Sequence[Stage], moment_ns: float) -> float:
    """The rate's integral from 0 to a moment: how many arrivals are due by then, as a real number."""
    total = 0.0
    for begin, length, low, high in _pieces(start_rps, stages):
        inside = min(max(moment_ns - begin, 0), length)
        if inside > 0:
            reached = low + (high - low) * inside / length
            total += (low + reached) / 2 * inside / 1e9
    return total


def due_ns(start_rps: float, stages: Sequence[Stage], arrivals: float) -> float | None:
    """The moment at which the rate's integral reaches `arrivals`; None if it never does."""
    left = arrivals
    for begin, length, low, high in _pieces(start_rps, stages):
        brings = (low + high) / 2 * length / 1e9
        if brings > left:
            slope = (high - low) / (length / 1e9)
            root = sqrt(max(low * low + 2 * slope * left, 0.0))
            return begin + (2 * left / (low + root) * 1e9 if left > 0 else 0.0)
        left -= brings
    return None


def spans_ns(start_vus: int, stages: Sequence[Stage], vu: int) -> list[tuple[int, int]]:
    """When user number `vu` (from 0) is there: spans [on, off).

    Going up there are n users as soon as the line reaches n, going down n as soon as it has come down to n.
    """
    spans: list[tuple[int, int]] = []
    on = 0 if start_vus > vu else None
    at = 0
    for begin, length, before, after in _pieces(start_vus, stages):
        low, high = round(before), round(after)
        at = begin + length
        if on is None and high > vu:
            on = begin + length * (vu + 1 - low) // (high - low)
        elif on is not None and high <= vu:
            spans.append((on, begin + length * (low - vu) // (low - high)))
            on = None
    if on is not None:
        spans.append((on, at))
    return [(begin, end) for begin, end in spans if end > begin]


def users_ns(start_vus: int, stages: Sequence[Stage], low_ns: float, high_ns: float) -> float:
    """Σ over users of their time between two moments."""
    most = max([start_vus, *(round(stage.target) for stage in stages)])
    return sum(
        max(min(off, high_ns) - max(on, low_ns), 0.0)
        for vu in range(most)
        for on, off in spans_ns(start_vus, stages, vu)
    )

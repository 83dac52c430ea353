"""Load that changes in stages, as numbers: the arrivals of a rate until a moment, and how long users are
present (docs/method.md §1).

The engine computes the same (engine/engine/src/ramp.rs); tests/conformance compares both. Moments are ns from
the beginning of the first stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, sqrt
from typing import NamedTuple

from pydantic import Field

from svload.model.base import Frozen
from svload.model.units import show_level, show_number


class Stage(Frozen):
    """A straight line from the level before to `target` (users, or arrivals per second); a jump if of no
    duration."""

    duration_ns: int = Field(ge=0)
    target: float = Field(ge=0)


class LabelledStage(NamedTuple):
    """A stage as outputs name it: `50 users` or `300/s` if it holds a level, `0 → 50 users` on a ramp."""

    label: str
    holds: bool
    from_ns: int
    to_ns: int


def labelled_stages(start: float, stages: Sequence[Stage], of_rates: bool) -> list[LabelledStage]:
    """Return each stage that takes time, in order."""
    return [
        LabelledStage(
            ("" if before == after else f"{show_number(before)} → ") + show_level(after, of_rates),
            before == after,
            begin,
            begin + length,
        )
        for begin, length, before, after in _pieces(start, stages)
        if length
    ]


def stages_ns(stages: Sequence[Stage]) -> int:
    """Return how long all stages take."""
    return sum(stage.duration_ns for stage in stages)


def _pieces(start: float, stages: Sequence[Stage]) -> Iterator[tuple[int, int, float, float]]:
    """Return (beginning, length, level before, level after) of each stage."""
    at, level = 0, start
    for stage in stages:
        yield at, stage.duration_ns, level, stage.target
        at, level = at + stage.duration_ns, stage.target


def arrivals_until(start_rps: float, stages: Sequence[Stage], moment_ns: float) -> float:
    """Return the rate's integral from 0 to a moment: the number of arrivals due by then, as a real number."""
    total = 0.0
    for begin, length, low, high in _pieces(start_rps, stages):
        inside = min(max(moment_ns - begin, 0), length)
        if inside > 0:
            reached = low + (high - low) * inside / length
            total += (low + reached) / 2 * inside / 1e9
    return total


def due_ns(start_rps: float, stages: Sequence[Stage], arrivals: float) -> float | None:
    """Return the moment at which the rate's integral reaches `arrivals`; None if it never does."""
    left = arrivals
    for begin, length, low, high in _pieces(start_rps, stages):
        brings = (low + high) / 2 * length / 1e9
        if brings > left:
            slope = (high - low) / (length / 1e9)
            root = sqrt(max(low * low + 2 * slope * left, 0.0))
            return begin + (2 * left / (low + root) * 1e9 if left > 0 else 0.0)
        left -= brings
    return None


def users_ns(start_vus: int, stages: Sequence[Stage], low_ns: float, high_ns: float) -> float:
    """Return Σ over users of their time between two moments; the cost grows with the stages, not with the
    users.

    Going up there are n users as soon as the line reaches n, going down as soon as it has come down to n.
    """
    total = 0.0
    for begin, length, before, after in _pieces(start_vus, stages):
        low, high = max(low_ns, begin), min(high_ns, begin + length)
        if high <= low:
            continue
        users, target = round(before), round(after)
        total += min(users, target) * (high - low)
        changing = abs(target - users)
        step = length / max(changing, 1)
        if target > users:
            total += present_ns(begin + step, step, changing, low, high)
        else:
            # Leaving is arriving with time reversed.
            total += present_ns(-(begin + length), step, changing, -high, -low)
    return total


def present_ns(first_ns: float, step_ns: float, count: int, low_ns: float, high_ns: float) -> float:
    """Return Σ of time between two moments of `count` users that arrive every `step_ns` from `first_ns`
    on."""
    if high_ns <= low_ns:
        return 0.0
    if step_ns <= 0:
        return count * max(high_ns - max(low_ns, first_ns), 0.0)

    def came_by(moment_ns: float) -> int:
        return max(0, min(count, floor((moment_ns - first_ns) / step_ns) + 1))

    there, later = came_by(low_ns), came_by(high_ns)
    arrivals = later - there
    mean_ns = first_ns + step_ns * (there + later - 1) / 2
    return there * (high_ns - low_ns) + arrivals * (high_ns - mean_ns)

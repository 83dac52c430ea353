"""A search for the largest load as every output tells it: a title, the answer in a few words,
a row a level or a step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from svload.model.capacity import CapacityLevel, CapacityResult, GainStep, noun_of
from svload.model.results import Estimate, Findings
from svload.report.told.criteria import criterion_words, threshold_key
from svload.report.told.spelling import count_words, dimension_of, show_bracket, show_value

OUTCOME_WORDS = {"kept": "kept", "broken": "broken", "more": "not told yet", "open": "open"}
MARKS = {"kept": "✓", "broken": "✗", "open": "?", "more": "…", "looked": "·"}
"""An outcome's sign, the same wherever a search is shown; `looked`: a single look."""
STEP_WORDS = {"worth it": "worth it", "flat": "flat", "more": "not told yet", "open": "open"}
STEP_MARKS = {"worth it": "✓", "flat": "✗", "more": "…", "open": "?"}
GATE_MARKS = {"pass": "✓", "fail": "✗", "open": "?"}


@dataclass(frozen=True)
class LevelRow:
    """A level in words. `measured` is the number that says so, with its interval; `says` why it
    says nothing, where it does not, or what tells it in its stead."""

    level: CapacityLevel
    mark: str
    outcome: str
    by: str
    measured: str
    interval: str
    throughput: str
    trials: str
    says: str


@dataclass(frozen=True)
class StepRow:
    """A step up in words."""

    step: GainStep
    mark: str
    outcome: str
    gain: str
    interval: str
    throughput: str


def search_title(found: CapacityResult) -> str:
    """`the largest users that keep response.p95 ≤ 200 ms`."""
    if found.gain is not None:
        return f"the {noun_of(found.over)} above which more of them gain less than {100 * found.gain:.3g} %"
    return f"the largest {noun_of(found.over)} that keep {' and '.join(map(criterion_words, found.that))}"


def bracket_words(found: CapacityResult) -> str:
    """`108 … 112 users`; of an end that is not known what is."""
    kept, broken = found.kept, found.broken
    if kept is not None and broken is not None:
        return f"{kept:,} … {broken:,} {noun_of(found.over)}"
    if kept is not None:
        return f"{kept:,} {noun_of(found.over)} or more"
    return f"less than {broken:,} {noun_of(found.over)}" if broken is not None else "nothing was told"


def level_rows(findings: Findings) -> list[LevelRow]:
    found = findings.capacity
    return [_level(findings, one) for one in found.levels] if found else []


def _level(findings: Findings, one: CapacityLevel) -> LevelRow:
    dimension = dimension_of(threshold_key(findings, one.by))
    measured = Estimate(value=one.value, low=one.value_low, high=one.value_high)
    lost = f", {one.refused} without a number" if one.refused else ""
    if one.why and one.outcome in ("kept", "broken"):
        lost += ", sign test"
    return LevelRow(
        level=one,
        mark=MARKS[one.outcome],
        outcome=OUTCOME_WORDS[one.outcome],
        by=criterion_words(one.by),
        measured=show_value(one.value, dimension),
        interval=show_bracket(measured, dimension),
        throughput=show_value(one.throughput_rps, "rate_rps"),
        trials=f"{one.replicates}{lost}",
        says=one.why,
    )


def step_rows(found: CapacityResult) -> list[StepRow]:
    """Every step up, ascending."""
    return [
        StepRow(
            step=one,
            mark=STEP_MARKS[one.outcome],
            outcome=STEP_WORDS[one.outcome],
            gain=f"{100 * one.gain:.3g} %",
            interval=f"[{100 * one.low:.3g}, {100 * one.high:.3g}] %",
            throughput=f"{show_value(one.low_rps, 'rate_rps')} → {show_value(one.high_rps, 'rate_rps')}",
        )
        for one in found.steps
    ]


def caption_of(found: CapacityResult) -> str:
    """What the drawing of the search shows."""
    looks = sum(one.scout for one in found.trials)
    single = (
        f" Small: {count_words(looks, 'first look')}, which guide and count for no level." if looks else ""
    )
    if found.gain is not None:
        return (
            f"Every trial of the search in the order they ran ({count_words(len(found.trials), 'trial')}), "
            f"at its load."
        )
    return (
        f"Every trial of the search in the order they ran ({count_words(len(found.trials), 'trial')}), at its "
        f"load: filled where that trial alone keeps "
        f"the criteria, a cross where it breaks them, hollow where it has no number.{single} Shaded: what the "
        f"limit was known to lie in after each "
        "trial, by levels of 3 to 12 replicates; at the right the answer."
    )


def nearest(levels: Sequence[LevelRow], found: CapacityResult, most: int) -> list[LevelRow]:
    """So many rows at most, those nearest to the bracket."""
    ends = [end for end in (found.kept, found.broken) if end is not None]
    if len(levels) <= most or not ends:
        return list(levels[:most])
    middle = sum(ends) / len(ends)
    kept = sorted(levels, key=lambda one: abs(one.level.load - middle))[:most]
    return sorted(kept, key=lambda one: one.level.load)


def search_outcome(found: CapacityResult) -> Literal["pass", "fail", "open"]:
    """As its gate says; without one it passes where the limit is bracketed, and is open else: what
    could not be told is never a pass."""
    if found.gate is not None:
        return found.gate.outcome
    return "pass" if found.state == "bracketed" else "open"

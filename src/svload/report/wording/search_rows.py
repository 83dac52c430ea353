"""A search for the largest load in the words shared by every output: a title, the answer in a few words, one
row per load or step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from svload.model.capacity import CapacityLevel, CapacityResult, GainStep, noun_of
from svload.model.results import Findings
from svload.model.units import rounded, show_percent
from svload.report.wording.criteria import criterion_words, threshold_key
from svload.report.wording.spelling import count_words, dimension_of, show_value

MARKS = {"holds": "✓", "breaks": "✗", "mixed": "~", "no number": "?"}
"""The mark for the result of a load's trials, the same wherever a search is shown."""
GATE_MARKS = {"pass": "✓", "fail": "✗", "open": "?"}


@dataclass(frozen=True)
class LevelRow:
    """A load in words. `measured` is the number nearest to its limit, `interval` the range of its trials;
    `says`: why a trial has no number."""

    level: CapacityLevel
    mark: str
    by: str
    measured: str
    interval: str
    throughput: str
    trials: str
    says: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Load, outcome, the criterion nearest to its limit, its number, throughput, trials."""
        number = f"{self.measured} ({self.interval})" if self.interval else self.measured
        return (
            f"{self.level.load:,}", f"{self.mark} {self.level.outcome}", self.by, number,
            self.throughput, self.trials,
        )  # fmt: skip


@dataclass(frozen=True)
class StepRow:
    """A step up in words."""

    step: GainStep
    gain: str
    throughput: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Both loads, gain, throughput."""
        return f"{self.step.low_load:,}", f"{self.step.high_load:,}", self.gain, self.throughput


def search_title(found: CapacityResult) -> str:
    """Return `the largest number of users that keeps response.p95 ≤ 200 ms`."""
    if found.gain is not None:
        return f"the number of {noun_of(found.over)} above which more of them gain less than {show_percent(found.gain)}"
    return f"the largest number of {noun_of(found.over)} that keeps {' and '.join(map(criterion_words, found.that))}"


def limit_words(found: CapacityResult) -> str:
    """Return `about 47 users (41 to 53)`; without an answer, what is known."""
    noun, low, high = noun_of(found.over), found.low, found.high
    if found.state == "above":
        return f"more than {found.most:,} {noun}"
    if found.state == "below":
        return f"fewer than {found.least:,} {noun}"
    if found.limit is not None:
        return f"about {round(found.limit):,} {noun} ({low:,} to {high:,})"
    if low is not None and high is not None:
        return f"between {low:,} and {high:,} {noun}, by single trials"
    if low is not None:
        return f"{low:,} {noun} or more"
    return f"fewer than {high:,} {noun}" if high is not None else "unknown"


def level_rows(findings: Findings) -> list[LevelRow]:
    """Return every load, ascending."""
    found = findings.capacity
    return [_level(findings, one) for one in found.levels] if found else []


def _level(findings: Findings, one: CapacityLevel) -> LevelRow:
    dimension = dimension_of(threshold_key(findings, one.by))
    several = one.low is not None and one.high is not None and one.high > one.low
    ends = f"{show_value(one.low, dimension)} to {show_value(one.high, dimension)}" if several else ""
    return LevelRow(
        level=one,
        mark=MARKS[one.outcome],
        by=criterion_words(one.by),
        measured=show_value(one.value, dimension),
        interval=ends,
        throughput=show_value(one.throughput_rps, "rate_rps"),
        trials=f"{one.trials}{f', {one.without} without a number' if one.without else ''}",
        says=one.why,
    )


def step_rows(found: CapacityResult) -> list[StepRow]:
    """Return every step up, in the order in which they ran."""
    return [
        StepRow(
            step=one,
            gain=f"{'−' if one.gain < 0 else ''}{rounded(100 * abs(one.gain), 3)} %",
            throughput=f"{show_value(one.low_rps, 'rate_rps')} → {show_value(one.high_rps, 'rate_rps')}",
        )
        for one in found.steps
    ]


def search_caption(found: CapacityResult) -> str:
    """Return what the drawing of the search shows."""
    text = (
        f"Every trial of the search in the order they ran ({count_words(len(found.trials), 'trial')}), at its "
        "load: filled where that trial keeps the criteria, a cross where it breaks them, hollow where it has no number."
    )
    looks = sum(one.look for one in found.trials)
    single = f" Small: {count_words(looks, 'first look')} on the way to the limit." if looks else ""
    return f"{text}{single} Shaded: the 95 % interval of the limit after each trial; at the right the answer."


def nearest(levels: Sequence[LevelRow], found: CapacityResult, most: int) -> list[LevelRow]:
    """Return at most `most` rows, those nearest to the limit."""
    middle = found.limit or found.high or found.low
    if len(levels) <= most or middle is None:
        return list(levels[:most])
    kept = sorted(levels, key=lambda one: abs(one.level.load - middle))[:most]
    return sorted(kept, key=lambda one: one.level.load)


def search_outcome(found: CapacityResult) -> Literal["pass", "fail", "open"]:
    """Return the gate's outcome; without a gate it passes if the limit has an interval, else it is open: the
    unknown is never a pass."""
    if found.gate is not None:
        return found.gate.outcome
    return "pass" if found.state == "found" else "open"

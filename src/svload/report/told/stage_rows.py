"""Loads in stages in the words shared by every output: one row per ramp or level with the median of the
case's trials, and the thresholds that each level keeps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from svload.model.results import Findings, StageResult, ThresholdResult
from svload.model.units import Dimension
from svload.report.told.criteria import OUTCOME_MARKS, criterion_words
from svload.report.told.spelling import show_value

HEADINGS = ("case", "group", "stage", "from", "to", "p50", "p95", "p99", "completed", "ok", "thresholds")
NUMBERS = ("response.p50", "response.p95", "response.p99", "throughput", "success_rate")
FORMS: tuple[Dimension, ...] = ("time_s", "time_s", "time_s", "rate_rps", "ratio")


@dataclass(frozen=True)
class StageRow:
    """A stage of a case. `values` are in the order of NUMBERS, None if missing; `keeps`: its thresholds with
    their marks."""

    case: str
    stage: StageResult
    values: tuple[float | None, ...]
    keeps: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the cells, in the order of HEADINGS."""
        one = self.stage
        shown = (
            "–" if each is None else show_value(each, form)
            for each, form in zip(self.values, FORMS, strict=True)
        )
        return (self.case, one.group, one.label, f"{one.from_s:g} s", f"{one.to_s:g} s", *shown, self.keeps)


def stage_rows(findings: Findings, case: str | None = None) -> list[StageRow]:
    """Return the rows in order of cases and time; empty without a load in stages."""
    found: dict[tuple[str, str, float, str], list[StageResult]] = {}
    for trial in findings.trials:
        if case is None or trial.case == case:
            for one in trial.stages:
                found.setdefault((trial.case, one.group, one.from_s, one.label), []).append(one)
    of_case: dict[str, list[ThresholdResult]] = {}
    for threshold in findings.thresholds:
        of_case.setdefault(threshold.case, []).append(threshold)
    return [
        StageRow(
            key[0],
            mine[0],
            tuple(_median(mine, name) for name in NUMBERS),
            level_marks(of_case.get(key[0], ()), mine[0]),
        )
        for key, mine in found.items()
    ]


def level_marks(thresholds: Iterable[ThresholdResult], stage: StageResult) -> str:
    """Return `✓ response.p95 ≤ 200 ms`: each threshold that was judged on this level; empty for a ramp."""
    if not stage.holds:
        return ""
    return ", ".join(
        f"{OUTCOME_MARKS[level.outcome]} {criterion_words(one.that)}"
        for one in thresholds
        for level in one.levels
        if (level.group, level.level) == (stage.group, stage.label)
    )


def _median(mine: Sequence[StageResult], name: str) -> float | None:
    values = [one.metrics[name].value for one in mine if name in one.metrics]
    known = [value for value in values if value is not None]
    return median(known) if known else None

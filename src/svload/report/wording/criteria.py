"""Thresholds in words: those with the same outcome in one line, with what was measured; and loads in stages:
one row per ramp or level with the median of the case's trials, and the thresholds that each level keeps.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from svload.model.metrics import Source, parse_criterion, split_level
from svload.model.results import CaseResult, Findings, StageResult, ThresholdResult
from svload.model.units import Dimension
from svload.report.wording.numbers import Numbers
from svload.report.wording.spelling import (
    count_words,
    dimension_of,
    full_metric,
    list_words,
    services_of,
    show_value,
    traffic_owners,
)

_SIGNS = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}
OUTCOME_MARKS = {"failed": "✗", "open": "?", "refused": "?", "no value": "?", "passed": "✓"}
OPEN = ("open", "refused", "no value")
"""Outcomes that are neither a pass nor a failure."""
UNDECIDED = ("open", "refused")
"""Outcomes of a comparison that is undecided."""
_OVERLOADED = ", OVERLOADED"
"""Added to the measured value if the server's state failed the criterion, whatever the number."""
_VERBS = {
    "passed": "holds",
    "failed": "failed",
    "open": "undecided",
    "refused": "no usable number",
    "no value": "no number",
}


@dataclass(frozen=True)
class Judged:
    """One criterion and one outcome: the cases with that outcome and the range of their values, in words."""

    that: str
    outcome: str
    where: str
    measured: str
    cases: tuple[str, ...]
    alone: str = ""
    """analysis's own sentence, if the criterion is open in only one case"""

    @property
    def mark(self) -> str:
        """✓, ✗ or ?."""
        return OUTCOME_MARKS[self.outcome]

    @property
    def text(self) -> str:
        """`probe.success_rate ≥ 99 %: holds in all 10 cases with load: without (100 % in each)`; if it is
        open in a single case, analysis's own sentence."""
        if self.alone:
            return f"{self.that} {self.alone.rstrip('.')} ({self.where})"
        return f"{self.that}: {_VERBS[self.outcome]} in {self.where}" + (
            f" ({self.measured})" if self.measured else ""
        )


def criterion_words(that: str) -> str:
    """Return a criterion as the study spells it, with typographic signs."""
    return " ".join(_SIGNS.get(word, word) for word in that.split())


def kept(findings: Findings) -> list[Judged]:
    """Return the criteria that passed, one line each, in the study's order."""
    return _judged(findings, ("passed",))


def kept_lines(findings: Findings) -> tuple[str, ...]:
    """Return one line on the criteria that passed in every case, in several wordings, longest first: with
    measured values, with names, only counted (`3 thresholds hold`). Empty without any."""
    broken = {criterion_words(one.that) for one in findings.thresholds if one.outcome != "passed"}
    found = [one for one in kept(findings) if one.that not in broken]
    if not found:
        return ()
    count = f"{count_words(len(found), 'threshold')} {'holds' if len(found) == 1 else 'hold'}"
    measured = ", ".join(one.that + (f" ({one.measured})" if one.measured else "") for one in found)
    return f"{count}: {measured}", f"{count}: {', '.join(one.that for one in found)}", count


def failed(findings: Findings) -> list[Judged]:
    """Return the criteria that failed in any case, one line each."""
    return _judged(findings, ("failed",))


def not_judged(findings: Findings) -> list[Judged]:
    """Return the criteria that are open in any case, one line each; open is never a pass."""
    return _judged(findings, OPEN)


def _judged(findings: Findings, outcomes: Sequence[str]) -> list[Judged]:
    numbers = Numbers(findings)
    by_text: dict[str, list[ThresholdResult]] = {}
    for one in findings.thresholds:
        if one.outcome in outcomes:
            by_text.setdefault(one.that, []).append(one)
    return [
        Judged(
            criterion_words(that),
            same[0].outcome,
            _where(findings, [one.case for one in same]),
            _range(numbers, that, same),
            tuple(one.case for one in same),
            same[0].told if len(same) == 1 and outcomes == OPEN else "",
        )
        for that, same in by_text.items()
    ]


def open_or_failed(findings: Findings) -> list[ThresholdResult]:
    """Return what failed, was refused or has no number, failures first."""
    found = [one for one in findings.thresholds if one.outcome != "passed"]
    return sorted(found, key=lambda one: one.outcome != "failed")


def threshold_key(findings: Findings, that: str) -> str:
    """Return the full name of the metric of a threshold; "" if this svload can't read the threshold."""
    owners: dict[str, Source] = dict.fromkeys(services_of(findings), "service")
    owners |= dict.fromkeys(traffic_owners(findings), "traffic")
    try:
        return full_metric(findings, str(parse_criterion(that, owners).ref))
    except ValueError:
        return ""


def measured_words(numbers: Numbers, one: ThresholdResult) -> str:
    """Return the case's value: `31.2 %`, `refused`, `182 ms, OVERLOADED`."""
    key = threshold_key(numbers.findings, one.that)
    case = next((case for case in numbers.findings.cases if case.case == one.case), None)
    if one.measured is not None:
        words = show_value(one.measured, dimension_of(key))
    else:
        of_all = case is not None and key and not split_level(one.that)[1]
        words = numbers.of_case(case, key).text if case is not None and of_all else "–"
    return f"{words}{_OVERLOADED}" if one.overloaded else words


def _range(numbers: Numbers, that: str, same: Sequence[ThresholdResult]) -> str:
    values = [one.measured for one in same if one.measured is not None]
    if not values:
        return measured_words(numbers, same[0])
    dimension = dimension_of(threshold_key(numbers.findings, that))
    low, high = (show_value(bound, dimension) for bound in (min(values), max(values)))
    more = _OVERLOADED if any(one.overloaded for one in same) else ""
    if low == high:
        return f"{low} in each{more}" if len(values) > 1 else f"{low}{more}"
    return f"{low} to {high}{more}"


def _where(findings: Findings, names: Sequence[str]) -> str:
    """Return `all 10 cases with load: without` if these are exactly the cases run at such levels; else the
    cases by name."""
    ran = [case for case in findings.cases if case.excluded is None]
    named = [case for case in ran if case.case in set(names)]
    if len(names) == 1:
        return names[0]
    shared = _shared_levels(named)
    alike = [case for case in ran if shared.items() <= case.levels.items()]
    if len(alike) != len(named):
        return f"{count_words(len(named), 'case')}: {list_words(names)}"
    ran_shared = _shared_levels(ran)
    telling = [f"{factor}: {level}" for factor, level in shared.items() if factor not in ran_shared]
    all_ = "both cases" if len(named) == 2 else f"all {count_words(len(named), 'case')}"
    return all_ + (f" with {', '.join(telling)}" if telling else "")


def _shared_levels(cases: Sequence[CaseResult]) -> dict[str, str]:
    first, *others = [case.levels for case in cases] or [{}]
    return {
        factor: level for factor, level in first.items() if all(one.get(factor) == level for one in others)
    }


STAGE_HEADINGS = (
    "case",
    "group",
    "stage",
    "from",
    "to",
    "p50",
    "p95",
    "p99",
    "completed",
    "ok",
    "thresholds",
)
_STAGE_NUMBERS = ("response.p50", "response.p95", "response.p99", "throughput", "success_rate")
_STAGE_FORMS: tuple[Dimension, ...] = ("time_s", "time_s", "time_s", "rate_rps", "ratio")


@dataclass(frozen=True)
class StageRow:
    """A stage of a case. `values` are in the order of _STAGE_NUMBERS, None if missing; `keeps`: its
    thresholds with their marks."""

    case: str
    stage: StageResult
    values: tuple[float | None, ...]
    keeps: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the cells, in the order of STAGE_HEADINGS."""
        one = self.stage
        shown = (
            "–" if each is None else show_value(each, form)
            for each, form in zip(self.values, _STAGE_FORMS, strict=True)
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
            tuple(_median(mine, name) for name in _STAGE_NUMBERS),
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

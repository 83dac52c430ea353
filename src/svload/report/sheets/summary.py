"""The sheet of trials, with counts and every headline number, shares and rates as formulas; and case by case
over it: the summary with intervals and doubts, and every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, isclose, log
from typing import Any

from svload.model.results import CaseResult, TrialResult
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet, column_chart, form_of_key, heading, interval_chart, wide
from svload.report.wording.doubts import doubts
from svload.report.wording.numbers import Number, Numbers
from svload.report.wording.spelling import (
    cause,
    count_words,
    dimension_of,
    full_metric,
    grade_words,
    services_of,
    traffic_groups,
    traffic_owners,
)

_HEAD = 1
_REMARK = 48


def over_cases(table: TrialTable, sheet: Sheet, row: int, column: int, case: CaseResult, key: str) -> None:
    """Write one case's number as in analysis: a formula over its trials' cells if it is their mean (of
    shares and counts) or geometric mean, else the number."""
    one, reference = table.numbers.of_case(case, key), table.over(case, key)
    if one.value is None or one.refused or reference is None or not is_mean(table.values(case, key), one):
        sheet.write_number(row, column, one)
    else:
        mean = "AVERAGE" if is_arithmetic(one) else "GEOMEAN"
        sheet.formula(row, column, f"={mean}({reference})", one.value, form_of_key(key))


def is_arithmetic(one: Number) -> bool:
    """Return whether analysis averages values, not logarithms: shares, counts, values not above 0."""
    return one.dimension in ("ratio", "count") or not (one.value and one.value > 0)


def is_mean(values: Sequence[float], one: Number) -> bool:
    """Return whether a formula over these values gives the number: not of a pooled percentile."""
    if not values or one.value is None:
        return False
    if is_arithmetic(one):
        return isclose(sum(values) / len(values), one.value, rel_tol=1e-9, abs_tol=1e-12)
    return min(values) > 0 and isclose(exp(sum(map(log, values)) / len(values)), one.value, rel_tol=1e-9)


def ran(gathered: Gathered) -> list[CaseResult]:
    """Return the cases that were to be run."""
    return [case for case in gathered.findings.cases if case.excluded is None]


def factor_widths(gathered: Gathered) -> list[float]:
    """Return one column width per factor, as wide as its levels, within limits."""
    return [
        min(max(len(text) + (3 if text == factor else 1) for text in (factor, *levels, "level")), 24)
        for factor, levels in gathered.factors.items()
    ]


def _identity(gathered: Gathered, sheet: Sheet, row: int, case: CaseResult) -> int:
    """Write name, levels and verdicts; return the column of the verdicts."""
    words = (case.case, *(case.levels.get(factor, "") for factor in gathered.factors))
    for column, text in enumerate(words):
        sheet.text(row, column, text)
    if case.excluded is None:
        sheet.text(row, len(words), case.instrument or "no trial", case.instrument or "reason")
        sheet.text(row, len(words) + 1, case.server or "")
    return len(words)


def fill_summary(sheet: Sheet, gathered: Gathered, table: TrialTable) -> None:
    """Write one row per case, excluded ones too: verdicts, n, the main group's numbers and intervals."""
    findings, group = gathered.findings, gathered.group
    median = f"{group}.response.p50"
    keys = [f"{group}.response.{stat}" for stat in ("p90", "p95", "p99", "mean")]
    keys += [f"{group}.throughput", f"{group}.success_rate"]
    headers = ["case", *gathered.factors, "instrument", "server state", "load model", "trials that count", "trials made",
               heading(median), "low 95 %, s", "high 95 %, s", *map(heading, keys), "doubts: in how many trials"]  # fmt: skip
    widths = [8, *factor_widths(gathered), 12, 12, 11, 9, 9, *[11] * 3, *[11] * 4, 14, 11, _REMARK]
    sheet.text(
        0,
        0,
        f"{findings.floor}. Each number is a formula over the case's trials that count, in the sheet Trials.",
        "note",
    )
    sheet.table(_HEAD, headers, len(findings.cases), widths)
    for row, case in enumerate(findings.cases, _HEAD + 1):
        column = _identity(gathered, sheet, row, case)
        remark = case.excluded if case.excluded is not None else _doubts(gathered, case)
        sheet.text(row, len(headers) - 1, remark, "beside")
        sheet.lines(row, [(remark, _REMARK - 2)])
        if case.excluded is not None:
            sheet.text(row, column, "excluded", "excluded")
            continue
        one = table.numbers.of_case(case, median)
        sheet.text(row, column + 2, case.load_model.get(group.partition(".")[0], ""))
        sheet.number(row, column + 3, one.believed, "count")
        sheet.number(row, column + 4, len(case.trials), "count")
        over_cases(table, sheet, row, column + 5, case, median)
        for offset, bound in enumerate((one.low, one.high), column + 6):
            sheet.number(row, offset, None if one.refused else bound, form_of_key(median))
        for offset, key in enumerate(keys, column + 8):
            over_cases(table, sheet, row, offset, case, key)
    if findings.cases:
        _median_chart(sheet, gathered, median, 1 + len(gathered.factors) + 5)


def _doubts(gathered: Gathered, case: CaseResult) -> str:
    """Return `✗ the factor did not act, in 4 of 6 trials. ~ svload waited for a core, in 2 of 6 trials.`"""
    return " ".join(
        f"{one.mark} {cause(one.check)}, in {len(one.trials)} of {count_words(one.of, 'trial')}."
        for one in doubts(gathered.findings, gathered.trials_of(case.case))
    )


def _median_chart(sheet: Sheet, gathered: Gathered, median: str, column: int) -> None:
    """Draw the medians with their intervals; columns if a case has none: a marker would be a zero."""
    first, last = _HEAD + 1, _HEAD + len(gathered.findings.cases)
    found = [gathered.numbers.of_case(case, median) for case in ran(gathered)]
    values = [None if one.refused else one.value for one in found]
    at, axes = (last + 2, 1), ("case", heading(median))
    names = ("median", "low end of its 95 % interval", "high end")
    series = [
        (name, sheet.range(first, 0, last), sheet.range(first, column + offset, last))
        for offset, name in enumerate(names)
    ]
    title = f"{gathered.group}: median response by case"
    if found and all(None not in (one.value, one.low, one.high) and not one.refused for one in found):
        interval_chart(sheet, title, axes, series, at, wide(values))
    else:
        caption = "A case without a column has no median; the table says why."
        column_chart(sheet, title, axes, series[:1], at, caption)


def fill_cases(sheet: Sheet, gathered: Gathered, table: TrialTable) -> None:
    """Write one row per case with every number in Trials: of each group, step and service."""
    cases, keys = ran(gathered), list(table.columns)
    named = ("case", *gathered.factors, "instrument", "server state", "longest silence, s")
    headers = [*named, *map(heading, keys)]
    widths = [9, *factor_widths(gathered), 13, 13, 12, *[13] * len(keys)]
    note = "Each number of each case, over its trials that count: their geometric mean, of shares and counts their mean."
    sheet.text(0, 0, note, "note")
    sheet.table(_HEAD, headers, len(cases), widths)
    for row, case in enumerate(cases, _HEAD + 1):
        column = _identity(gathered, sheet, row, case)
        groups = [group for one in gathered.of_case(case.case) for group in one.groups.values()]
        silence_ns = max((group.summary.longest_silence_ns for group in groups), default=None)
        sheet.number(row, column + 2, None if silence_ns is None else silence_ns / 1e9, "time_s")
        for offset, key in enumerate(keys, column + 3):
            over_cases(table, sheet, row, offset, case, key)


_GENERATOR = ("case", "group", "generator", "trials", "due", "ok", "failed", "success rate",
            "mean response (s)", "p50 (s)", "p99 (s)", "machine or site")  # fmt: skip


def fill_generators(sheet: Sheet, gathered: Gathered) -> None:
    """Write one row per case, group and generator; for a fleet also one per machine and site."""
    rows = [(case.case, one) for case in ran(gathered) for one in case.generators]
    sheet.text(0, 0, "Over all sealed trials. Times are of ok requests in the kept windows.", "note")
    widths = (11, 14, 11, 9, 12, 12, 12, 12, 14, 12, 12, 16)
    sheet.table(_HEAD, _GENERATOR, len(rows), widths, frozen=3)
    for row, (case, one) in enumerate(rows, _HEAD + 1):
        sheet.text(row, 0, case)
        sheet.text(row, 1, one.group)
        sheet.number(row, 2, one.generator, "count", "all")
        for column, count in enumerate((one.trials, one.due, one.ok, one.failed), 3):
            sheet.number(row, column, count, "count")
        sheet.text(row, 11, one.place or "this one")
        times_s = (one.response_mean_s, one.response_p50_s, one.response_p99_s)
        values = ((one.success_rate, "ratio"), *((time, "time_s") for time in times_s))
        for column, (value, form) in enumerate(values, 7):
            sheet.number(row, column, value, form)


_NARROW, _WIDE = 10.0, 44.0


def fill_own(sheet: Sheet, table: Mapping[str, Any], note: str) -> None:
    """Write the table's note, then its cells as text."""
    head, rows = table["head"], table["rows"]
    widths = [
        min(_WIDE, max(_NARROW, 1.1 * max(len(cell) for cell in column)))
        for column in zip(head, *rows, strict=True)
    ]
    sheet.text(0, 0, f"{table['title']}. {table['note']}".strip(), "note")
    sheet.text(1, 0, note, "note")
    sheet.table(2, head, len(rows), widths)
    for row, line in enumerate(rows, 3):
        for column, cell in enumerate(line):
            sheet.text(row, column, cell, "wrap")
        sheet.lines(row, list(zip(line, widths, strict=True)))


_STATS = ("p50", "p90", "p95", "p99", "p99.9", "mean")
_OF_GROUP = ("success_rate", "throughput", *(f"response.{stat}" for stat in _STATS), "recovery", "fault_errors", "fault_error_rate")  # fmt: skip
_OF_SERVICE = ("cpu.mean", "memory.max", "hit_ratio")
_FIXED = ("case", "trial", "replicate", "block", "instrument", "server state", "kept window, s", "counts")
_TRIALS_HEAD = 1


@dataclass
class TrialTable:
    """The places of trials and their metrics. `rows` by trial; `columns` by full metric name."""

    sheet: Sheet
    numbers: Numbers
    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    def over(self, case: CaseResult, key: str) -> str | None:
        """Return the reference to a metric in the case's trials, or None if it has none."""
        if case.case not in self.spans or key not in self.columns:
            return None
        first, last = self.spans[case.case]
        return self.sheet.range(first, self.columns[key], last)

    def values(self, case: CaseResult, key: str) -> list[float]:
        """Return the values that are numbers there."""
        found = [self.numbers.of_trial(trial, key) for trial in self.numbers.trials(case)]
        return [one.value for one in found if one.value is not None and not one.refused]


def metric_keys(gathered: Gathered) -> list[str]:
    """Return the metrics with a column: of each group, step and service, and of comparisons."""
    findings = gathered.findings
    owners = sorted(traffic_owners(findings), key=lambda name: name != gathered.group)
    keys = [f"{group}.{name}" for group in owners for name in _OF_GROUP]
    keys += [f"{service}.{name}" for service in services_of(findings) for name in _OF_SERVICE]
    keys += [full_metric(findings, comparison.metric) for comparison in gathered.lock.comparisons]
    known = {key for trial in findings.trials for key in trial.metrics}
    known |= {key for case in findings.cases for key in case.metrics}
    return [key for key in dict.fromkeys(keys) if key in known]


def fill_trials(sheet: Sheet, gathered: Gathered) -> TrialTable:
    """Write the sheet; trials of a case are together, those that count first."""
    findings = gathered.findings
    table = TrialTable(sheet, gathered.numbers)
    groups = sorted(traffic_groups(findings), key=lambda name: name != gathered.group)
    counted = [f"{group}: {what}" for group in groups for what in ("due", "ok", "completed")]
    keys = metric_keys(gathered)
    headers = [*_FIXED, *counted, *map(heading, keys)]
    table.columns = {key: len(_FIXED) + len(counted) + number for number, key in enumerate(keys)}
    ordered = _ordered(gathered, table)
    note = "A number with ✗ is of a broken trial (REFUSED): it is text, and enters no case. Success and throughput are formulas."
    sheet.text(0, 0, note, "note")
    widths = [9, 11, 11, 8, 13, 13, 11, 9, *[13] * (len(headers) - 8)]
    sheet.table(_TRIALS_HEAD, headers, len(ordered), widths, frozen=2)
    for trial in ordered:
        _fill_trial(table, gathered, trial, groups)
    return table


def _ordered(gathered: Gathered, table: TrialTable) -> list[TrialResult]:
    """Return all trials in order, and store their rows and each case's span in `table`."""
    ordered: list[TrialResult] = []
    for case in gathered.findings.cases:
        refused = set(case.refused)
        mine = list(gathered.trials_of(case.case))
        mine.sort(key=lambda trial: trial.trial in refused)
        first = _TRIALS_HEAD + 1 + len(ordered)
        if mine:
            table.spans[case.case] = (first, first + len(mine) - 1)
        table.rows |= {trial.trial: first + number for number, trial in enumerate(mine)}
        ordered += mine
    return ordered


def _fill_trial(table: TrialTable, gathered: Gathered, trial: TrialResult, groups: Sequence[str]) -> None:
    sheet, row = table.sheet, table.rows[trial.trial]
    digest = gathered.digests.get(trial.trial)
    kept_s = digest.kept_s[1] - digest.kept_s[0] if digest else None
    for column, text in enumerate((trial.case, trial.trial)):
        sheet.text(row, column, text)
    sheet.number(row, 2, trial.replicate)
    sheet.number(row, 3, trial.block)
    sheet.text(row, 4, grade_words(gathered.findings, trial), trial.verdict.instrument)
    sheet.text(row, 5, trial.verdict.server)
    sheet.number(row, 6, kept_s, "time_s", "cannot be read")
    counts = gathered.numbers.of_trial(trial, f"{gathered.group}.response.p50").believed
    sheet.text(row, 7, "yes" if counts else "no", "beside")
    written: dict[str, tuple[str, float]] = {}
    for number, group in enumerate(groups):
        written |= _fill_group(sheet, row, trial, group, len(_FIXED) + 3 * number, kept_s)
    for key, column in table.columns.items():
        one = gathered.numbers.of_trial(trial, key)
        if key in written and not one.refused:
            sheet.formula(row, column, *written[key], dimension_of(key))
        else:
            sheet.write_number(row, column, one)


def _fill_group(
    sheet: Sheet, row: int, trial: TrialResult, group: str, column: int, kept_s: float | None
) -> dict[str, tuple[str, float]]:
    """Write due, ok and completed; return success and throughput as (formula over them, value) by metric."""
    success, throughput = (trial.metrics.get(f"{group}.{name}") for name in ("success_rate", "throughput"))
    due = success.n if success else None
    ok = round((success.value or 0.0) * success.n) if success else None
    for place, count in enumerate((due, ok, throughput.n if throughput else None), column):
        sheet.number(row, place, count, "count", "not measured")
    due_cell, ok_cell, done_cell = (sheet.range(row, column + number) for number in range(3))
    written = {}
    if success and success.value is not None:
        written[f"{group}.success_rate"] = (f"={ok_cell}/{due_cell}", success.value)
    # A fixed amount of work is divided by the time that it took.
    if throughput and throughput.value and kept_s and isclose(throughput.n / kept_s, throughput.value):
        written[f"{group}.throughput"] = (f"={done_cell}/{sheet.range(row, 6)}", throughput.value)
    return written

"""Case by case: the summary with intervals and doubts, and every number, as formulas over the sheet of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, isclose, log
from typing import Any

from svload.model.results import CaseResult
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet, form_of_key, heading
from svload.report.sheets.drawn import column_chart, interval_chart, wide
from svload.report.sheets.trials import TrialTable
from svload.report.told.doubts import doubts
from svload.report.told.numbers import Number
from svload.report.told.spelling import cause, count_words

_HEAD = 1
_REMARK = 48


def over_cases(table: TrialTable, sheet: Sheet, row: int, column: int, case: CaseResult, key: str) -> None:
    """Write one case's number as in analysis: a formula over its trials' cells if it is their mean (of
    shares and counts) or geometric mean, else the number."""
    one, reference = table.told.of_case(case, key), table.over(case, key)
    if one.value is None or one.refused or reference is None or not is_mean(table.values(case, key), one):
        sheet.told(row, column, one)
    else:
        mean = "AVERAGE" if is_arithmetic(one) else "GEOMEAN"
        sheet.formula(row, column, f"={mean}({reference})", one.value, form_of_key(key))


def is_arithmetic(one: Number) -> bool:
    """Return whether analysis averages values rather than their logarithms: shares and counts, and values not
    above 0."""
    return one.dimension in ("ratio", "count") or not (one.value and one.value > 0)


def is_mean(values: Sequence[float], one: Number) -> bool:
    """Return whether a formula over these values gives the number: a pooled percentile is not a mean of its
    trials'."""
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
    """Write one row per case, including excluded ones: verdicts, n, and the main group's numbers with their
    interval."""
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
        one = table.told.of_case(case, median)
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
    """Draw the medians with their intervals; columns if a case has no median, whose text a marker would show
    as zero."""
    first, last = _HEAD + 1, _HEAD + len(gathered.findings.cases)
    found = [gathered.told.of_case(case, median) for case in ran(gathered)]
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
        told = "A case without a column has no median; the table says why."
        column_chart(sheet, title, axes, series[:1], at, told)


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
    """Write one row per case, group and generator; for a fleet also one per machine and site, over all its
    generators."""
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

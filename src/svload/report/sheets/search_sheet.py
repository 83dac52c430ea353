"""The workbook's sheet of a search: a row a load or a step, then a row a trial in the
order they ran, and native charts."""

from __future__ import annotations

from svload.model.capacity import CapacityResult
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet
from svload.report.sheets.drawn import CHART_ROWS, scatter_chart
from svload.report.told.criteria import threshold_key
from svload.report.told.search_rows import level_rows, limit_words, search_title, step_rows
from svload.report.told.spelling import dimension_of

NAME = "Search"
_HEAD = 4
_LEVELS = (
    "load",
    "its trials",
    "by",
    "measured, base unit",
    "least",
    "most",
    "ok throughput, 1/s",
    "trials that count",
    "without a number",
    "why it has no number",
)
_STEPS = ("from", "to", "gain", "ok throughput from, 1/s", "ok throughput to, 1/s")
_TRIALS = ("number", "trial", "load", "first look", "outcome", "limit after it: low", "high")
_LOAD, _MEASURED, _THROUGHPUT = 0, 3, 6
_TOLD = "Of each load, over its trials."


def fill_search(sheet: Sheet, gathered: Gathered, found: CapacityResult) -> None:
    """The answer, the loads or steps, the charts, every trial."""
    sheet.text(0, 0, f"Sought: {search_title(found)}", "bold")
    sheet.text(1, 0, limit_words(found), "bold")
    sheet.text(2, 0, " ".join([found.sentence, *([found.gate.sentence] if found.gate else [])]), "note")
    row = _steps(sheet, found) if found.gain is not None else _levels(sheet, gathered, found)
    _trials(sheet, row, found)


def _levels(sheet: Sheet, gathered: Gathered, found: CapacityResult) -> int:
    rows = level_rows(gathered.findings)
    sheet.table(_HEAD, _LEVELS, len(rows), (10, 12, 34, 14, 12, 12, 14, 10, 10, 60), freeze=(_HEAD + 1, 1))
    for number, row in enumerate(rows, _HEAD + 1):
        one = row.level
        form = dimension_of(threshold_key(gathered.findings, one.by))
        sheet.number(number, 0, one.load, "count")
        sheet.text(number, 1, f"{row.mark} {one.outcome}")
        sheet.text(number, 2, row.by)
        for column, value in enumerate((one.value, one.low, one.high), _MEASURED):
            sheet.number(number, column, value, form)
        sheet.number(number, _THROUGHPUT, one.throughput_rps, "rate_rps")
        sheet.number(number, 7, one.trials, "count")
        sheet.number(number, 8, one.without, "count")
        sheet.text(number, 9, row.says)
    first, last = _HEAD + 1, _HEAD + max(len(rows), 1)
    at = last + 2
    charts = [(_THROUGHPUT, "ok throughput over the load", "1/s")]
    if len(by := list({row.by for row in rows if row.by})) == 1:
        charts.append((_MEASURED, f"{by[0]} over the load", "base unit"))
    for column, title, unit in charts:
        series = [(title, sheet.range(first, _LOAD, last), sheet.range(first, column, last))]
        scatter_chart(sheet, title, (found.over, unit), series, (at, 1), _TOLD)
        at += CHART_ROWS
    return at + 1


def _steps(sheet: Sheet, found: CapacityResult) -> int:
    rows = step_rows(found)
    sheet.table(_HEAD, _STEPS, len(rows), (10, 10, 12, 16, 16), freeze=(_HEAD + 1, 1))
    for number, row in enumerate(rows, _HEAD + 1):
        one = row.step
        sheet.number(number, 0, one.low_load, "count")
        sheet.number(number, 1, one.high_load, "count")
        sheet.number(number, 2, one.gain, "ratio")
        for column, rate in enumerate((one.low_rps, one.high_rps), 3):
            sheet.number(number, column, rate, "rate_rps")
    first, last = _HEAD + 1, _HEAD + max(len(rows), 1)
    title = "ok throughput over the load"
    series = [(title, sheet.range(first, 1, last), sheet.range(first, 4, last))]
    scatter_chart(sheet, title, (found.over, "1/s"), series, (last + 2, 1), _TOLD)
    return last + 3 + CHART_ROWS


def _trials(sheet: Sheet, row: int, found: CapacityResult) -> None:
    """Below all: in the order they ran."""
    sheet.text(
        row,
        0,
        "Every trial in the order they ran",
        "bold",
    )
    for column, heading in enumerate(_TRIALS):
        sheet.text(row + 1, column, heading, "head")
    for number, one in enumerate(found.trials, 1):
        at = row + 1 + number
        sheet.number(at, 0, number, "count")
        sheet.text(at, 1, one.trial)
        sheet.number(at, 2, one.load, "count")
        sheet.text(at, 3, "yes" if one.look else "")
        sheet.text(at, 4, one.outcome)
        sheet.number(at, 5, one.low, "count", "–")
        sheet.number(at, 6, one.high, "count", "–")

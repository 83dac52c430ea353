"""Each generator's own results by case, before they are merged; the sums are the groups'."""

from __future__ import annotations

from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet
from svload.report.sheets.summary import ran

NAME = "By generator"
_HEAD = 1
_HEADERS = ("case", "group", "generator", "trials", "due", "ok", "failed", "success rate",
            "mean response (s)", "p50 (s)", "p99 (s)", "machine or site")  # fmt: skip


def has_generators(gathered: Gathered) -> bool:
    """Whether a group of the run had several."""
    return any(case.generators for case in ran(gathered))


def fill_generators(sheet: Sheet, gathered: Gathered) -> None:
    """A row a case, group and generator; of a fleet also one a machine and a site, all generators of it together."""
    rows = [(case.case, one) for case in ran(gathered) for one in case.generators]
    told = (
        "Over all sealed trials. Times are of ok requests in the kept windows: those that failed have none."
    )
    sheet.text(0, 0, told, "note")
    sheet.table(
        _HEAD, _HEADERS, len(rows), [11, 14, 11, 9, 12, 12, 12, 12, 14, 12, 12, 16], freeze=(_HEAD + 1, 3)
    )
    for row, (case, one) in enumerate(rows, _HEAD + 1):
        sheet.text(row, 0, case)
        sheet.text(row, 1, one.group)
        if one.generator is None:
            sheet.text(row, 2, "all")
        else:
            sheet.number(row, 2, one.generator, "count")
        for column, count in enumerate((one.trials, one.due, one.ok, one.failed), 3):
            sheet.number(row, column, count, "count")
        sheet.text(row, 11, one.place or "this one")
        times_s = (one.response_mean_s, one.response_p50_s, one.response_p99_s)
        values = ((one.success_rate, "ratio"), *((time, "time_s") for time in times_s))
        for column, (value, form) in enumerate(values, 7):
            if value is None:
                sheet.text(row, column, "–", "reason")
            else:
                sheet.number(row, column, value, form)

"""Loads in stages: a row a ramp or level of each case, and which thresholds a level keeps."""

from __future__ import annotations

from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet
from svload.report.told.stage_rows import FORMS, stage_rows

NAME = "Stages"
_HEAD = 1
_HEADERS = ("case", "group", "stage", "from (s)", "to (s)", "p50 (s)", "p95 (s)", "p99 (s)",
            "completed (1/s)", "ok", "thresholds")  # fmt: skip


def has_stages(gathered: Gathered) -> bool:
    """Whether a load of the run comes in stages."""
    return any(trial.stages for trial in gathered.findings.trials)


def fill_stages(sheet: Sheet, gathered: Gathered) -> None:
    """A row a case, group and stage."""
    rows = stage_rows(gathered.findings)
    told = "Each stage by itself: the median of the case's trials. Other sheets have the numbers over all stages."
    sheet.text(0, 0, told, "note")
    sheet.table(_HEAD, _HEADERS, len(rows), [11, 14, 18, 9, 9, 12, 12, 12, 14, 10, 50], freeze=(_HEAD + 1, 3))
    for number, row in enumerate(rows, _HEAD + 1):
        for column, text in enumerate((row.case, row.stage.group, row.stage.label)):
            sheet.text(number, column, text)
        sheet.number(number, 3, row.stage.from_s, "time_s")
        sheet.number(number, 4, row.stage.to_s, "time_s")
        for column, (value, form) in enumerate(zip(row.values, FORMS, strict=True), 5):
            if value is None:
                sheet.text(number, column, "–", "reason")
            else:
                sheet.number(number, column, value, form)
        sheet.text(number, 10, row.keeps)

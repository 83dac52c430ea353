"""Planned faults, trial by trial: when each was due and done, and how soon each group was back at its level."""

from __future__ import annotations

from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet

NAME = "Planned faults"
_HEAD = 1
_HEADERS = ("case", "trial", "what", "due at (s)", "begun at (s)", "done at (s)", "group", "back after (s)")


def has_faults(gathered: Gathered) -> bool:
    """Whether a trial of the run had one."""
    return any(trial.faults for trial in gathered.findings.trials)


def fill_faults(sheet: Sheet, gathered: Gathered) -> None:
    """A row for each act of each trial, and group; what takes a fault back has no group."""
    rows = [
        (trial, one, group)
        for trial in gathered.findings.trials
        for one in trial.faults
        for group in one.recovery or ("",)
    ]
    told = (
        "Offsets from the load's start. Back: success and the median at their level before the first "
        "fault, for good."
    )
    sheet.text(0, 0, told, "note")
    sheet.table(_HEAD, _HEADERS, len(rows), [11, 12, 34, 11, 12, 12, 14, 15], freeze=(_HEAD + 1, 2))
    for row, (trial, one, group) in enumerate(rows, _HEAD + 1):
        for column, text in enumerate((trial.case, trial.trial, one.what)):
            sheet.text(row, column, text)
        for column, value in enumerate((one.planned_s, one.begun_s, one.done_s), 3):
            sheet.number(row, column, value, "time_s", "not reached")
        sheet.text(row, 6, group or "–")
        back = one.recovery.get(group)
        sheet.number(row, 7, back.value if back else None, "time_s", back.reason if back else "–")

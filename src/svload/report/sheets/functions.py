"""The functions of a sampled service that used most CPU, case by case."""

from __future__ import annotations

from svload.analysis.stacks import FunctionShare
from svload.model.stacks import Stacks
from svload.report.data.gather import Gathered
from svload.report.page.flames import sampled_trial
from svload.report.sheets.book import Sheet
from svload.report.told.stacks import function_name, top_functions

NAME = "Functions"
_HEAD = 1
_HEADERS = (
    "case",
    "trial",
    "service",
    "function",
    "samples, itself",
    "itself",
    "with what it called",
    "samples in all",
)


def _rows(gathered: Gathered) -> list[tuple[str, str, Stacks, FunctionShare]]:
    found = []
    for case in gathered.findings.cases:
        trial = sampled_trial(gathered.of_case(case.case))
        if trial is not None and trial.stacks is not None:
            found += [(case.case, trial.name, trial.stacks, one) for one in top_functions(trial.stacks)]
    return found


def has_functions(gathered: Gathered) -> bool:
    """Whether a service of the run was sampled."""
    return bool(_rows(gathered))


def fill_functions(sheet: Sheet, gathered: Gathered) -> None:
    """A row for each of the ten functions of a case that ran most themselves."""
    rows = _rows(gathered)
    told = "CPU alone, as sampled in one trial a case; all stacks are in its stacks.json."
    sheet.text(0, 0, told, "note")
    sheet.table(_HEAD, _HEADERS, len(rows), [11, 12, 14, 44, 12, 11, 13, 12], freeze=(_HEAD + 1, 4))
    for row, (case, trial, stacks, one) in enumerate(rows, _HEAD + 1):
        for column, text in enumerate((case, trial, stacks.service, function_name(one.name))):
            sheet.text(row, column, text)
        sheet.number(row, 4, one.own, "count")
        sheet.number(row, 5, one.own / stacks.samples, "ratio")
        sheet.number(row, 6, one.inclusive / stacks.samples, "ratio")
        sheet.number(row, 7, stacks.samples, "count")

"""The cases of a study: every combination of levels, named, and which of them are left out."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

from svload.model import bounds
from svload.model.study import Case, Factor
from svload.study.beside import file_beside, text_beside
from svload.study.factors import make_cases, read_case_names
from svload.study.mistakes import Mistake, bad_value
from svload.study.tree import section_of


def cases_of(
    data: dict[str, Any], factors: Sequence[Factor], folder: FilePath, strict: bool
) -> tuple[tuple[Case, ...], list[Mistake]]:
    """The cases and what is wrong with their names and exclusions. `strict`: also rows of levels that are not there."""
    mistakes: list[Mistake] = []
    names: dict[tuple[str, ...], str] = {}
    valid: dict[str, bool] = {}
    if isinstance(table := data.get("case_names"), str):
        file = file_beside(folder, table)
        if file is None:
            mistakes.append(
                bad_value(("case_names",), "a file inside the study's folder was expected", table)
            )
        elif factors:
            try:
                text = text_beside(file, bounds.TABLE_BYTES.most)
                names, valid, told = read_case_names(text, str(folder / table), factors)
                mistakes += told if strict else []
            except (OSError, ValueError, csv.Error) as why:
                mistakes.append(bad_value(("case_names",), f"a table of cases was expected ({why})", table))
    rules = data.get("exclude")
    sound = [rule for rule in (rules if isinstance(rules, list) else []) if _is_rule(rule)]
    cases = make_cases(factors, sound, names, str(data.get("name", "")))
    for case in cases if strict else ():
        if case.name in valid and valid[case.name] != (case.excluded is None):
            said = "valid, but it is excluded" if valid[case.name] else "not valid, but nothing excludes it"
            mistakes.append(bad_value(("case_names",), f"{case.name} is {said}", table))
    replicates = section_of(data, "measure").get("replicates")
    valid_cases = sum(case.excluded is None for case in cases)
    if isinstance(replicates, int) and valid_cases * replicates > bounds.TRIALS.most:
        asked = f"{valid_cases} × {replicates}"
        mistakes.append(bad_value(("measure", "replicates"), bounds.TRIALS.told, asked))
    if cases and all(case.excluded is not None for case in cases):
        mistakes.append(bad_value(("exclude",), "no case is left", f"{len(cases)} excluded"))
    return cases, mistakes


def _is_rule(rule: Any) -> bool:
    return (
        isinstance(rule, dict) and isinstance(rule.get("when"), dict) and rule["when"] and "because" in rule
    )

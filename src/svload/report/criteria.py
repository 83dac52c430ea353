"""Thresholds in words: those that are kept alike stand together, what failed or was not judged stands alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from svload.model.results import CaseResult, Findings, ThresholdResult
from svload.report.words import count_words, dimension_of, full_metric, list_words, show_value

_SIGNS = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}
_METRIC = re.compile(r"\s*([\w.-]+(?:\([^()]*\))?)")


@dataclass(frozen=True)
class Kept:
    """One criterion that every one of these cases keeps: `where` they are, and between which values they lie, in words."""

    that: str
    where: str
    measured: str
    cases: tuple[str, ...]

    @property
    def text(self) -> str:
        """`probe.success_rate ≥ 99 %: kept in all 10 cases with load: without (100 % in each)`."""
        return f"{self.that}: kept in {self.where}" + (f" ({self.measured})" if self.measured else "")


def criterion_words(that: str) -> str:
    """A criterion as the study spells it, with the signs that people write."""
    return " ".join(_SIGNS.get(word, word) for word in that.split())


def kept(findings: Findings) -> list[Kept]:
    """The criteria that passed, one line each, in the study's order."""
    by_text: dict[str, list[ThresholdResult]] = {}
    for one in findings.thresholds:
        if one.outcome == "passed":
            by_text.setdefault(one.that, []).append(one)
    return [
        Kept(
            criterion_words(that),
            _where(findings, [one.case for one in same]),
            _measured(findings, that, same),
            tuple(one.case for one in same),
        )
        for that, same in by_text.items()
    ]


def open_or_failed(findings: Findings) -> list[ThresholdResult]:
    """What failed, was refused or has no number, the failed first."""
    found = [one for one in findings.thresholds if one.outcome != "passed"]
    return sorted(found, key=lambda one: one.outcome != "failed")


def _measured(findings: Findings, that: str, same: Sequence[ThresholdResult]) -> str:
    values = [one.measured for one in same if one.measured is not None]
    named = _METRIC.match(that)
    if not values or not named:
        return ""
    dimension = dimension_of(full_metric(findings, named[1]))
    low, high = (show_value(bound, dimension) for bound in (min(values), max(values)))
    if low == high:
        return f"{low} in each" if len(values) > 1 else low
    return f"{low} to {high}"


def _where(findings: Findings, names: Sequence[str]) -> str:
    """`all 10 cases with load: without`, where these are exactly those that were run at such levels; else the cases by name."""
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
    return f"all {count_words(len(named), 'case')}" + (f" with {', '.join(telling)}" if telling else "")


def _shared_levels(cases: Sequence[CaseResult]) -> dict[str, str]:
    """The levels that all these cases have."""
    first, *others = [case.levels for case in cases] or [{}]
    return {
        factor: level for factor, level in first.items() if all(one.get(factor) == level for one in others)
    }

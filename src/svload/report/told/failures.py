"""What failed, in lines: what leads the answer, and what stands among the doubts since it does not. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from svload.analysis.failures import ToldFailures, told_failures
from svload.model.results import Findings
from svload.report.told.spelling import count_words

_BESIDE = {
    "few": "Few requests failed",
    "allowed": "Requests failed, no more than the study allows",
    "planned fault": "Requests failed where the study planned faults",
    "search": "Requests failed at loads that the search tried",
}


@dataclass(frozen=True)
class FailureLine:
    """A sentence on failures, and the cases that have them."""

    text: str
    cases: tuple[str, ...]


def leading_failures(findings: Findings) -> list[FailureLine]:
    """A line a group or step whose failures lead the answer: `order: 9 × 201, expected 200; 9 of 900 requests failed.`"""
    return [FailureLine(one.sentence, _cases([one])) for one in _told(findings) if not one.beside]


def other_failures(findings: Findings) -> list[FailureLine]:
    """All others in a line for each reason why they do not lead."""
    lines = []
    for beside, words in _BESIDE.items():
        mine = [one for one in _told(findings) if one.beside == beside]
        if mine:
            more = f" And {count_words(len(mine) - 1, 'more group or step', 'more groups or steps')}."
            lines.append(
                FailureLine(f"{words}: {mine[0].sentence}{more if len(mine) > 1 else ''}", _cases(mine))
            )
    return lines


def _told(findings: Findings) -> list[ToldFailures]:
    return told_failures(findings.failures, sum(case.excluded is None for case in findings.cases))


def _cases(told: list[ToldFailures]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.case for one in told for row in one.rows))

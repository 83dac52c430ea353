"""Failed requests in lines: those that lead the answer, and those listed among the doubts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from svload.model.failures import Failures
from svload.model.results import Findings
from svload.report.told.spelling import count_words, list_words
from svload.study.mistakes import shortened

_BESIDE = {
    "few": "Few requests failed",
    "allowed": "Requests failed, no more than the study allows",
    "planned fault": "Requests failed where the study planned faults",
    "search": "Requests failed at loads that the search tried",
}
_MOST_KINDS, _MOST_CASES, _LONGEST = 3, 3, 60


@dataclass(frozen=True)
class FailureLine:
    """A sentence on failures, and the cases in which they occurred."""

    text: str
    cases: tuple[str, ...]


def leading_failures(findings: Findings) -> list[FailureLine]:
    """Return one line per group or step whose failures lead the answer: `order: 9 × 201, expected 200; 9 of
    900 requests failed.`"""
    alike = _alike(findings)
    return [FailureLine(_sentence(findings, rows), _cases([rows])) for rows in alike if not rows[0].beside]


def other_failures(findings: Findings) -> list[FailureLine]:
    """Return one line on all others for each reason why they do not lead."""
    lines = []
    for beside, words in _BESIDE.items():
        mine = [rows for rows in _alike(findings) if rows[0].beside == beside]
        if mine:
            more = f" And {count_words(len(mine) - 1, 'more group or step', 'more groups or steps')}."
            first = _sentence(findings, mine[0])
            lines.append(FailureLine(f"{words}: {first}{more if len(mine) > 1 else ''}", _cases(mine)))
    return lines


def _alike(findings: Findings) -> list[list[Failures]]:
    """Return the rows of each group or step, largest share of failures first."""
    alike: dict[tuple[str, str], list[Failures]] = {}
    for row in findings.failures:
        alike.setdefault((row.beside, row.owner), []).append(row)
    return sorted(
        alike.values(), key=lambda rows: -sum(row.failed for row in rows) / sum(row.ended for row in rows)
    )


def _cases(several: Sequence[Sequence[Failures]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.case for rows in several for row in rows))


def _sentence(findings: Findings, rows: Sequence[Failures]) -> str:
    """Return `order: 9 × 201, expected 200; 9 of 900 requests failed in TC1.`; names the group if several
    have failures."""
    alone = len({row.group for row in findings.failures}) == 1
    name = (rows[0].step if alone else "") or rows[0].owner
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        counts.update({(one.kind, one.name, one.expected): one.count for one in row.kinds})
    kinds = [_kind(*key, count) for key, count in counts.most_common()]
    if len(kinds) > _MOST_KINDS:
        kinds = [*kinds[:_MOST_KINDS], f"{len(kinds) - _MOST_KINDS} more ways"]
    failed, ended = sum(row.failed for row in rows), sum(row.ended for row in rows)
    how_many = f"all {ended:,}" if failed == ended else f"{failed:,} of {ended:,}"
    where = ""
    if sum(case.excluded is None for case in findings.cases) > 1:
        counted = f"{len(rows)} cases: " if len(rows) > _MOST_CASES else ""
        where = f" in {counted}{list_words([row.case for row in rows], _MOST_CASES)}"
    return f"{name}: {'; '.join(kinds)}; {how_many} requests failed{where}."


def _kind(kind: str, name: str, expected: str, count: int) -> str:
    if kind == "status":
        return f"{count:,} × {name}, expected {expected}"
    if kind == "check":
        return f"{count:,} × failed check “{shortened(name, _LONGEST)}”"
    return f"{count:,} × {name.replace('_', ' ')}"

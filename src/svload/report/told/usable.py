"""Runs without any usable time or rate, whatever else of them is judged. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from svload.model.metrics import is_timing
from svload.model.results import Findings
from svload.report.told.causes import cause
from svload.report.told.doubts import doubts
from svload.report.told.numbers import Number, Told
from svload.report.told.spelling import list_words, split_metric, traffic_owners

_TIMES = ("response", "throughput", "goodput")
_MOST_CAUSES = 3


def no_times_line(findings: Findings) -> str:
    """Return `No response time and no rate of this run can be used: the load was too short to settle.`; "" if
    any can be used.

    A value beyond the time-out can be used: it is worse than any limit.
    """
    refused = False
    for one in _times(findings):
        if _is_usable(one):
            return ""
        refused = refused or one.refused
    if not refused:
        return ""
    causes = [
        cause(one.check)
        for one in doubts(findings)
        if one.grade == "REFUSED" and any(_is_time(name) for name in _harmed(findings, one.check))
    ]
    why = f": {list_words(causes, _MOST_CAUSES)}" if causes else ""
    return f"No response time and no rate of this run can be used{why}."


def _times(findings: Findings) -> Iterator[Number]:
    """Yield every case's response times and rates, and the other times that the study asks for."""
    told, groups = Told(findings), set(traffic_owners(findings))
    for case in findings.cases:
        if case.excluded is not None:
            continue
        for key in case.metrics:
            owner, name, _ = split_metric(key)
            if (owner in groups and name.partition("(")[0] in _TIMES) or (
                key in case.asked and is_timing(key)
            ):
                yield told.of_case(case, key)


def _is_usable(one: Number) -> bool:
    return not one.refused and (one.value is not None or one.why == "time-out")


def _harmed(findings: Findings, check: str) -> set[str]:
    """Return the numbers, or kinds of numbers, that this check refuses in any trial."""
    rows = (row for trial in findings.trials for row in trial.verdict.checks if row.check == check)
    return {harm.number for row in rows for harm in row.harms if harm.grade == "REFUSED"}


def _is_time(number: str) -> bool:
    return number in ("all", "timing") or is_timing(number)

"""A run that other rules judged when it ran says so beside the new verdicts; one that
today's rules judged says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from svload.analysis import ANALYSIS_VERSION, beside_own, own_verdicts
from svload.model.events import Event
from svload.model.results import Finding, Findings


def sealed(trial: str, grade: str, version: int | None) -> Event:
    data: dict[str, Any] = {"trial": trial, "instrument": grade}
    return Event("trial-sealed", data if version is None else data | {"analysis_version": version})


def test_rules_of_another_version_are_told() -> None:
    own = own_verdicts([sealed("a.r1", "VALID", 3), sealed("a.r2", "WEAK", 3), sealed("a.r2", "REFUSED", 3)])
    assert own is not None
    assert (own.version, own.trials) == (3, {"a.r1": "VALID", "a.r2": "REFUSED"})


@pytest.mark.parametrize("version", [ANALYSIS_VERSION, None])
def test_the_same_rules_and_unknown_ones_are_not(version: int | None) -> None:
    assert own_verdicts([sealed("a.r1", "VALID", version)]) is None


def test_comparisons_are_exploratory_where_other_rules_judged() -> None:
    comparison, other = (
        Finding(kind=kind, sentence="told", evidence=(), certainty="decided")
        for kind in ("comparison", "death")
    )
    findings = Findings(analysis_version=ANALYSIS_VERSION, study="s", question="", profile=None, complete=True, planned_trials=1, sealed_trials=1,
                        cases=(), trials=(), findings=(comparison, other))  # fmt: skip
    old = beside_own(findings, [sealed("a.r1", "VALID", ANALYSIS_VERSION - 1)])
    assert old.own_verdicts is not None
    assert [one.certainty for one in old.findings] == ["exploratory", "decided"]
    assert beside_own(findings, [sealed("a.r1", "VALID", ANALYSIS_VERSION)]) == findings

"""What a quiet machine would add is told in one line where it would add something, and
not where nothing was lost to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svload.model.results import Findings
from svload.report.told.quieter import quieter_line

Reporter = Callable[[str], Any]


def refused(findings: Findings, *checks: str) -> Findings:
    """The first trial refused by these checks, everything else as on a quiet machine."""
    trials = []
    for number, trial in enumerate(findings.trials):
        graded = tuple(
            one.model_copy(update={"grade": "REFUSED" if number == 0 and one.check in checks else "VALID"})
            for one in trial.verdict.checks
        )
        instrument = "REFUSED" if number == 0 and checks else "VALID"
        verdict = trial.verdict.model_copy(update={"checks": graded, "instrument": instrument})
        trials.append(trial.model_copy(update={"verdict": verdict}))
    return findings.model_copy(update={"trials": tuple(trials), "claims": ()})


def test_trials_that_the_machine_cost_are_counted(reported: Reporter) -> None:
    findings = reported("plain").findings
    line = quieter_line(refused(findings, "others-cpu", "hiccups"))
    assert line.startswith(f"A quiet machine would add 1 of {len(findings.trials)} trials")
    assert "--wait-quiet" in line
    assert "claim" not in line


def test_open_claims_are_counted_with_them(reported: Reporter) -> None:
    findings = reported("plain").findings
    (first,) = findings.claims[:1]

    def line(*outcomes: str) -> str:
        claims = tuple(first.model_copy(update={"outcome": outcome}) for outcome in outcomes)
        return quieter_line(refused(findings, "steal").model_copy(update={"claims": claims}))

    assert "could decide 1 open claim:" in line("open")
    assert "could decide 2 open claims:" in line("open", "decided", "refused")
    assert "claim" not in line("decided", "no difference")


def test_what_is_no_machines_doing_is_not(reported: Reporter) -> None:
    findings = reported("plain").findings
    assert quieter_line(refused(findings)) == ""
    assert quieter_line(refused(findings, "manipulation", "steal")) == "", (
        "it would have been refused anywhere"
    )

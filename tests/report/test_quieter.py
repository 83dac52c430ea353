"""What a quiet machine would add is told in one line where it would add something, and
not where nothing was lost to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.evolve import evolve

from svload.model.results import Findings
from svload.report.told.quieter import quieter_line

Reporter = Callable[[str], Any]


def disturbed(findings: Findings, *checks: str, outcome: str = "open") -> Findings:
    """The first trial disturbed by these checks, everything else as on a quiet machine; one claim with that outcome."""
    trials = []
    for number, trial in enumerate(findings.trials):
        graded = tuple(
            evolve(one, grade="WEAK" if number == 0 and one.check in checks else "VALID")
            for one in trial.verdict.checks
        )
        instrument = "WEAK" if number == 0 and checks else "VALID"
        verdict = evolve(trial.verdict, checks=graded, instrument=instrument)
        trials.append(evolve(trial, verdict=verdict))
    claim = evolve(findings.claims[0], outcome=outcome)
    return evolve(findings, trials=tuple(trials), claims=(claim,), thresholds=())


def test_what_is_open_beside_a_busy_machine_is_told(reported: Reporter) -> None:
    findings = reported("plain").findings
    line = quieter_line(disturbed(findings, "others-cpu", "hiccups"))
    many = len(findings.trials)
    assert line.startswith(
        f"1 comparison is undecided, and other work on this machine disturbed 1 of {many} trials. --wait-quiet 10m"
    )
    assert "REFUSED" not in line


def test_where_all_is_decided_or_the_machine_was_quiet_there_is_nothing_to_say(reported: Reporter) -> None:
    findings = reported("plain").findings
    assert quieter_line(disturbed(findings, "others-cpu", outcome="decided")) == ""
    assert quieter_line(disturbed(findings)) == ""
    assert quieter_line(disturbed(findings, "manipulation")) == "", "no machine's doing"

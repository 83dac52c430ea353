"""A run judged again by newer rules: each trial's grade at sealing time beside its grade now. Pure."""

from __future__ import annotations

from svload.model.results import Findings, TrialResult


def graded_anew(findings: Findings | None, trial: TrialResult) -> bool:
    """Return whether the trial had another grade by the rules of its time."""
    own = findings.own_verdicts if findings is not None else None
    now = trial.verdict.instrument
    return own is not None and own.trials.get(trial.trial, now) != now


def grade_words(findings: Findings | None, trial: TrialResult) -> str:
    """Return the trial's grade, preceded by its earlier one if that differs: `VALID, then REFUSED`."""
    now = trial.verdict.instrument
    if findings is None or findings.own_verdicts is None or not graded_anew(findings, trial):
        return now
    return f"{findings.own_verdicts.trials[trial.trial]}, then {now}"


def anew_words(findings: Findings) -> str:
    """Return `judged again by newer rules (6 instead of 5)`, or "" if the rules of the run's time judge
    it."""
    own = findings.own_verdicts
    return (
        f"judged again by newer rules ({findings.analysis_version} instead of {own.version})" if own else ""
    )

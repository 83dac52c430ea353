"""A run that newer rules judge anew: what each trial was called when it was sealed, beside its grade now. Pure."""

from __future__ import annotations

from svload.model.results import Findings, TrialResult


def graded_anew(findings: Findings | None, trial: TrialResult) -> bool:
    """Whether the trial's own grade was another one."""
    own = findings.own_verdicts if findings is not None else None
    now = trial.verdict.instrument
    return own is not None and own.trials.get(trial.trial, now) != now


def grade_words(findings: Findings | None, trial: TrialResult) -> str:
    """The trial's grade; with its own before it, where that was another one: `VALID, then REFUSED`."""
    now = trial.verdict.instrument
    if findings is None or findings.own_verdicts is None or not graded_anew(findings, trial):
        return now
    return f"{findings.own_verdicts.trials[trial.trial]}, then {now}"


def anew_words(findings: Findings) -> str:
    """`judged anew by rules 6, not those of its time (5)`; "" where its own rules judge it."""
    own = findings.own_verdicts
    return (
        f"judged again by newer rules ({findings.analysis_version} instead of {own.version})" if own else ""
    )

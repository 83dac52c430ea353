"""What a quiet machine would improve in a run, in one line. Pure."""

from __future__ import annotations

from svload.model.results import Findings, TrialResult
from svload.report.told.criteria import OPEN, UNDECIDED
from svload.report.told.doubts import doubting
from svload.report.told.spelling import count_words, list_words

MACHINES_DOING = frozenset(("others-cpu", "steal", "run-queue", "hiccups", "generator-harm", "calibration"))
"""Checks that fail because of other activity on the machine."""


def quieter_line(findings: Findings) -> str:
    """Return what is undecided in a run with disturbed trials, and what to do; "" if nothing is or no trial
    was disturbed."""
    disturbed = sum(map(_is_disturbed, findings.trials))
    open_claims = sum(claim.outcome in UNDECIDED for claim in findings.claims)
    criteria = sum(one.outcome in OPEN for one in findings.thresholds)
    parts = [
        count_words(count, what)
        for count, what in ((open_claims, "comparison"), (criteria, "threshold"))
        if count
    ]
    if not disturbed or not parts:
        return ""
    verb = "is" if open_claims + criteria == 1 else "are"
    return (
        f"{list_words(parts)} {verb} undecided, and other work on this machine disturbed {disturbed} of "
        f"{count_words(len(findings.trials), 'trial')}. --wait-quiet 10m waits for a quiet machine first."
    )


def _is_disturbed(trial: TrialResult) -> bool:
    return trial.verdict.instrument != "VALID" and any(
        check.check in MACHINES_DOING for check in doubting(trial)
    )

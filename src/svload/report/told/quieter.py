"""What a quiet machine would add to a run, in one line. Pure."""

from __future__ import annotations

from svload.analysis.quiet import MACHINES_DOING
from svload.model.results import Findings, TrialResult
from svload.report.told.spelling import count_words

_OPEN = ("open", "refused")


def quieter_line(findings: Findings) -> str:
    """How many trials and claims were lost to what else the machine did, and what to do; "" where none was."""
    lost = [trial for trial in findings.trials if _is_machines_doing(trial)]
    if not lost:
        return ""
    still_open = sum(claim.outcome in _OPEN for claim in findings.claims)
    claims = f" and could decide {count_words(still_open, 'open claim')}" if still_open else ""
    return (
        f"A quiet machine would add {len(lost)} of {count_words(len(findings.trials), 'trial')}, REFUSED here "
        f"for what else ran"
        f"{claims}: --wait-quiet 10m waits for one."
    )


def _is_machines_doing(trial: TrialResult) -> bool:
    """Whether it was refused, and for nothing but that."""
    refused_by = {check.check for check in trial.verdict.checks if check.grade == "REFUSED"}
    return trial.verdict.instrument == "REFUSED" and bool(refused_by) and refused_by <= MACHINES_DOING

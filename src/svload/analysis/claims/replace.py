"""Which trials a study's refusals ask to be made anew, and for which claims (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svload.analysis.claims.made import Made
from svload.analysis.claims.pairs import gather
from svload.analysis.contrasts import contrasts_of
from svload.model.results import TrialResult
from svload.model.study import CaseConfig, Lock


def lost_trials(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    trials: Sequence[TrialResult],
    made: Mapping[str, Made],
) -> dict[str, frozenset[str]]:
    """Refused trial → the claims whose pair it cost and that have no other in that block; empty for
    one that cost no claim a pair.

    A trial counts as refused where its verdict is, or where a number that a planned comparison asks for is.
    """
    found: dict[str, set[str]] = {
        trial.trial: set() for trial in trials if trial.verdict.instrument == "REFUSED"
    }
    for contrast in contrasts_of(lock):
        gathered = gather(lock, contrast, configs, trials, made)
        names = {trial.trial: trial for trial in trials}
        counted = {
            (names[pair.baseline].case, names[pair.treatment].case, pair.block) for pair in gathered.evidence
        }
        for lost in gathered.lost:
            if lost.why == "refused" and (lost.baseline, lost.treatment, lost.block) not in counted:
                for trial in lost.refused:
                    found.setdefault(trial, set()).add(contrast.name)
    return {trial: frozenset(claims) for trial, claims in found.items()}

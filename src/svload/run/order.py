"""Which trial of a batch is next: a decision over plain data, no clock and no files."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from svload.model.plan import Batch, TrialPlan

ATTEMPTS_PER_TRIAL = 2
"""Trials with an infrastructure failure get one new attempt at the end of their block."""
FAILURES_IN_A_ROW = 3
"""This many lab failures in a row stop the run (exit 3, resumable)."""


def next_trial(batch: Batch, sealed: AbstractSet[str], failures: Mapping[str, int]) -> TrialPlan | None:
    """Return the trial to run now, or None if the batch has nothing left to try.

    `failures` counts each trial's infrastructure failures in this execution. Blocks are run in order; within
    a block the untried trials come first, by position, then the failed ones once more.
    """
    for block in sorted({trial.block for trial in batch.trials}):
        open_trials = [trial for trial in batch.trials if trial.block == block and trial.trial not in sealed]
        for tries in range(ATTEMPTS_PER_TRIAL):
            fresh = [trial for trial in open_trials if failures.get(trial.trial, 0) == tries]
            if fresh:
                return min(fresh, key=lambda trial: trial.position)
    return None

"""Which trial is next, and which batch: decisions over plain data, no clock and no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.study import Lock

ATTEMPTS_PER_TRIAL = 2
"""An infrastructure failure gets one new attempt at the end of its block (DESIGN, the river)."""
FAILURES_IN_A_ROW = 3
"""So many lab failures in a row stop the run (exit 3, resumable)."""


def next_trial(batch: Batch, sealed: AbstractSet[str], failures: Mapping[str, int]) -> TrialPlan | None:
    """The trial to run now, or None when the batch has nothing left to try.

    `failures` counts each trial's infrastructure failures in this execution. Blocks are run in order; inside one, first
    what has not been tried, by position, then the failed ones once more.
    """
    for block in sorted({trial.block for trial in batch.trials}):
        open_trials = [trial for trial in batch.trials if trial.block == block and trial.trial not in sealed]
        for tries in range(ATTEMPTS_PER_TRIAL):
            fresh = [trial for trial in open_trials if failures.get(trial.trial, 0) == tries]
            if fresh:
                return min(fresh, key=lambda trial: trial.position)
    return None


def replacement_batch(
    lock: Lock, batches: Sequence[Batch], refused: AbstractSet[str], seals: Mapping[str, str]
) -> Batch | None:
    """A batch of new replicates for refused trials, where the study says `replace_refused: n`; else None.

    The refused trials stay in the record. A block's trial is replaced at most n times.
    """
    allowed = lock.measure.replace_refused
    everything = [trial for batch in batches for trial in batch.trials]
    chosen: list[TrialPlan] = []
    for trial in everything:
        same_cell = [other for other in everything if (other.case, other.block) == (trial.case, trial.block)]
        already = len(same_cell) - 1
        if trial.trial not in refused or trial is not same_cell[-1] or already >= allowed:
            continue
        taken = [other.replicate for other in everything + chosen if other.case == trial.case]
        replicate = max(taken) + 1
        chosen.append(
            trial.model_copy(
                update={
                    "trial": trial_name(trial.case, replicate),
                    "replicate": replicate,
                    "position": len(everything) + len(chosen),
                    "seed": trial.seed + replicate,
                }
            )
        )
    if not chosen:
        return None
    because = f"replace_refused: {allowed}; refused: {', '.join(sorted(refused))}"
    decided_from = {trial: seals[trial] for trial in sorted(seals)}
    return Batch(number=len(batches), because=because, trials=tuple(chosen), decided_from=decided_from)

"""The plan of an A/A run (docs/method.md §2): the same case repeated, restarted as often as a comparison of
this study would restart it. Pure."""

from __future__ import annotations

from collections.abc import Collection

from svload import study
from svload.model.plan import Batch
from svload.model.study import Lock
from svload.study.order import is_split

LEFT_OUT = "another case makes the same load: an A/A run needs one of them"


def aa_lock(lock: Lock, cases: Collection[str], pairs: int) -> Lock:
    """Return the study with only `cases`, two replicates of each per pair; no comparisons or thresholds."""
    return lock.model_copy(
        update={
            "cases": tuple(
                case
                if case.name in cases or case.excluded
                else case.model_copy(update={"excluded": LEFT_OUT})
                for case in lock.cases
            ),
            "measure": lock.measure.model_copy(update={"replicates": 2 * pairs}),
            "comparisons": (),
            "thresholds": (),
        }
    )


def aa_batch(lock: Lock, restarts: bool) -> Batch:
    """Return all trials of an `aa_lock`, in order. With `restarts`, services are restarted before each trial,
    as between the sides of an A/B. Where sides take turns, those of a pair are a block."""
    batch = study.first_batch(lock)
    if lock.measure.order == "turns":
        trials = tuple(one.model_copy(update={"block": (one.block + 1) // 2}) for one in batch.trials)
        return batch.model_copy(update={"trials": trials, "because": f"A/A: {batch.because}"})
    if not restarts:
        return batch.model_copy(update={"because": f"A/A: {batch.because}"})
    trials = tuple(
        trial.model_copy(update={"restart": trial.position > 0, "whole_plot": trial.position})
        for trial in batch.trials
    )
    return batch.model_copy(
        update={"trials": trials, "because": f"A/A, restarted before each: {batch.because}"}
    )


def compares_restarts(lock: Lock) -> bool:
    """Return if any planned comparison's factor restarts services, or its blocks' sides each start them."""
    if lock.measure.order == "turns":
        return is_split(lock)
    split = {factor.name for factor in lock.factors if factor.change in ("restart", "rebuild")}
    return any(comparison.factor in split for comparison in lock.comparisons)

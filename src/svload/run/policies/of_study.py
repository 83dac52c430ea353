"""The policy that a study asks for."""

from __future__ import annotations

from svload import study
from svload.model.plan import Batch
from svload.model.study import Lock
from svload.run.policies.base import Policy, Sealed
from svload.study.order import is_split


def first_batch(lock: Lock) -> Batch:
    """Return the study's first batch; if `--for` bounds a comparison of servers that already run, only as
    many blocks as a claim needs: the others follow while there is time."""
    batch = study.first_batch(lock)
    if not is_bounded(lock):
        return batch
    from svload.analysis.limits import CLAIM_BLOCKS

    trials = tuple(trial for trial in batch.trials if trial.block <= CLAIM_BLOCKS)
    return batch.model_copy(update={"trials": trials})


def is_bounded(lock: Lock) -> bool:
    """Return whether its planned blocks are made only within the time that `--for` gives."""
    running = lock.measure.order == "turns" and not is_split(lock) and bool(lock.comparisons)
    return running and lock.measure.within_s is not None


def policy_of(lock: Lock) -> Policy | None:
    """Return the study's policy; None if its first batch is all."""
    if lock.search is not None:
        from svload.run.policies.capacity import capacity

        return capacity
    from svload.analysis.contrasts import wanted_widths

    if wanted_widths(lock) or is_bounded(lock):
        from svload.run.policies.until import until

        return until
    return None


def adds_batches(lock: Lock) -> bool:
    """Return whether batches may follow the study's first one."""
    return policy_of(lock) is not None


def so_far_of(lock: Lock, sealed: Sealed) -> dict[str, object]:
    """Return a live picture of the policy's decisions, as data of a `batch` event; empty if it has none."""
    if lock.search is None:
        return {}
    from svload.run.policies.capacity import so_far

    return so_far(lock, sealed)

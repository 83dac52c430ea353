"""Which policy a study asks for."""

from __future__ import annotations

from svload.model.study import Lock
from svload.run.policies.base import Policy, Sealed


def policy_of(lock: Lock) -> Policy | None:
    """The study's own policy; None where its first batch is all."""
    if lock.search is not None:
        from svload.run.policies.capacity import capacity

        return capacity
    from svload.analysis.contrasts import wanted_widths

    if wanted_widths(lock):
        from svload.run.policies.until import until

        return until
    return None


def so_far_of(lock: Lock, sealed: Sealed) -> dict[str, object]:
    """What a live picture of the policy's decisions shows, as data of a `batch` event; empty: nothing."""
    if lock.search is None:
        return {}
    from svload.run.policies.capacity import so_far

    return so_far(lock, sealed)

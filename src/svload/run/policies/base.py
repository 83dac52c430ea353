"""The inputs and outputs of a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from svload.model.plan import Batch, TrialPlan
from svload.model.study import Lock

if TYPE_CHECKING:
    from svload.model.results import TrialResult

Widths = Mapping[str, float | None]
"""Planned claim → half the width of its 95 % interval, in logarithms; None if there is none yet."""


@dataclass(frozen=True)
class Verdicts:
    """Final verdicts over all that is sealed: a trial's verdict may change as its case gets more trials.
    `trials` is by name; `sealed_s` is when each was sealed and `begun_s` when the run got the machine; Unix
    time in s."""

    trials: Mapping[str, TrialResult] = field(default_factory=dict)
    widths: Widths = field(default_factory=dict)
    sealed_s: Mapping[str, float] = field(default_factory=dict)
    begun_s: float | None = None
    decided: frozenset[str] = frozenset()
    """planned claims whose gate is decided already"""


@dataclass(frozen=True)
class Sealed:
    """What a policy decides from: the batches so far, all of whose trials are sealed or given up; the digest
    of each seal; the verdicts."""

    batches: Sequence[Batch]
    seals: Mapping[str, str]
    verdicts: Verdicts

    def batch(self, because: str, trials: Sequence[TrialPlan]) -> Batch:
        """Return the next batch, tied to the seals that it was decided from."""
        decided_from = {trial: self.seals[trial] for trial in sorted(self.seals)}
        return Batch(
            number=len(self.batches), because=because, trials=tuple(trials), decided_from=decided_from
        )


Policy = Callable[[Lock, Sealed], "Batch | None"]
"""Returns the next batch, or None if the run is complete."""

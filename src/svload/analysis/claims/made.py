"""How a trial was made, as far as claims ask: its bring-up, when it began, what it
stands in for, and whom it serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from svload.model.plan import Batch, TrialPlan
from svload.model.results import TrialResult

if TYPE_CHECKING:
    from svload.store import TrialData


@dataclass(frozen=True)
class Made:
    """`again`: 0 for a trial of the first batch, else the batch of a repetition: pairs are
    made of trials of one batch alone."""

    whole_plot: int | None = None
    started_s: float = 0.0
    again: int = 0
    serves: tuple[str, ...] = ()


def made_of(trials: Iterable[TrialData], batches: Sequence[Batch] = ()) -> dict[str, Made]:
    """By trial. Without `batches` every trial is taken for one of the first.

    A trial that an older svload made once more names none that it stands in for, nor has it a partner:
    it counts as of the first batch.
    """
    planned = {plan.trial: (batch.number, plan) for batch in batches for plan in batch.trials}
    found = {}
    for trial in trials:
        summary = trial.summary
        number, plan = planned.get(summary.trial, (0, None))
        found[summary.trial] = Made(
            trial.lab.whole_plot,
            summary.started_wall,
            number if plan is not None and plan.instead_of is not None else 0,
            _serves(plan),
        )
    return found


def _serves(plan: TrialPlan | None) -> tuple[str, ...]:
    return plan.serves if plan is not None else ()


def started_order(trials: Sequence[TrialResult], made: Mapping[str, Made]) -> dict[str, int]:
    """Trial → its place in the order they began; empty where that is not known."""
    if any(trial.trial not in made for trial in trials):
        return {}
    begun = sorted(trials, key=lambda trial: made[trial.trial].started_s)
    if len({made[trial.trial].started_s for trial in begun}) < len(begun):
        return {}
    return {trial.trial: place for place, trial in enumerate(begun)}


def seconds_a_trial(trials: Sequence[TrialResult], made: Mapping[str, Made]) -> float | None:
    """The usual time from one trial's begin to the next one's; None where it is not known."""
    begun = sorted(made[trial.trial].started_s for trial in trials if trial.trial in made)
    gaps = sorted(after - before for before, after in pairwise(begun))
    middle = gaps[len(gaps) // 2] if gaps else 0.0
    return middle if middle > 0 else None

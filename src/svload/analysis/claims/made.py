"""How a trial was made, as far as claims ask: its bring-up, and when it began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from svload.model.results import TrialResult

if TYPE_CHECKING:
    from svload.store import TrialData


@dataclass(frozen=True)
class Made:
    """`whole_plot`: the bring-up it was made in; None where that is not known."""

    whole_plot: int | None = None
    started_s: float = 0.0


def made_of(trials: Iterable[TrialData]) -> dict[str, Made]:
    """By trial."""
    return {one.summary.trial: Made(one.lab.whole_plot, one.summary.started_wall) for one in trials}


def started_order(trials: Sequence[TrialResult], made: Mapping[str, Made]) -> list[TrialResult]:
    """The trials in the order they began; empty where that is not known."""
    if any(trial.trial not in made for trial in trials):
        return []
    begun = sorted(trials, key=lambda trial: made[trial.trial].started_s)
    return [] if len({made[trial.trial].started_s for trial in begun}) < len(begun) else begun


def seconds_a_trial(trials: Sequence[TrialResult], made: Mapping[str, Made]) -> float | None:
    """The usual time from one trial's begin to the next one's; None where it is not known."""
    begun = sorted(made[trial.trial].started_s for trial in trials if trial.trial in made)
    gaps = sorted(after - before for before, after in pairwise(begun))
    middle = gaps[len(gaps) // 2] if gaps else 0.0
    return middle if middle > 0 else None

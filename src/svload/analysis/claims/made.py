"""How a trial was made, as far as claims need it: its bring-up, when it began, and what each of its turns
showed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from svload.model.metrics import MetricRef
from svload.model.results import TrialResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.analysis.claims.turned import Turned
    from svload.store import TrialData


@dataclass(frozen=True)
class Made:
    """How a trial was made. `whole_plot`: its bring-up; None where that is not known. `turned`: by a number's
    full name; empty where it took no turns."""

    whole_plot: int | None = None
    started_s: float = 0.0
    turned: Mapping[str, Turned] = field(default_factory=dict)


def made_of(
    trials: Iterable[TrialData],
    configs: Mapping[str, CaseConfig],
    wanted: Mapping[str, Sequence[MetricRef]],
) -> dict[str, Made]:
    """Return how each trial was made, by trial. `wanted`: by case the numbers of its claims."""
    return {one.summary.trial: _made_of(one, configs, wanted) for one in trials}


def _made_of(
    trial: TrialData, configs: Mapping[str, CaseConfig], wanted: Mapping[str, Sequence[MetricRef]]
) -> Made:
    summary = trial.summary
    if summary.turns is None or summary.case not in configs:
        return Made(trial.lab.whole_plot, summary.started_wall)
    from svload.analysis.claims.turned import turned_of

    turned = turned_of(trial.unread(), configs[summary.case], wanted.get(summary.case, ()))
    return Made(trial.lab.whole_plot, summary.started_wall, turned)


def started_order(trials: Sequence[TrialResult], made: Mapping[str, Made]) -> list[TrialResult]:
    """Return the trials in the order they began; empty where that is not known."""
    if any(trial.trial not in made for trial in trials):
        return []
    begun = sorted(trials, key=lambda trial: made[trial.trial].started_s)
    return [] if len({made[trial.trial].started_s for trial in begun}) < len(begun) else begun


def seconds_a_trial(trials: Sequence[TrialResult], made: Mapping[str, Made]) -> float | None:
    """Return the usual time from one trial's begin to the next one's; the trials of a block that take turns
    share its time equally. None where it is not known."""
    known = [(trial, made[trial.trial]) for trial in trials if trial.trial in made]
    begun: dict[str | int, float] = {}
    for trial, how in known:
        together = trial.block if how.turned else trial.trial
        begun[together] = min(how.started_s, begun.get(together, how.started_s))
    gaps = sorted(after - before for before, after in pairwise(sorted(begun.values())))
    middle = gaps[len(gaps) // 2] * len(begun) / len(known) if gaps else 0.0
    return middle if middle > 0 else None

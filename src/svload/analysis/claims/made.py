"""How a trial was made, as far as claims need it: its bring-up, when it began, and what each of its turns
showed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from svload.model.metrics import MetricRef
from svload.model.results import TrialResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.analysis.claims.turned import Turned
    from svload.store import TrialData


T = TypeVar("T")
R = TypeVar("R")
Known = dict[tuple[str, str], Any]
"""What was found of sealed trials, which never change, by what it is and the trial's name."""


class Each(Protocol):
    """The way to apply a function to all items: results in their order, exceptions as in a loop."""

    def __call__(self, function: Callable[[T], R], items: Sequence[T], /) -> list[R]:
        """Apply `function` to every item."""


def in_turn(function: Callable[[T], R], items: Sequence[T], /) -> list[R]:
    """Apply `function` to every item, as `Each`."""
    return [function(item) for item in items]


def once(known: Known, what: str, trial: TrialData, find: Callable[[TrialData], T]) -> T:
    """Return what `find` returns for a trial, whose tables are in memory only that long; a second time from
    `known`."""
    key = (what, trial.summary.trial)
    if key not in known:
        known[key] = find(trial.unread())
    found: T = known[key]
    return found


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
    *,
    each: Each = in_turn,
    known: Known | None = None,
) -> dict[str, Made]:
    """Return how each trial was made, by trial. `wanted`: by case the numbers of its claims; `each` and
    `known` as in `judge_trials`."""
    trials = list(trials)
    in_turns = [one for one in trials if one.summary.turns is not None and one.summary.case in configs]
    kept: Known = {} if known is None else known

    def turned(trial: TrialData) -> dict[str, Turned]:
        from svload.analysis.claims.turned import turned_of

        case = trial.summary.case
        return once(kept, "turned", trial, lambda one: turned_of(one, configs[case], wanted.get(case, ())))

    of_turns = dict(zip((one.summary.trial for one in in_turns), each(turned, in_turns), strict=True))
    return {
        one.summary.trial: Made(
            one.lab.whole_plot, one.summary.started_wall, of_turns.get(one.summary.trial, {})
        )
        for one in trials
    }


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

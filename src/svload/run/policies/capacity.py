"""The policy of `svload capacity`: the next load of a search, from the verdicts on those before (docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Sequence

from svload.analysis.capacity.asked import case_name, next_of, replicates_of, search_of
from svload.analysis.capacity.search import Step, ends_after, levels_after
from svload.model.plan import Batch, Point, TrialPlan, trial_name
from svload.model.results import TrialResult
from svload.model.study import Lock
from svload.run.policies.base import Sealed
from svload.study.order import draw


def first_batch(lock: Lock) -> Batch:
    """The first level of a search."""
    step = next_of(lock, ())
    assert isinstance(step, Step)
    return Batch(number=0, because=step.because, trials=_trials(lock, step, ()))


def capacity(lock: Lock, sealed: Sealed) -> Batch | None:
    """The trials of the next step; None where the search has its answer."""
    made = [trial for batch in sealed.batches for trial in batch.trials]
    step = next_of(lock, _results(sealed), sealed.verdicts.sealed_s)
    return sealed.batch(step.because, _trials(lock, step, made)) if isinstance(step, Step) else None


def so_far(lock: Lock, sealed: Sealed) -> dict[str, object]:
    """For a live picture: the factor, every load with its outcome (`looked` after a single look), and the bracket."""
    assert lock.search is not None
    results = _results(sealed)
    if lock.search.gain is not None:
        return {"over": lock.search.over}
    search, seen = search_of(lock.search), replicates_of(lock, results)
    outcomes = {one.load: "looked" for one in seen}
    outcomes |= {load: level.outcome for load, level in levels_after(search, seen).items()}
    kept, broken = ends_after(search, seen)
    return {
        "over": lock.search.over,
        "levels": [[load, outcome] for load, outcome in sorted(outcomes.items())],
        "kept": kept,
        "broken": broken,
    }


def _results(sealed: Sealed) -> list[TrialResult]:
    made = [trial for batch in sealed.batches for trial in batch.trials]
    return [sealed.verdicts.trials[one.trial] for one in made if one.trial in sealed.verdicts.trials]


def _trials(lock: Lock, step: Step, made: Sequence[TrialPlan]) -> tuple[TrialPlan, ...]:
    """A block each: a level's replicates follow one another, and the search itself is the order."""
    assert lock.search is not None
    over, planned = lock.search.over, list(made)
    for load in step.loads:
        case = case_name(over, load)
        replicate = sum(one.case == case for one in planned) + 1
        planned.append(
            TrialPlan(
                trial=trial_name(case, replicate),
                case=case,
                replicate=replicate,
                block=len(planned) + 1,
                position=len(planned),
                seed=draw(lock.seed, "load", "search", load, replicate),
                at=Point(values={over: load}, duration_ns=lock.measure.duration_ns),
            )
        )
    return tuple(planned[len(made) :])

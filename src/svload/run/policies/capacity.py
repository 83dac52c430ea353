"""The policy of `svload capacity`: the next load of a search, from the verdicts on earlier loads
(docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Sequence

from svload.analysis.capacity.asked import case_name, next_of, progress_of
from svload.analysis.capacity.search import Step
from svload.model.plan import Batch, Point, TrialPlan, trial_name
from svload.model.results import TrialResult
from svload.model.study import Lock
from svload.run.policies.base import Sealed
from svload.study.order import draw


def first_batch(lock: Lock) -> Batch:
    """Return the first step of a search."""
    step = next_of(lock, ())
    assert isinstance(step, Step)
    return Batch(number=0, because=step.because, trials=_trials(lock, step, ()))


def capacity(lock: Lock, sealed: Sealed) -> Batch | None:
    """Return the trials of the next step; None if the search has its answer."""
    made = [trial for batch in sealed.batches for trial in batch.trials]
    step = next_of(lock, _results(sealed), sealed.verdicts.sealed_s, sealed.verdicts.begun_s)
    return sealed.batch(step.because, _trials(lock, step, made)) if isinstance(step, Step) else None


def so_far(lock: Lock, sealed: Sealed) -> dict[str, object]:
    """Return data for a live picture: the factor, each load with the verdicts on its trials, and the limit or
    what prevents one."""
    assert lock.search is not None
    now = progress_of(lock, _results(sealed))
    answers: dict[int, set[bool | None]] = {}
    for one in now.seen:
        answers.setdefault(one.load, set()).add(one.holds)
    held, broke = now.sides
    limit = now.limit
    return {
        "over": lock.search.over,
        "levels": [[load, _outcome(found)] for load, found in sorted(answers.items())],
        "limit": None if limit is None else limit.value,
        "low": held if limit is None else limit.low,
        "high": broke if limit is None else limit.high,
    }


def _outcome(found: set[bool | None]) -> str:
    known = found - {None}
    if not known:
        return "no number"
    return "mixed" if len(known) > 1 else "holds" if True in known else "breaks"


def _results(sealed: Sealed) -> list[TrialResult]:
    made = [trial for batch in sealed.batches for trial in batch.trials]
    return [sealed.verdicts.trials[one.trial] for one in made if one.trial in sealed.verdicts.trials]


def _trials(lock: Lock, step: Step, made: Sequence[TrialPlan]) -> tuple[TrialPlan, ...]:
    """Return one block per trial: the search determines the order."""
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

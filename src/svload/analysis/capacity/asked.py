"""What a run's lock asks of a search, and the next step or the answer from its judged trials. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log
from types import MappingProxyType

from svload.analysis.capacity.readings import (
    Measured,
    as_measured,
    gone_from,
    is_unanswered,
    measured,
)
from svload.analysis.capacity.search import (
    Answer,
    Progress,
    Reading,
    Search,
    Step,
    answer,
    budget_of,
    next_step,
)
from svload.analysis.criteria import criterion_of
from svload.model.capacity import GainStep
from svload.model.results import TrialResult
from svload.model.study import CapacitySearch, Lock
from svload.study import resolve

SealedAt = Mapping[str, float]
"""Trial → when it was sealed, in Unix time (s)."""
UNTIMED: SealedAt = MappingProxyType({})
APART = 1.25
"""The ratio of the upper load of a step to the lower one, where a gain is asked for."""


def next_of(
    lock: Lock, results: Sequence[TrialResult], sealed_s: SealedAt = UNTIMED, begun_s: float | None = None
) -> Step | Answer:
    """Return the next loads, or the answer; `results` in the order they ran. The lock must ask for a
    search."""
    asked = lock.search
    assert asked is not None
    if gone := gone_words(results):
        return answer(progress_of(lock, results), gone)
    step = next_step(search_of(lock, results, sealed_s, begun_s), readings_of(lock, results))
    if isinstance(step, Step) and asked.gain is not None:
        pairs = tuple(load for low in step.loads for load in (low, above(low, asked)))
        return Step(pairs, step.because)
    return step


def search_of(
    lock: Lock,
    results: Sequence[TrialResult] = (),
    sealed_s: SealedAt = UNTIMED,
    begun_s: float | None = None,
) -> Search:
    """Return the search in the form that `search` takes."""
    asked = lock.search
    assert asked is not None
    budget = budget_of(asked, [sealed_s.get(one.trial) for one in results], begun_s)
    if asked.gain is None:
        return Search(asked.least, asked.most, asked.start, asked.tolerance, budget, lock.seed)
    most = max(int(asked.most / APART), asked.least)
    return Search(asked.least, most, min(asked.start, most), asked.tolerance, budget, lock.seed, 2)


def progress_of(lock: Lock, results: Sequence[TrialResult]) -> Progress:
    """Return the progress that these trials show."""
    return Progress(search_of(lock), readings_of(lock, results))


def readings_of(lock: Lock, results: Sequence[TrialResult]) -> list[Reading]:
    """Return a reading of each trial, or of each step of two where a gain is asked for."""
    if lock.search is not None and lock.search.gain is not None:
        wanted = lock.search.gain
        return [
            Reading(low, None if step is None else step.gain - wanted) for low, step in _pairs(lock, results)
        ]
    return [one.reading for one in measured_of(lock, results)]


def measured_of(lock: Lock, results: Sequence[TrialResult]) -> list[Measured]:
    """Return what each trial says about the criteria."""
    config = resolve(lock, lock.valid_cases[0])
    criteria = [criterion_of(text, config) for text in lock.search.that] if lock.search else []
    group = next(one for one in config.groups if one.name == config.main_group)
    return [
        Measured(Reading(load_of(lock, one), None), lacks="the server was gone")
        if is_lost
        else measured(one, criteria, load_of(lock, one), group.longest_timeout_ns / 1e9)
        for one, is_lost in zip(results, _lost(results), strict=True)
    ]


def gone_words(results: Sequence[TrialResult]) -> str:
    """Return since when the server is gone; empty where it answered the last trial."""
    if (place := gone_from(results)) is None:
        return ""
    first = results[place]
    ends = next((one for one in first.outages if one.until_s is None), None)
    at = f"{ends.since_s:.1f} s of {first.trial}" if ends is not None else f"the end of {first.trial}"
    return f"server gone since {at} (connections refused until the search ended)"


def _lost(results: Sequence[TrialResult]) -> list[bool]:
    """Return the trials that carry no information about their load, since the server was gone."""
    place = gone_from(results)
    return [is_unanswered(one) or (place is not None and at >= place) for at, one in enumerate(results)]


def steps_of(lock: Lock, results: Sequence[TrialResult]) -> list[GainStep]:
    """Return every step up with both rates known, in the order they ran."""
    return [step for _, step in _pairs(lock, results) if step is not None]


def _pairs(lock: Lock, results: Sequence[TrialResult]) -> list[tuple[int, GainStep | None]]:
    rates = [
        (load_of(lock, one), None if is_lost else rate_of(lock, one))
        for one, is_lost in zip(results, _lost(results), strict=True)
    ]
    found: list[tuple[int, GainStep | None]] = []
    for (low, low_rps), (high, high_rps) in zip(rates[::2], rates[1::2], strict=False):
        step = None
        if low_rps and high_rps and high > low:
            gain = log(high_rps / low_rps) / log(high / low)
            step = GainStep(low_load=low, high_load=high, gain=gain, low_rps=low_rps, high_rps=high_rps)
        found.append((low, step))
    return found


def above(load: int, asked: CapacitySearch) -> int:
    """Return the upper load of the step up from this one."""
    return min(max(ceil(load * APART), load + 1), asked.most)


def rate_of(lock: Lock, result: TrialResult) -> float | None:
    """Return its ok completions a second."""
    estimate = result.metrics.get(f"{resolve(lock, lock.valid_cases[0]).main_group}.ok_throughput")
    return as_measured(estimate) if estimate is not None else None


def load_of(lock: Lock, result: TrialResult) -> int:
    """Return the load of a trial of a search, from the name of its case."""
    assert lock.search is not None
    return int(result.case.removeprefix(f"{lock.search.over}-"))


def case_name(over: str, load: int) -> str:
    """Return the case of a load."""
    return f"{over}-{load}"

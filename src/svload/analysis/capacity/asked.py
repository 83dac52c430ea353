"""What a run's lock asks a search for, and the next step or the answer from its judged trials. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from svload.analysis.capacity import knee, search
from svload.analysis.capacity.budget import UNBOUNDED, Budget, budget_of
from svload.analysis.capacity.knee import Found, Knee, Throughput
from svload.analysis.capacity.level import Replicate
from svload.analysis.capacity.replicates import replicate_of
from svload.analysis.capacity.search import Answer, Search, Step
from svload.analysis.criteria import criterion_of, main_group
from svload.model.metrics import Criterion
from svload.model.results import TrialResult
from svload.model.study import CapacitySearch, CaseConfig, Lock
from svload.study import resolve

SealedAt = Mapping[str, float]
"""Trial → when it was sealed, Unix time in s."""
UNTIMED: SealedAt = MappingProxyType({})


def next_of(
    lock: Lock, results: Sequence[TrialResult], sealed_s: SealedAt = UNTIMED
) -> Step | Answer | Found:
    """The next loads, or the answer; `results` in the order they ran. The lock asks for a search."""
    asked = lock.search
    assert asked is not None
    budget = budget_of(asked, [sealed_s.get(one.trial) for one in results])
    if asked.gain is not None:
        wanted = Knee(asked.least, asked.most, asked.gain, budget=budget)
        return knee.next_step(wanted, throughputs_of(lock, results))
    return search.next_step(search_of(asked, budget), replicates_of(lock, results))


def search_of(asked: CapacitySearch, budget: Budget = UNBOUNDED) -> Search:
    """As the search takes it."""
    return Search(asked.least, asked.most, asked.start, asked.tolerance, budget=budget)


def load_of(lock: Lock, result: TrialResult) -> int:
    """The load of a trial of a search: its case is named by it."""
    assert lock.search is not None
    return int(result.case.removeprefix(f"{lock.search.over}-"))


def case_name(over: str, load: int) -> str:
    """The case of a load."""
    return f"{over}-{load}"


def criteria_of(lock: Lock, config: CaseConfig) -> list[Criterion]:
    """What the search asks, by the case's own names."""
    return [criterion_of(text, config) for text in lock.search.that] if lock.search else []


def replicates_of(lock: Lock, results: Sequence[TrialResult]) -> list[Replicate]:
    """Each trial with the load of the one before it."""
    config = resolve(lock, lock.valid_cases[0])
    criteria = criteria_of(lock, config)
    group = next(one for one in config.groups if one.name == main_group(config))
    seen: list[Replicate] = []
    for one in results:
        after = seen[-1].load if seen else None
        seen.append(replicate_of(one, criteria, load_of(lock, one), after, group.longest_timeout_ns / 1e9))
    return seen


def throughputs_of(lock: Lock, results: Sequence[TrialResult]) -> list[Throughput]:
    """Each trial with its ok completions a second, where they are believed."""
    key = f"{main_group(resolve(lock, lock.valid_cases[0]))}.ok_throughput"
    found = []
    for one in results:
        estimate = one.metrics.get(key)
        believed = estimate is not None and estimate.value is not None and estimate.grade != "REFUSED"
        found.append(Throughput(load_of(lock, one), estimate.value if believed and estimate else None))
    return found

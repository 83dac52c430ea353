"""Turns as the default of a gate: if its sides can run side by side; if not, why, in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from svload.model.distributions import lognormal_mean
from svload.model.study import Case, CaseConfig, Lock
from svload.model.units import show_size, size_bytes
from svload.study.check import owners_of
from svload.study.config import resolve
from svload.study.mistakes import Mistake
from svload.study.order import sets_of_cases
from svload.study.tree import section_of
from svload.study.turns import side_mistakes, turn_mistakes

LEFT_FREE = 0.25
"""The other sides must leave at least this share of what is free beside the first side."""


class Free(NamedTuple):
    """What is free on this machine, in bytes."""

    memory: int
    disk: int


def leaves_order_open(lock: Lock) -> bool:
    """Return whether the study has a gate and does not set the order of its trials."""
    gated = any(one.fail_if for one in lock.comparisons)
    return gated and section_of(lock.source, "measure").get("order") is None


def in_turns(lock: Lock) -> Lock:
    """Return the same study with `order: turns`."""
    return lock.model_copy(
        update={
            "measure": lock.measure.model_copy(update={"order": "turns"}),
            "source": _asking_for_turns(lock),
        }
    )


def why_not_side_by_side(lock: Lock, free: Free) -> str:
    """Return why the sides of a study's gate can't run side by side, as a clause; empty: they can."""
    return next(_hindrances(lock, free), "")


def _asking_for_turns(lock: Lock) -> dict[str, Any]:
    return {**lock.source, "measure": {**section_of(lock.source, "measure"), "order": "turns"}}


def _hindrances(lock: Lock, free: Free) -> Iterator[str]:
    data = _asking_for_turns(lock)
    yield from map(_sentence, turn_mistakes(data, owners_of(data)))
    turned = lock.comparisons[0].factor
    if next(one.change for one in lock.factors if one.name == turned) == "request":
        yield f"{turned} changes the requests, not a server"
    cases = lock.valid_cases
    configs = {case.name: resolve(lock, case) for case in cases}
    for service in (one for config in configs.values() for one in config.services):
        if service.kit == "external":
            yield f"{service.name} is already running, and there is only one of it"
    yield from map(_sentence, side_mistakes(data, cases, configs))
    yield from _too_large(cases, configs, turned, free)


def _sentence(mistake: Mistake) -> str:
    return f"{mistake.details['reason']} ({mistake.details['where']})"


def _too_large(
    cases: Sequence[Case], configs: Mapping[str, CaseConfig], turned: str, free: Free
) -> Iterator[str]:
    """Report sets whose sides declare too much memory or data; the largest side counts as the first."""
    for one in sets_of_cases(cases, turned):
        for what, available, of in (("memory", free.memory, _memory), ("data", free.disk, _data)):
            first, *others = sorted((of(configs[case.name]) for case in one), reverse=True)
            left = available - first
            if sum(others) > (1 - LEFT_FREE) * max(left, 0):
                yield (
                    f"{len(one)} sides declare {show_size(first + sum(others))} of {what}, and of the "
                    f"{show_size(available)} that are free less than a quarter would be left beside them"
                )


def _memory(config: CaseConfig) -> int:
    """Return the declared memory limits of its services; what is within another is part of that one."""
    whole = [one for one in config.services if "within" not in one.options]
    written = (service.options.get("memory") for service in whole)
    return sum(size_bytes(one) for one in written if isinstance(one, str | int))


def _data(config: CaseConfig) -> int:
    """Return the size of the data in its stores."""
    return round(sum(one.count * _mean(one.size) for one in config.objects))


def _mean(size: Mapping[str, Any]) -> float:
    ((kind, of),) = size.items()
    if kind == "lognormal":
        return lognormal_mean(size_bytes(of["median"]), size_bytes(of["p99"]))
    return sum(map(size_bytes, of)) / 2 if kind == "uniform" else float(size_bytes(of))

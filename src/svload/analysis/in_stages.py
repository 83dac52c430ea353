"""Thresholds that no run could judge, told before it: load in stages has no percentile, mean or rate of the whole
(docs/method.md §1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from svload.analysis.criteria import criterion_of
from svload.model.metrics import MetricRef
from svload.model.study import CaseConfig, Lock
from svload.study.factors import matches

_OF_THE_WHOLE = ("min", "max")
"""What stays of changing load: extremes, beside counts and shares."""


def unjudged_in_stages(
    lock: Lock, configs: Mapping[str, CaseConfig], places: Sequence[str] = ()
) -> tuple[str, ...]:
    """A sentence for each threshold over a number that a group in stages will not have. `places`: `file:line` of
    each of the study's thresholds."""
    told: dict[int, tuple[str, MetricRef, list[str]]] = {}
    for case, config in configs.items():
        for index, text, ref in _without_number(lock, config):
            told.setdefault(index, (text, ref, []))[2].append(case)
    return tuple(
        _said(text, ref, cases, places[index] if index < len(places) else "", len(configs))
        for index, (text, ref, cases) in sorted(told.items())
    )


def _without_number(lock: Lock, config: CaseConfig) -> Iterator[tuple[int, str, MetricRef]]:
    mine = [index for index, one in enumerate(lock.thresholds) if matches(one.when, config.case.levels)]
    in_stages = {group.name for group in config.groups if group.executor.shape == "ramping"}
    for index, text in zip(mine, config.thresholds, strict=True):
        ref = criterion_of(text, config).ref
        if ref.owner.partition(".")[0] in in_stages and not _has_number(ref):
            yield index, text, ref


def _has_number(ref: MetricRef) -> bool:
    if ref.stat is not None:
        return ref.stat in _OF_THE_WHOLE
    return ref.metric.dimension != "rate_rps" and ref.metric.name != "recovery"


def _said(text: str, ref: MetricRef, cases: Sequence[str], place: str, count: int) -> str:
    group = ref.owner.partition(".")[0]
    where = "" if len(cases) == count else f" in {', '.join(cases[:3])}{' …' if len(cases) > 3 else ''}"
    keeps = f"{ref.owner}.response.max, success_rate or error_rate"
    return (
        f"{f'{place}: ' if place else ''}“{text}” can't be judged{where}: the load of {group} comes in stages, so there "
        f"is no {ref.name}{f'.{ref.stat}' if ref.stat else ''} of the whole, only over time. Ask for it at a level "
        f"(constant-vus, constant-arrival-rate), or here for {keeps}."
    )

"""Which cases differ in one group's load alone: its users, its rate or its think time. All else that
they ask for must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from svload.analysis.laws.levels import Kind
from svload.model.executors import ConstantArrivalRate, ConstantVus
from svload.model.results import CaseResult
from svload.model.study import CaseConfig, Factor
from svload.model.traffic import Group


@dataclass(frozen=True)
class Axis:
    """Cases that differ in one group's load alone, by the level of the factor."""

    factor: str
    kind: Kind
    group: str
    when: dict[str, str]
    """levels of the other factors, of which more than one was run"""
    cases: dict[str, str]
    """level → case"""


def axes_of(
    factor: Factor, ran: Mapping[str, CaseResult], configs: Mapping[str, CaseConfig]
) -> Iterator[Axis]:
    """The sets of cases that differ in this factor alone, where that is a load."""
    others: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    levels = {(name, level) for case in ran.values() for name, level in case.levels.items()}
    varying = {name for name, _ in levels if sum(name == other for other, _ in levels) > 1} - {factor.name}
    for case in ran.values():
        key = tuple((name, level) for name, level in case.levels.items() if name in varying)
        others.setdefault(key, {})[case.levels[factor.name]] = case.case
    for when, cases in others.items():
        mine = [configs[name] for name in cases.values()]
        load = _load_that_varies(mine) if len(mine) > 1 else None
        if load is not None:
            ordered = {level.name: cases[level.name] for level in factor.levels if level.name in cases}
            yield Axis(factor.name, load[1], load[0], dict(when), ordered)


def _load_that_varies(configs: Sequence[CaseConfig]) -> tuple[str, Kind] | None:
    """(group, what) if the cases differ in one group's users, rate or think time, and in nothing else."""
    if any(_without_load(config) != _without_load(configs[0]) for config in configs[1:]):
        return None
    varying = []
    for name in (group.name for group in configs[0].groups):
        loads = [_load_of(group) for config in configs for group in config.groups if group.name == name]
        if any(load is None for load in loads):
            continue
        for kind, values in zip(
            ("users", "rate", "think"), zip(*[load for load in loads if load], strict=True), strict=True
        ):
            if len(set(values)) > 1:
                varying.append((name, kind))
    return varying[0] if len(varying) == 1 else None  # type: ignore[return-value]  # the words above are the kinds


def _load_of(group: Group) -> tuple[float, float, float] | None:
    """(users, rate, think time in ns) of a constant load; None of any other."""
    executor = group.executor
    if isinstance(executor, ConstantVus):
        steps = sum(step.think_time.mean_ns for step in group.steps)
        return float(executor.vus), 0.0, executor.cycle_ns + steps
    return (0.0, executor.rate_rps, 0.0) if isinstance(executor, ConstantArrivalRate) else None


def _without_load(config: CaseConfig) -> dict[str, Any]:
    """All that a case asks for, its load and its criteria apart."""
    plain = config.model_dump(exclude={"case", "expects", "thresholds"})
    for group in plain["groups"]:
        if group["executor"]["kind"] in ("constant-vus", "constant-arrival-rate"):
            for name in ("vus", "rate_rps", "think_time", "pacing_ns", "max_vus", "ramp_up_ns"):
                group["executor"].pop(name, None)
        for scenario in group["scenarios"]:
            for step in scenario["steps"]:
                step.pop("think_time", None)
    return plain

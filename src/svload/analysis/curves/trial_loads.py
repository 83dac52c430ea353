"""The load of a trial's groups in the form that the laws take: users or rate, think time, and for load in
stages the point where it broke; and how much of each resource it used, with its capacity: CPU by quota and
cores, workers, limited disks and links (docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from svload.analysis.evidence import holder, owner
from svload.analysis.laws.levels import Floats
from svload.analysis.laws.ramp import What, breakpoint_of
from svload.analysis.readings import readings_of, total_rate
from svload.analysis.view import GroupView, Window
from svload.model.evidence import Evidence
from svload.model.executors import ConstantArrivalRate, ConstantVus, RampingArrivalRate, RampingVus
from svload.model.facts import CPUS, ServiceFacts
from svload.model.load_curve import GroupLoad, RampBreak, ResourceUse
from svload.model.results import Estimate
from svload.model.study import CaseConfig
from svload.model.units import show_rate
from svload.store import TrialData


def group_loads(groups: Sequence[GroupView], metrics: Mapping[str, Estimate]) -> dict[str, GroupLoad]:
    """Return the load of each group with a constant load and a completed request in the window."""
    return {
        group.name: _load(group, metrics.get(f"{group.name}.response.max"))
        for group in groups
        if group.shape == "constant" and group.summary.completed_in_window
    }


def _load(group: GroupView, longest: Estimate | None) -> GroupLoad:
    executor = group.spec.executor
    think_s = group.summary.think_ns / group.summary.completed_in_window / 1e9
    longest_s = longest.value if longest else None
    return GroupLoad(
        users=float(executor.vus) if isinstance(executor, ConstantVus) else None,
        rate_rps=executor.rate_rps if isinstance(executor, ConstantArrivalRate) else None,
        think_s=think_s,
        window_s=group.window.seconds,
        longest_cycle_s=None if longest_s is None else longest_s + think_s,
    )


def ramp_breaks(config: CaseConfig, groups: Sequence[GroupView]) -> tuple[RampBreak, ...]:
    """Return for each group with load in stages where response and errors leave their line while it rises."""
    return tuple(one for group in groups if group.shape == "ramping" for one in _breaks(config, group))


def _breaks(config: CaseConfig, group: GroupView) -> Iterator[RampBreak]:
    load = _planned(config, group)
    if not len(load) or load.max() <= 0:
        return
    rising = slice(0, int(np.argmax(load)) + 1)
    done = (group.intervals["ok"] + group.intervals["failed"]).astype(float)
    known = np.where(done > 0, done, np.nan)
    series: dict[What, Floats] = {
        "response": group.intervals["response_sum_ns"] / known / 1e9,
        "errors": group.intervals["failed"] / known,
    }
    for what, values in series.items():
        found = breakpoint_of(load[rising], values[rising], what)
        yield RampBreak(
            group=group.name,
            kind="users" if group.closed else "rate",
            what=what,
            at=found.at,
            low=found.low,
            high=found.high,
            reason=found.reason,
        )


def _planned(config: CaseConfig, group: GroupView) -> Floats:
    """Return users, or arrivals a second, as planned, in each interval of the window."""
    executor, window = group.spec.executor, group.window
    edges = (
        np.arange(window.first, window.last + 1) * window.interval_ns - config.begin_ns(group.spec)
    ).tolist()
    if isinstance(executor, RampingVus):
        users = [executor.users_ns(low, high) / window.interval_ns for low, high in pairwise(edges)]
        return np.array(users)
    if isinstance(executor, RampingArrivalRate):
        return np.diff([executor.arrivals_until(edge) for edge in edges]) / (window.interval_ns / 1e9)
    return np.zeros(0)


_BYTES_A_SECOND = ("disk", "network")
"""The resource where a declared limit of a service's own is a rate: `disk_rate`, `link`."""
_NOTHING = Evidence()


def resources_used(
    trial: TrialData, window: Window, server_cores: Sequence[int] = (), evidence: Evidence = _NOTHING
) -> tuple[ResourceUse, ...]:
    """Return every resource with known use and capacity. `server_cores`: those that all services are pinned
    to; none: they share the machine's. `evidence`: of the same window, with its limits of bytes a second.

    A service's CPU is limited by its quota, by the cores, or by its threads where they are fewer. Where
    several services share the cores without a quota of their own, the cores together are a resource, too.
    """
    cores = float(len(server_cores)) or _machine_cores(trial)
    found = [use for facts in trial.lab.services for use in _of_service(trial, facts, window, cores)]
    cpu = [use for use in found if use.kind == "cpu"]
    if cores and len(cpu) > 1:
        used = sum(use.used for use in cpu)
        found.append(
            ResourceUse(
                name="CPU of all services",
                service="",
                kind="cores",
                used=used,
                capacity=cores,
                limited_by="the servers' cores",
            )
        )
    return (*found, *_rates(evidence))


def _rates(evidence: Evidence) -> Iterator[ResourceUse]:
    """Return each rate once: a machine's disk is read in each service within it."""
    texts = set[str]()
    for use in evidence.limits:
        name = owner(use.name, use.service, "") if use.entity == use.service else holder(use)
        if use.resource in _BYTES_A_SECOND and use.verdict and name not in texts:
            texts.add(name)
            yield ResourceUse(
                name=name,
                service=use.service,
                kind="rate",
                used=use.share,
                capacity=1.0,
                limited_by=show_rate(use.limit),
            )


def _machine_cores(trial: TrialData) -> float:
    conditions = trial.lab.conditions
    return float(conditions.machine.cores) if conditions and conditions.machine else 0.0


def _of_service(trial: TrialData, facts: ServiceFacts, window: Window, cores: float) -> Iterator[ResourceUse]:
    name = facts.service
    readings = readings_of(trial.monitors)
    used = total_rate(readings.whole(name, "process", "cpu_seconds_total"), window)
    limits = dict(_cpu_limits(trial, facts, window, cores))
    if used is not None and limits:
        text, capacity = min(limits.items(), key=lambda one: one[1])
        yield ResourceUse(
            name=f"CPU of {name}", service=name, kind="cpu", used=used, capacity=capacity, limited_by=text
        )
    busy = total_rate(readings.whole(name, "truth", "busy_seconds_total"), window)
    workers = _gauge(trial, name, "truth", "workers", window)
    if busy is not None and workers:
        yield ResourceUse(
            name=f"workers of {name}",
            service=name,
            kind="workers",
            used=busy,
            capacity=workers,
            limited_by="its workers",
        )


def _cpu_limits(
    trial: TrialData, facts: ServiceFacts, window: Window, cores: float
) -> Iterator[tuple[str, float]]:
    if cores:
        yield "the servers' cores", cores
    quota = next((setting.found for setting in facts.settings if setting.name == CPUS), None)
    if quota:
        yield "its quota", float(quota)
    threads = _gauge(trial, facts.service, "process", "threads", window)
    if threads:
        yield "its threads", threads


def _gauge(trial: TrialData, service: str, monitor: str, metric: str, window: Window) -> float | None:
    found = []
    for series in readings_of(trial.monitors).whole(service, monitor, metric):
        inside = series.values[(series.at >= window.low_ns) & (series.at < window.high_ns)]
        found += [float(np.max(inside))] if len(inside) else []
    return max(found, default=None)

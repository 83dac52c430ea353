"""The load of a trial's groups in the form that the laws take: users or rate, think time, and for load in
stages the point where it broke (docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from svload.analysis.arrivals import begin_ns
from svload.analysis.laws.levels import Floats
from svload.analysis.laws.ramp import What, breakpoint_of
from svload.analysis.view import GroupView
from svload.model.executors import ConstantArrivalRate, ConstantVus, RampingArrivalRate, RampingVus
from svload.model.load_curve import GroupLoad, RampBreak
from svload.model.results import Estimate
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


def group_loads(
    trial: TrialData, groups: Sequence[GroupView], metrics: Mapping[str, Estimate]
) -> dict[str, GroupLoad]:
    """Return the load of each group with a constant load and a completed request in the window."""
    low, high = trial.summary.window_ns
    return {
        group.name: _load(group, (high - low) / 1e9, metrics.get(f"{group.name}.response.max"))
        for group in groups
        if group.shape == "constant" and group.summary.completed_in_window
    }


def _load(group: GroupView, window_s: float, longest: Estimate | None) -> GroupLoad:
    executor = group.spec.executor
    think_s = group.summary.think_ns / group.summary.completed_in_window / 1e9
    longest_s = longest.value if longest else None
    return GroupLoad(
        users=float(executor.vus) if isinstance(executor, ConstantVus) else None,
        rate_rps=executor.rate_rps if isinstance(executor, ConstantArrivalRate) else None,
        think_s=think_s,
        window_s=window_s,
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
        np.arange(window.first, window.last + 1) * window.interval_ns - begin_ns(config, group.spec)
    ).tolist()
    if isinstance(executor, RampingVus):
        users = [executor.users_ns(low, high) / window.interval_ns for low, high in pairwise(edges)]
        return np.array(users)
    if isinstance(executor, RampingArrivalRate):
        return np.diff([executor.arrivals_until(edge) for edge in edges]) / (window.interval_ns / 1e9)
    return np.zeros(0)

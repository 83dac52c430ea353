"""Little's law in its exact form (docs/method.md §3): what the users did fills their time; residence
is what a gauge saw in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.model.executors import ClosedLoop
from svload.model.results import CheckResult, GroupSummary
from svload.model.study import CaseConfig
from svload.model.traffic import Group

if TYPE_CHECKING:
    from svload.store import TrialData


def planned_vu_ns(config: CaseConfig, group: Group, window_ns: tuple[int, int]) -> float:
    """N·T of a closed group: Σ over its users of the window's time in which they should be there.

    With a ramp or `start: together` that is N times the window's length; without a ramp users start spread
    over the first cycle (engine/docs/executors.md), and the time before a user's start is nobody's. In stages
    it is the line's integral, by whole users.
    """
    executor = group.executor
    assert isinstance(executor, ClosedLoop)
    low, high = window_ns
    begin = begin_ns(config, group)
    return executor.users_ns(low - begin, high - begin)


def begin_ns(config: CaseConfig, group: Group) -> int:
    """When the group's load begins, from the trial's start: at once, or when another group's ramp has ended."""
    ramps = {other.name: other.executor.ramp_up_ns for other in config.groups}
    return ramps.get(group.start_when or "", 0)


class Little(Check):
    """Closed: Σ (request + think + lag + wait) = N·T ± 0.5 %. Open: Σ clipped residence = the gauge's mean ± 2 %."""

    name = "little"
    row = "Little exact"
    order = 11
    of_totals = True
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """REFUSED where a group breaks it."""
        window_ns = trial.summary.window_ns
        found = [_deviation(config, view.spec, view.summary, window_ns) for view in context.groups]
        broken = [told for deviation, limit, told in found if deviation > limit]
        worst_deviation = max((deviation for deviation, _, _ in found), default=0.0)
        if broken:
            remedy = (
                "This is a defect of the load engine or its clock: report it with this trial's summary.json."
            )
            return self.result(
                "REFUSED",
                f"Little's law is broken: {'; '.join(broken)}.",
                worst_deviation,
                limits.LITTLE_CLOSED,
                remedy,
            )
        return self.result(
            "VALID",
            f"Little's law holds: {'; '.join(told for _, _, told in found)}.",
            worst_deviation,
            limits.LITTLE_CLOSED,
        )


def _deviation(
    config: CaseConfig, group: Group, summary: GroupSummary, window_ns: tuple[int, int]
) -> tuple[float, float, str]:
    if isinstance(group.executor, ClosedLoop):
        # Users who come and go by stages, or when their work is done, are there as long as they say;
        # load-asked holds that to the plan.
        steady = group.executor.shape == "constant"
        planned = planned_vu_ns(config, group, window_ns) if steady else float(summary.active_ns)
        spent = summary.request_ns + summary.think_ns + summary.lag_ns + summary.wait_ns
        off = abs(spent - planned) / planned if planned else 0.0
        told = (
            f"{group.name}'s users account for {spent / 1e9:.4g} s of {planned / 1e9:.4g} s "
            f"({percent(off)} off, {percent(limits.LITTLE_CLOSED)} allowed)"
        )
        return off, limits.LITTLE_CLOSED, told
    mean = summary.residence_ns / max(window_ns[1] - window_ns[0], 1)
    off = abs(mean - summary.in_flight_mean) / max(mean, summary.in_flight_mean, 1e-12)
    told = (
        f"{group.name} had {mean:.4g} in flight by its requests, {summary.in_flight_mean:.4g} by the gauge "
        f"({percent(off)} apart, {percent(limits.LITTLE_OPEN)} allowed)"
    )
    return off, limits.LITTLE_OPEN, told

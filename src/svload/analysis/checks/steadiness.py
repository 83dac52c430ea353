"""Was the run long enough to settle, does it drift over the kept window, and do a closed loop's requests of
that window represent its users? (docs/method.md §1, §3)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log
from typing import NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, above, doubted, times_of
from svload.analysis.inference import bin_means
from svload.analysis.ranges import harm
from svload.analysis.series import Floats, backlog_grows, response_series
from svload.analysis.view import GroupView, Window, look
from svload.model.executors import ConstantVus
from svload.model.metrics import metric_name
from svload.model.results import CheckResult, Estimate, Grade, Harm
from svload.model.study import CaseConfig
from svload.model.traffic import Group
from svload.model.units import rounded, show_percent
from svload.store import TrialData

_BINS = 30


class WarmUp(Check):
    """REFUSED if the median of the replicates' cuts is at half; WEAK for a trial with its own cut there.

    Where only the second half is left, and may still hold the end of a warm-up, each number of a trial may be
    as far off as the level at the start of that half is from the level at its end.
    """

    name = "warm-up"
    of = "any"
    order = 40
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        low, high = trial.summary.window_ns
        share = context.cut.cut_ns / max(high - low, 1)
        may_warm = context.cut.grade == "WEAK" and share >= limits.CUT_AT_MOST
        return self.result(
            context.cut.grade,
            context.cut.sentence,
            share,
            limits.CUT_AT_MOST,
            "Measure longer: at least double measure.duration.",
            [
                harm(number, max(1 - level, 0.0), max(level - 1, 0.0))
                for group in context.calm
                if group.shape == "constant"
                for level in [_end_over_start(response_series(group)[1])]
                for number in times_of(context, [group.name])
            ]
            if may_warm
            else None,
        )


def _end_over_start(response: Floats) -> float:
    """Return the median of the last half of 30 bins over the first bin or over the mean of the first five,
    whichever is further from 1; 1 for fewer than 30 values. A bin of 0, as other tools write for times below
    their resolution, counts as the smallest that is not."""
    if len(response) < _BINS or not (response > 0).any():
        return 1.0
    level = bin_means(response, _BINS)
    level = np.maximum(level, level[level > 0].min())
    end = float(np.median(level[_BINS // 2 :]))
    ratios = [end / float(level[0]), end / float(level[: _BINS // 6].mean())]
    return max(ratios, key=lambda ratio: abs(log(ratio)))


class Steadiness(Check):
    """WEAK where |Theil–Sen slope| · T > 10 % of the median and surely not 0. A number of a series that
    drifts lies within half of the drift of the middle.

    Response and throughput of every group after the cut; throughput of an open loop is determined by the
    plan, and a growing backlog by the server, so they are left out.

    The intervals are 95 % for all series of a trial together (Bonferroni): a steady trial is WEAK one time in
    twenty, however many groups it has.
    """

    name = "steadiness"
    of = "any"
    order = 41

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        if any(backlog_grows(group) for group in context.calm):
            return self.result(
                "VALID", "The backlog grows: this drift concerns the server's verdict, not the instrument's."
            )
        found = context.drifts
        drifting = {what: one for what, one in found.items() if one.unsteady}
        if drifting:
            text = ", ".join(
                f"{what} {'rose' if one.relative > 0 else 'fell'} by {show_percent(abs(one.relative))} "
                f"of its median"
                for what, one in drifting.items()
            )
            largest = max(abs(one.relative) for one in drifting.values())
            return self.result(
                "WEAK",
                f"During the load {text}.",
                largest,
                limits.DRIFT,
                "Measure longer, or warm up the lab before the trial." + _in_step(config),
                [
                    harm(number, largest / 2, largest / 2)
                    for number in times_of(context, sorted({what.rpartition(".")[0] for what in drifting}))
                ],
            )
        if not found and all(group.shape != "constant" for group in context.calm):
            return self.result(
                "VALID", "No group has a steady state: the load comes in stages or is a fixed amount of work."
            )
        if not found:
            return self.result("VALID", "There are too few observations to detect drift.")
        largest = max(abs(one.relative) for one in found.values())
        return self.result(
            "VALID",
            f"Steady: no rate or time drifts significantly by more than {show_percent(limits.DRIFT)}.",
            largest,
            limits.DRIFT,
        )


def _in_step(config: CaseConfig) -> str:
    """Name another cause of drift: users who once wait for one another are due together from then on, if they
    all think equally long."""
    marching = [group.name for group in config.groups if _thinks_alike(group)]
    if not marching:
        return ""
    return (
        f" Users of {' and '.join(marching)} all have the same think time and fall into step: a random "
        f"think_time of the same mean keeps them apart."
    )


def _thinks_alike(group: Group) -> bool:
    executor = group.executor
    return isinstance(executor, ConstantVus) and executor.vus > 1 and bool(executor.think_time.constant_ns)


_OF_WINDOW = ("success_rate", "error_rate", "response")


class _Carried(NamedTuple):
    """`all` requests were begun before the kept window and ended in it or after it; `failed` of them were not
    ok. `off`: by how much the window's success falls, in shares of one, where they are counted with it."""

    all: int
    failed: int
    off: float


class CarriedOver(Check):
    """WEAK or REFUSED, success and response of a closed loop, where its success falls by more than 5 or 20
    points once the requests under way as the kept window begins are counted with those due in it.

    4,000 users who wait for an answer until their timeout make no requests in a shorter window, and only the
    few who are answered would be counted. Arrivals of an open loop do not wait.
    """

    name = "carried-over"
    order = 26
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        closed = [view for view in context.groups if view.closed]
        if not closed:
            return self.result("VALID", "No closed loop carries requests into the kept window.")
        if not len(closed[0].intervals["due"]):
            return self.unmeasured("the warm-up cut leaves no kept window")
        before = Window(0, closed[0].window.first, closed[0].window.interval_ns)
        earlier = {view.name: view for view in look(trial, config, before)}
        found = {view.name: _carried(earlier[view.name], view) for view in closed}
        if not any(one.failed for one in found.values()):
            return self.result(
                "VALID", "No request from before the kept window failed in it.", 0.0, limits.CARRIED[1]
            )
        grades: dict[str, Grade] = {name: above(one.off, limits.CARRIED) for name, one in found.items()}
        name, most = max(found.items(), key=lambda one: one[1].off)
        text = f"{most.all:,} requests of {name} were in flight when the kept window began; {most.failed:,} of them failed"
        return self.result(
            grades[name],
            f"{text}. Counting them, its success rate is {rounded(100 * most.off, 3)} points lower."
            if most.off
            else f"{text}. Without them its success rate is no higher.",
            most.off,
            limits.CARRIED[1],
            "Measure for several times the timeout (measure.duration), or shorten the timeout, so that users without a "
            "response try again within the window.",
            [
                harm
                for owner, one in found.items()
                for harm in _harms(owner, one.off, grades[owner], context.metrics)
            ],
        )


def _harms(owner: str, off: float, grade: Grade, metrics: Mapping[str, Estimate]) -> Iterator[Harm]:
    """Return as bound how much too high the group's success may be, also where it is VALID: a criterion lies
    within it or not. An error rate of 0 has none: any share of 0 is 0."""
    success, errors = (metrics.get(f"{owner}.{name}") for name in ("success_rate", "error_rate"))
    if off and success is not None and success.value:
        yield Harm(number=f"{owner}.success_rate", grade=grade, below=off / success.value, above=0.0)
    if off and errors is not None and (errors.value or grade != "VALID"):
        above = off / errors.value if errors.value else None
        yield Harm(number=f"{owner}.error_rate", grade=grade, below=0.0, above=above)
    numbers = (f"{owner}.success_rate", f"{owner}.error_rate")
    yield from doubted(
        (
            number
            for number in metrics
            if number.startswith(f"{owner}.") and metric_name(number) in _OF_WINDOW and number not in numbers
        ),
        grade,
    )


def _carried(earlier: GroupView, kept: GroupView) -> _Carried:
    done = {outcome: int(earlier.intervals[f"completed_{outcome}"].sum()) for outcome in ("ok", "failed")}
    ok = max(earlier.ok - done["ok"], 0)
    failed = max(int(earlier.intervals["failed"].sum()) - done["failed"], 0)
    own = kept.ok + int(kept.intervals["failed"].sum())
    if not own or not failed:
        return _Carried(ok + failed, failed, 0.0)
    return _Carried(ok + failed, failed, max(kept.ok / own - (kept.ok + ok) / (own + ok + failed), 0.0))

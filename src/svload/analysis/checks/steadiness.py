"""Was the run long enough to settle, and does it drift over the kept window? (docs/method.md §1, §3)"""

from __future__ import annotations

from math import log

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, times_of
from svload.analysis.inference import bin_means
from svload.analysis.ranges import harm
from svload.analysis.series import Floats, backlog_grows, response_series
from svload.model.executors import ConstantVus
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.traffic import Group
from svload.model.units import show_percent
from svload.store import TrialData

_BINS = 30


class WarmUp(Check):
    """REFUSED if the median of the replicates' cuts is at half; WEAK for a trial with its own cut there.

    Where only the second half is left, and may still hold the end of a warm-up, each number of a trial may be
    as far off as the level at the start of that half is from the level at its end.
    """

    name = "warm-up"
    row = "warm-up cut"
    of = "any"
    order = 40
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Return the cut's own grade."""
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
    whichever is further from 1; 1 for fewer than 30 values."""
    if len(response) < _BINS:
        return 1.0
    level = bin_means(response, _BINS)
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
    row = "steady"
    of = "any"
    order = 41

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Return WEAK where a series drifts."""
        if any(backlog_grows(group) for group in context.calm):
            return self.result(
                "VALID", "The backlog grows: this drift concerns the server's verdict, not the instrument's."
            )
        found = context.drifts
        drifting = {what: one for what, one in found.items() if one.unsteady}
        if drifting:
            told = ", ".join(
                f"{what} {'rose' if one.relative > 0 else 'fell'} by {show_percent(abs(one.relative))} of its median"
                for what, one in drifting.items()
            )
            largest = max(abs(one.relative) for one in drifting.values())
            return self.result(
                "WEAK",
                f"During the load {told}.",
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
                "VALID",
                "No group has a steady state: the load comes in stages or is a fixed amount of work.",
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

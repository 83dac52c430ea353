"""How long the load's own threads could have run and had no core: the scheduler's figure over the
kept window (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.ranges import effect, worst_of
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import kept_window
from svload.analysis.who import in_moments
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class RunQueue(Check):
    """Waits of the load's threads for a core: what they delay is measured request by request, and in a closed loop
    it is load that was not made."""

    name = "run-queue"
    row = "run-queue wait of engine threads"
    order = 22

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The worst thread; its witness reads /proc/self/task/…/schedstat while it works."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        waited = of_monitor(trial.monitors, "generator", "run_queue_seconds_total")
        shares = {
            thread: rate
            for thread, series in waited.items()
            if (rate := mean_rate(series, window)) is not None
        }
        if not shares:
            return self.unmeasured("no witness read how long the load's threads waited for a core")
        thread, share = max(shares.items(), key=lambda one: one[1])
        harms = context.ranges.by_check.get(self.name, ())
        moments = context.ranges.found.of(self.name)
        who = in_moments(trial.monitors, moments)
        told = f"The load's threads waited for a core {percent(share)} of the time at most ({thread})"
        if moments:
            told += (
                f", above {percent(limits.RUN_QUEUE)} in "
                f"{percent(context.ranges.found.share(self.name, window))} of it. {effect(harms)}"
            )
        return self.result(
            worst_of(harms),
            told if moments else f"{told}.",
            share,
            limits.RUN_QUEUE,
            f"Give the load more cores or fewer generators, and end what else runs on "
            f"them{f' ({who})' if who else ''}; a server of your own belongs on other cores (taskset).",
            harms,
            who,
        )

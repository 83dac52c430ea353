"""How long the load's own threads could have run and had no core: the scheduler's figure over the kept window (METHOD §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, above, percent
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import kept_window
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class RunQueue(Check):
    """WEAK above 1 % of wall time, REFUSED above 5 %, for the thread that waited most."""

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
        grade = above(share, limits.RUN_QUEUE)
        return self.result(
            grade,
            f"The load's threads waited for a core {percent(share)} of the time at most ({thread}).",
            share,
            limits.RUN_QUEUE[1 if grade == "REFUSED" else 0],
            "Give the load more cores or fewer generators, and end what else runs on them; a server of your own belongs on other cores (taskset).",
        )

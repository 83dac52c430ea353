"""CPU of processes that are neither generators, servers nor monitors: whose, and how much (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.ranges import effect, worst_of
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import kept_window
from svload.analysis.who import User, busiest, in_moments
from svload.analysis.whose import called
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class OthersCpu(Check):
    """WEAK for the numbers that strangers can have put off by more than 5 %. svload's own processes
    and the kernel's threads (which work for the load) are left out; a server that ran already is known by the
    port it listens on. What others do on the load's own cores shows as run-queue wait, too.
    """

    name = "others-cpu"
    row = "CPU of processes that are neither generator, servers nor monitors"
    order = 51
    comparisons = "weight"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Their share, and who they are."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        total = of_monitor(trial.monitors, "others", "cpu_seconds_total").get("")
        used = None if total is None else mean_rate(total, window)
        cores = len(of_monitor(trial.monitors, "host", "busy_seconds_total"))
        if used is None or not cores:
            return self.unmeasured("no monitor told other processes' CPU apart")
        share = used / cores
        harms = context.ranges.by_check.get(self.name, ())
        moments = context.ranges.found.of(self.name)
        who = busiest(trial.monitors, [(window.low_ns, window.high_ns)])
        told = f"Other processes used {used:.2g} cores, {percent(share)} of the machine's {cores}"
        names = ", ".join(str(one) for one in who)
        return self.result(
            worst_of(harms),
            f"{told}{f': {names}' if who else ''}.{f' {effect(harms)}' if moments else ''}",
            share,
            limits.OTHERS_CPU,
            f"End or move what else runs here ({_named(who[0]) if who else 'see top'}), then run it again.",
            harms,
            in_moments(trial.monitors, moments),
        )


def _named(who: User) -> str:
    return f"{called(who.name)}, process {who.pid}"

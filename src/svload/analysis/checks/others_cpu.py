"""CPU of processes that are neither generators, servers nor monitors: whose, and how much (METHOD §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, above, percent
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import Window, kept_window
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData

_NAMED = 3


class OthersCpu(Check):
    """WEAK above 5 % of all cores' time in the kept window, REFUSED above 20 %.

    svload's own processes and the kernel's threads (which work for the load) are left out; a server that ran already is known by the
    port it listens on. The machine-wide figure is a mean: what others do on the load's own cores shows as run-queue wait.
    """

    name = "others-cpu"
    row = "CPU of processes that are neither generator, servers nor monitors"
    order = 51

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Their share, and who they are."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        total = of_monitor(trial.monitors, "others", "cpu_seconds_total").get("")
        used = None if total is None else mean_rate(total, window)
        cores = len(of_monitor(trial.monitors, "host", "busy_seconds_total"))
        if used is None or not cores:
            return self.unmeasured("no monitor told other processes' CPU apart")
        share = used / cores
        grade = above(share, limits.OTHERS_CPU)
        who = _who(trial, window)
        told = f"Other processes used {used:.2g} cores, {percent(share)} of the machine's {cores}"
        return self.result(
            grade,
            f"{told}: {', '.join(who)}." if who else f"{told}.",
            share,
            limits.OTHERS_CPU[1 if grade == "REFUSED" else 0],
            f"End or move what else runs here ({who[0].rpartition(' (')[0] if who else 'see top'}), then run it again.",
        )


def _who(trial: TrialData, window: Window) -> list[str]:
    """The processes that used most over the window, with their cores."""
    used = of_monitor(trial.monitors, "others", "cpu_seconds")
    sums = {}
    for process, series in used.items():
        inside = series.at > window.low_ns
        sums[process] = float(series.values[inside].sum())
    busiest = sorted(sums.items(), key=lambda one: one[1], reverse=True)[:_NAMED]
    return [
        f"{name} ({seconds:.2g} s of CPU, process {pid})"
        for (process, seconds) in busiest
        if seconds > 0
        for name, _, pid in [process.rpartition(" ")]
    ]

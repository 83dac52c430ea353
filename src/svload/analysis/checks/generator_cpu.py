"""Had the load's cores anything left? Its CPU without spinning, over the kept window (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import kept_window
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class GeneratorCpu(Check):
    """WEAK above 90 %: of one core for the busiest thread, or of all cores that the
    load has for the threads together."""

    name = "generator-cpu"
    row = "generator CPU without spinning"
    order = 23

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The fuller of the two."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        used = of_monitor(trial.monitors, "generator", "cpu_seconds_total")
        rates = {
            thread: rate for thread, series in used.items() if (rate := mean_rate(series, window)) is not None
        }
        if not rates:
            return self.unmeasured("no witness read the CPU of the load's threads")
        conditions = trial.lab.conditions
        cores = conditions.machine.load_cores if conditions and conditions.machine else None
        thread, busiest = max(rates.items(), key=lambda one: one[1])
        together = sum(rates.values())
        share = max(busiest, together / cores if cores else 0.0)
        told = (
            f"The load used {together:.2g} of {cores} cores"
            if cores
            else f"The load used {together:.2g} cores"
        )
        return self.result(
            "WEAK" if share > limits.GENERATOR_CPU else "VALID",
            f"{told}; its busiest thread {percent(busiest)} of one ({thread}).",
            share,
            limits.GENERATOR_CPU,
            "Use more generators on more cores, or ask for less load.",
        )

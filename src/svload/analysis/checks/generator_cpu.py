"""Had the load's cores anything left? Its CPU without spinning, over the kept window (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import Window, kept_window
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class LoadCpu(NamedTuple):
    """CPU of the load's threads over a window, in cores, without spinning."""

    together: float
    busiest: float
    thread: str
    cores: int | None

    @property
    def share(self) -> float:
        """The fuller of the two: the busiest thread of its core, or all of the cores that there are."""
        return max(self.busiest, self.together / self.cores if self.cores else 0.0)


def load_cpu(trial: TrialData, window: Window) -> LoadCpu | None:
    """None where no witness read it."""
    used = of_monitor(trial.monitors, "generator", "cpu_seconds_total")
    rates = {
        thread: rate for thread, series in used.items() if (rate := mean_rate(series, window)) is not None
    }
    if not rates:
        return None
    conditions = trial.lab.conditions
    cores = conditions.machine.load_cores if conditions and conditions.machine else None
    thread, busiest = max(rates.items(), key=lambda one: one[1])
    return LoadCpu(sum(rates.values()), busiest, thread, cores)


class GeneratorCpu(Check):
    """What the load used of its cores; what a full one did to times is measured request by request."""

    name = "generator-cpu"
    row = "generator CPU without spinning"
    order = 23

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The fuller of the two."""
        cpu = load_cpu(trial, kept_window(trial.summary, context.cut.cut_ns))
        if cpu is None:
            return self.unmeasured("no witness read the CPU of the load's threads")
        told = f"The load used {cpu.together:.2g} {f'of {cpu.cores} ' if cpu.cores else ''}cores"
        return self.result(
            "VALID",
            f"{told}; its busiest thread {percent(cpu.busiest)} of one ({cpu.thread}).",
            cpu.share,
            limits.GENERATOR_CPU,
        )

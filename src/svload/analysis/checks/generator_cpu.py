"""Did the load's cores have spare capacity, or was the load itself the limit of a closed loop? Then its
throughput is the generator's, not the server's (docs/method.md §3, §5)."""

from __future__ import annotations

from typing import NamedTuple

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, doubted
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import Window, kept_window
from svload.model.metrics import metric_name
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_percent
from svload.store import TrialData


class LoadCpu(NamedTuple):
    """CPU of the load's threads over a window, in cores, without spinning."""

    together: float
    busiest: float
    thread: str
    cores: int | None

    @property
    def share(self) -> float:
        """The larger of two shares: the busiest thread of its core, or all threads of the available cores."""
        return max(self.busiest, self.together / self.cores if self.cores else 0.0)


def load_cpu(trial: TrialData, window: Window) -> LoadCpu | None:
    """Return the load's CPU over the window; None where no witness read it."""
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


_RATES = ("throughput", "ok_throughput", "goodput")


class GeneratorCpu(Check):
    """REFUSED, throughput and goodput of closed loops, where the load's CPU is above 90 % and none of the
    servers' own limits was reached: users who wait for their own load send only what it can handle. Closed
    loops share the load's cores.

    The same applies where no limit of a server was read: then it is unknown which was the limit. How a
    full core affected times is measured request by request.
    """

    name = "generator-cpu"
    row = "generator CPU without spinning; generator as the limit of a closed loop"
    order = 23
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Judge the larger share: that of the busiest thread, or of all of the load's cores."""
        cpu = load_cpu(trial, kept_window(trial.summary, context.cut.cut_ns))
        if cpu is None:
            return self.unmeasured("nothing measured the CPU of the load's threads")
        cores = f"of {cpu.cores} " if cpu.cores else ""
        used = (
            f"The load used {cpu.together:.2g} {cores}cores; its busiest thread {show_percent(cpu.busiest)} of one "
            f"({cpu.thread})"
        )
        closed = [group.name for group in context.groups if group.closed]
        if cpu.share <= limits.GENERATOR_CPU or not closed:
            return self.result("VALID", f"{used}.", cpu.share, limits.GENERATOR_CPU)
        if context.at_limit:
            text = f"{used}, and a server reached a limit of its own: {context.at_limit[0]}."
            return self.result("VALID", text, cpu.share, limits.GENERATOR_CPU)
        heads = tuple(f"{name}." for name in closed)
        rates = [name for name in context.metrics if name.startswith(heads) and metric_name(name) in _RATES]
        known = "read" if context.at_limit is None else "reached"
        return self.result(
            "REFUSED",
            f"{used}, and no limit of a server's own was {known}: the throughput of {', '.join(closed)} is what the "
            "load bears, not the server.",
            cpu.share,
            limits.GENERATOR_CPU,
            "Use more generators on more cores, so that the server reaches a limit first.",
            doubted(rates, "REFUSED"),
        )

"""Was the load itself the limit of a closed loop? Then its throughput is the generator's, not the server's
(docs/method.md §3, §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, doubted, percent
from svload.analysis.checks.generator_cpu import load_cpu
from svload.analysis.view import kept_window
from svload.model.metrics import metric_name
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData

_RATES = ("throughput", "ok_throughput", "goodput")


class GeneratorFirst(Check):
    """REFUSED, throughput and goodput of closed loops, where the load's CPU is above 90 % and none of the servers' own
    limits was reached: users who wait for their own load ask no more than it bears.

    So it is where no limit of a server was read: nobody knows which of the two it was. What that did to times is
    measured request by request.
    """

    name = "generator-first"
    row = "generator as the limit of a closed loop"
    order = 24
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """All closed loops together: they share the load's cores."""
        closed = [group.name for group in context.groups if group.closed]
        if not closed:
            return self.result("VALID", "No closed loop waits for its own load: arrivals are planned.")
        cpu = load_cpu(trial, kept_window(trial.summary, context.cut.cut_ns))
        if cpu is None:
            return self.unmeasured("no witness read the CPU of the load's threads")
        if cpu.share <= limits.GENERATOR_CPU:
            return self.result(
                "VALID",
                f"The load had CPU left: it used {percent(cpu.share)}.",
                cpu.share,
                limits.GENERATOR_CPU,
            )
        used = f"The load used {percent(cpu.share)} of its CPU"
        if context.at_limit:
            return self.result(
                "VALID",
                f"{used}, and so did a server of what is its own: {context.at_limit[0]}.",
                cpu.share,
                limits.GENERATOR_CPU,
            )
        heads = tuple(f"{name}." for name in closed)
        rates = [name for name in context.metrics if name.startswith(heads) and metric_name(name) in _RATES]
        return self.result(
            "REFUSED",
            f"{used}, and no limit of a server's own was {'read' if context.at_limit is None else 'reached'}: the throughput of {', '.join(closed)} is what the load "
            "bears, not the server.",
            cpu.share,
            limits.GENERATOR_CPU,
            "Use more generators on more cores, so that a limit of the server is reached first.",
            doubted(rates, "REFUSED"),
        )

"""Could the clocks be trusted from before the load to after it: source, steps, suspension (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, doubted
from svload.model.conditions import Conditions
from svload.model.metrics import OF_FAULTS
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.store import TrialData

_MINUTE_NS = 60e9


class Clocks(Check):
    """REFUSED if the source is not a core's own counter or changed, wall and monotonic clock
    drifted apart, or the machine slept.

    A source that can't be read is not measured. The drift is allowed 1 ms a minute, a shorter trial 1 ms. A time is
    the difference of two stamps of one machine, so that no offset between machines is in it; what compares a stamp
    of a generator with one of a server (a fault's moment) is REFUSED where an offset is known to no better than 1 ms.
    """

    name = "clocks"
    row = "clock"
    order = 15

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """All that is wrong with them."""
        conditions = trial.lab.conditions
        if conditions is None:
            return self.unmeasured("the clocks were not read before and after the load")
        drift_ns, allowed_ns, slept_ns = clock_drifts(conditions)
        wrong = _source(conditions)
        if abs(drift_ns) > allowed_ns:
            wrong.append(
                (
                    f"wall and monotonic clock drifted apart by {show_duration(abs(drift_ns) / 1e9)}",
                    "Let no one set the clock during a run (time synchronisation by steps off).",
                )
            )
        if slept_ns > limits.CLOCK_DRIFT_NS_PER_MIN:
            wrong.append(
                (
                    f"the machine was suspended for {show_duration(slept_ns / 1e9)}",
                    "Switch suspension off, then run it again.",
                )
            )
        if wrong:
            told = "; ".join(sentence for sentence, _ in wrong)
            return self.result(
                "REFUSED",
                f"The clocks can't be trusted: {told}.",
                drift_ns / 1e9,
                allowed_ns / 1e9,
                wrong[0][1],
            )
        apart = max((one.bound_ns for one in conditions.clocks), default=0)
        of_two = [name for name in context.metrics if name.rpartition(".")[2] in OF_FAULTS]
        if apart > limits.CLOCK_OFFSET_NS and of_two:
            worst = max(conditions.clocks, key=lambda one: one.bound_ns)
            return self.result(
                "REFUSED",
                f"The clock of {worst.machine} is known to {show_duration(apart / 1e9)}, which is too little for "
                "what compares its stamps with a server's.",
                apart / 1e9,
                limits.CLOCK_OFFSET_NS / 1e9,
                "Let the machines reach each other at svload_port (svload fleet check), on a quieter link.",
                doubted(of_two, "REFUSED"),
            )
        source = conditions.after.clock_source
        if source is None or conditions.before.clock_source is None:
            return self.unmeasured("the kernel's clock source could not be read before and after the load")
        return self.result(
            "VALID",
            f"The clocks held: source {source}, wall against monotonic {show_duration(abs(drift_ns) / 1e9)} "
            f"off, no suspension{_known(conditions)}.",
            drift_ns / 1e9,
            allowed_ns / 1e9,
        )


def _known(conditions: Conditions) -> str:
    """How well the clocks of a fleet's machines are known, as a clause."""
    if not conditions.clocks:
        return ""
    worst_ns = max(one.bound_ns for one in conditions.clocks)
    count = len(conditions.clocks)
    return f"; {count} {'machine' if count == 1 else 'machines'} made the load, their clocks known to {show_duration(worst_ns / 1e9)}"


def clock_drifts(conditions: Conditions) -> tuple[int, float, int]:
    """(growth of wall − monotonic, how much is allowed, growth of boot time − monotonic: the time slept), all in ns."""
    before, after = conditions.before, conditions.after
    spent_ns = after.monotonic_ns - before.monotonic_ns
    drift_ns = (after.realtime_ns - before.realtime_ns) - spent_ns
    slept_ns = (after.boottime_ns - before.boottime_ns) - spent_ns
    return drift_ns, limits.CLOCK_DRIFT_NS_PER_MIN * max(spent_ns / _MINUTE_NS, 1.0), slept_ns


def _source(conditions: Conditions) -> list[tuple[str, str]]:
    first, last = conditions.before.clock_source, conditions.after.clock_source
    if first is None or last is None:
        return _unfit(first or last)
    if first != last:
        return [
            (
                f"the source changed from {first} to {last}",
                "Fix the clock source (kernel option clocksource=tsc).",
            )
        ]
    return _unfit(last)


def _unfit(source: str | None) -> list[tuple[str, str]]:
    if source is None or source in limits.CLOCK_SOURCES:
        return []
    known = " or ".join(limits.CLOCK_SOURCES)
    return [
        (f"the source is {source}, not {known}", "Choose the source tsc (kernel option clocksource=tsc).")
    ]

"""Could the clocks be trusted from before the load to after it: source, steps, suspension (docs/method.md §3)."""

from __future__ import annotations

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, doubted
from svload.analysis.ranges import harm, worst_of
from svload.model.conditions import Conditions
from svload.model.metrics import OF_FAULTS
from svload.model.results import CheckResult, Harm
from svload.model.study import CaseConfig
from svload.model.units import show_duration
from svload.store import TrialData

_NEGLIGIBLE = 0.001
"""A share of a number that is too small for a range."""


class Clocks(Check):
    """REFUSED if the machine slept, or the source changed. A wall clock that was set, or a coarse source,
    only widens the range of what it can shift.

    All timestamps are from the monotonic clock, which a step of the wall clock does not affect; the step
    still counts as a share of the load, since on some guests it indicates a clock that runs too fast. A time
    is the difference of two timestamps of one machine; what compares a generator's timestamp with a server's
    (a fault's moment) is REFUSED where the offset is known to no better than 1 ms.
    """

    name = "clocks"
    order = 15
    comparisons = "missing"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        conditions = trial.lab.conditions
        if conditions is None:
            return self.unmeasured("the clocks were not read before and after the load")
        drift_ns, spent_ns, slept_ns = clock_drifts(conditions)
        first, last = conditions.before.clock_source, conditions.after.clock_source
        if slept_ns > limits.SLEPT_NS:
            text = f"The machine was suspended for {show_duration(slept_ns / 1e9)}."
            return self.result("REFUSED", text, remedy="Disable suspend, then run again.")
        if first and last and first != last:
            text = f"The clock source changed from {first} to {last}."
            return self.result(
                "REFUSED", text, remedy="Fix the clock source (kernel option clocksource=tsc)."
            )
        apart = max((one.bound_ns for one in conditions.clocks), default=0)
        of_two = [name for name in context.metrics if name.rpartition(".")[2] in OF_FAULTS]
        if apart > limits.CLOCK_OFFSET_NS and of_two:
            worst = max(conditions.clocks, key=lambda one: one.bound_ns)
            return self.result(
                "REFUSED",
                f"The clock of {worst.machine} is known to {show_duration(apart / 1e9)}, which is too inaccurate "
                "for comparing its timestamps with a server's.",
                apart / 1e9,
                limits.CLOCK_OFFSET_NS / 1e9,
                "Open svload_port between the machines (svload fleet check), and use a quieter link.",
                doubted(of_two, "REFUSED"),
            )
        source = last or first
        if source is None:
            return self.unmeasured("the kernel's clock source could not be read before and after the load")
        share = abs(drift_ns) / max(spent_ns, 1)
        shifted = [harm("timing", share, share)] if share > _NEGLIGIBLE else []
        harms = [*shifted, *_coarse(source, context)]
        grade = worst_of(harms)
        word = "The clocks were stable" if grade == "VALID" else "The clocks distorted numbers"
        return self.result(
            grade,
            f"{word}: source {source}, wall against monotonic {show_duration(abs(drift_ns) / 1e9)} off, no "
            f"suspension{_known(conditions)}.",
            share,
            limits.OFF,
            "Use the source tsc (kernel option clocksource=tsc), and don't set the clock during a run.",
            harms,
        )


def _coarse(source: str, context: Context) -> list[Harm]:
    """Return what readings of this source add to, or take from, each time."""
    read_s = limits.CLOCK_READS_S.get(source, limits.COARSE_CLOCK_S)
    return [
        harm(name, min(read_s / estimate.value, 1.0), read_s / estimate.value)
        for name, estimate in (context.metrics.items() if read_s else ())
        if estimate.value
        and name.rpartition(".")[2][:1] in "pm"
        and ".response." in name
        and read_s / estimate.value > _NEGLIGIBLE
    ]


def _known(conditions: Conditions) -> str:
    """Return how accurately the clocks of a fleet's machines are known, as a clause."""
    if not conditions.clocks:
        return ""
    worst_ns = max(one.bound_ns for one in conditions.clocks)
    count = len(conditions.clocks)
    return f"; {count} {'machine' if count == 1 else 'machines'} made the load, their clocks known to {show_duration(worst_ns / 1e9)}"


def clock_drifts(conditions: Conditions) -> tuple[int, int, int]:
    """Return (growth of wall − monotonic, the time between the readings, growth of boot time − monotonic: the
    time slept), all in ns."""
    before, after = conditions.before, conditions.after
    spent_ns = after.monotonic_ns - before.monotonic_ns
    drift_ns = (after.realtime_ns - before.realtime_ns) - spent_ns
    slept_ns = (after.boottime_ns - before.boottime_ns) - spent_ns
    return drift_ns, spent_ns, slept_ns

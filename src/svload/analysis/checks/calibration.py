"""Was a core of the load as fast after the trial as before it? A fixed piece of work is timed at
both ends (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.ranges import harm, worst_of
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class Calibration(Check):
    """A range of the drift either way: a server bound by a disk, a link or a sleep is no slower for it."""

    name = "calibration"
    row = "fixed-work calibration loop before and after"
    order = 52

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """After over before, less one."""
        conditions = trial.lab.conditions
        if conditions is None or not conditions.before.calibration_ns or not conditions.after.calibration_ns:
            return self.unmeasured("no fixed work was timed before and after the load")
        drift = conditions.after.calibration_ns / conditions.before.calibration_ns - 1
        harms = [harm(self.scope, abs(drift), abs(drift))] if abs(drift) > limits.CALIBRATION else []
        word = "slower" if drift > 0 else "faster"
        return self.result(
            worst_of(harms),
            f"After the load a core was {percent(abs(drift))} {word} than before it.",
            drift,
            limits.CALIBRATION,
            "Fix the CPU's frequency (governor performance, no turbo), cool it, or let the lab warm up first.",
            harms,
        )

"""Was a core of the load as fast after the trial as before it? A fixed piece of work is timed at
both ends (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, above, percent
from svload.model.results import CheckResult, Harm
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class Calibration(Check):
    """WEAK where the work's time drifts by more than 3 %, REFUSED by more than 10 %, either way."""

    name = "calibration"
    row = "fixed-work calibration loop before and after"
    order = 52

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """After over before, less one."""
        conditions = trial.lab.conditions
        if conditions is None or not conditions.before.calibration_ns or not conditions.after.calibration_ns:
            return self.unmeasured("no fixed work was timed before and after the load")
        drift = conditions.after.calibration_ns / conditions.before.calibration_ns - 1
        grade = above(abs(drift), limits.CALIBRATION)
        word = "slower" if drift > 0 else "faster"
        return self.result(
            grade,
            f"After the load a core was {percent(abs(drift))} {word} than before it.",
            drift,
            limits.CALIBRATION[1 if grade == "REFUSED" else 0],
            "Fix the CPU's frequency (governor performance, no turbo), cool it, or let the lab warm up first.",
            [Harm(number=self.scope, grade=grade, below=abs(drift), above=abs(drift))]
            if grade != "VALID"
            else (),
        )

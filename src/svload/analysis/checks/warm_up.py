"""Was the run long enough to settle? The case's cut decides (docs/method.md §1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class WarmUp(Check):
    """REFUSED if the median of the replicates' cuts is at half; WEAK for a trial whose own cut is."""

    name = "warm-up"
    row = "warm-up cut"
    of = "any"
    order = 40
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The cut's own grade."""
        low, high = trial.summary.window_ns
        share = context.cut.cut_ns / max(high - low, 1)
        return self.result(
            context.cut.grade,
            context.cut.sentence,
            share,
            0.5,
            "Measure longer: at least double measure.duration.",
        )

"""A walk repeats no row before it has seen the whole table (docs/method.md §3, manipulation checks)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.analysis.view import first_feeder
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class Repeats(Check):
    """`take: walk` plans no early repeat; any is REFUSED. Other ways of taking rows plan repeats."""

    name = "repeats"
    row = "manipulation checks: repeats no more often than the plan states"
    order = 31
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Early repeats of each group that walks."""
        walks = {feeder.name for feeder in config.feeders if feeder.take == "walk"}
        walking = [group for group in context.groups if first_feeder(group.spec) in walks]
        repeats = {group.name: group.summary.early_repeats for group in walking}
        total = sum(repeats.values())
        if total:
            told = ", ".join(f"{name} {count:,} times" for name, count in repeats.items() if count)
            remedy = "This is a defect of the load engine or of the feeder: report it with this trial."
            return self.result(
                "REFUSED",
                f"Rows were asked again before the walk was over: {told}.",
                float(total),
                0.0,
                remedy,
            )
        if not walking:
            return self.result("VALID", "No feeder is walked in this case.", 0.0, 0.0)
        return self.result(
            "VALID",
            f"No row was asked again before the whole table was walked ({', '.join(repeats)}).",
            0.0,
            0.0,
        )

"""Names: none looked up within a load, and each server asked over one address family (METHOD §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class NameLookUp(Check):
    """WEAK if any group but `client: curl` looked a name up between due and done."""

    name = "name-look-up"
    row = "name look-up in the loop (of any group but client: curl)"
    order = 56

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """By the rows of groups that keep them; addresses are fixed before a load, so that histograms hold no look-up."""
        looked = {
            group.name: int((group.rows["lookup_ns"] > 0).sum())
            for group in context.groups
            if group.spec.client != "curl" and group.rows is not None
        }
        met = {name: count for name, count in looked.items() if count}
        if met:
            told = ", ".join(f"{name} {count:,} times" for name, count in met.items())
            return self.result(
                "WEAK",
                f"Names were looked up within the load: {told}.",
                float(sum(met.values())),
                0.0,
                "Name the server by its address.",
            )
        return self.result("VALID", "Every name was looked up before the load.", 0.0, 0.0)

"""Names: none looked up within a load, and each server asked over one address family (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svload.analysis.checks.base import Check, Context
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


LEAST_LOOK_UP_NS = 10_000
"""Reading an address that is known already takes less, asking the resolver more."""


class NameLookUp(Check):
    """WEAK if any group but `client: curl` looked a name up between due and done."""

    name = "name-look-up"
    row = "name look-up in the loop (of any group but client: curl)"
    order = 56

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """By the rows of groups that keep them; addresses are fixed before a load, so
        that histograms hold no look-up."""
        looked = {
            group.name: _looked_up(group.rows["lookup_ns"])
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


def _looked_up(spent_ns: NDArray[np.int64]) -> int:
    """How many new connections looked a name up: none where their median is no longer than reading what is known."""
    spent = spent_ns[spent_ns > 0]
    return len(spent) if len(spent) and float(np.median(spent)) >= LEAST_LOOK_UP_NS else 0

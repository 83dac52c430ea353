"""due = begun + waiting + dropped, and begun = ok + failed + in flight: exactly, in every group (METHOD §1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.model.results import CheckResult, GroupSummary
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class Identities(Check):
    """A request never disappears."""

    name = "identities"
    row = "identities of §1"
    order = 10

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """REFUSED where either identity is off by one request or more."""
        broken = [told for group in trial.summary.groups for told in _broken(group)]
        if broken:
            remedy = "This is a defect of the load engine: report it with this trial's summary.json."
            return self.result(
                "REFUSED",
                f"Requests vanished or were counted twice: {'; '.join(broken)}.",
                float(len(broken)),
                0.0,
                remedy,
            )
        due = sum(group.due for group in trial.summary.groups)
        return self.result(
            "VALID", f"All {due:,} requests that were due are accounted for, in both identities.", 0.0, 0.0
        )


def _broken(group: GroupSummary) -> list[str]:
    told = []
    if group.due != group.begun + group.waiting + group.dropped:
        told.append(
            f"{group.name}: {group.due} due, but {group.begun} begun + {group.waiting} waiting + {group.dropped} dropped"
        )
    if group.begun != group.ok + group.failed + group.in_flight:
        told.append(
            f"{group.name}: {group.begun} begun, but {group.ok} ok + {group.failed} failed + {group.in_flight} in flight"
        )
    return told

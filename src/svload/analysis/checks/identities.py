"""A request never disappears: due = begun + waiting + dropped, and begun = ok + failed + in flight, in
every group (docs/method.md §1).

These are tallies of one engine, which could lose a request in all of them at once. So an open loop's are held
against counters that share no code with them: arrivals by the plan's own arithmetic, ends by the records, and
what was left at the end by the gauge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from svload.analysis.arrivals import ROUNDING, planned
from svload.analysis.checks.base import Check, Context
from svload.analysis.view import GroupView
from svload.model.columns import HISTOGRAM_METRICS
from svload.model.results import CheckResult, GroupSummary
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class Identities(Check):
    """REFUSED where an identity is off by one request or more; by two where a plan's arithmetic may round otherwise."""

    name = "identities"
    row = "identities of §1"
    order = 10
    of_totals = True
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """All that does not add up."""
        broken = [told for group in trial.summary.groups for told in _broken(group)]
        plans = {view.name: planned(trial.summary, config, view) for view in context.groups}
        for view in context.groups:
            broken += _lost(trial, view, plans[view.name])
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
        checked = [name for name, plan in plans.items() if plan is not None]
        beside = f", and so are the arrivals planned for {', '.join(checked)}" if checked else ""
        return self.result(
            "VALID",
            f"All {due:,} requests that were due are accounted for, in both identities{beside}.",
            0.0,
            0.0,
        )


def _broken(group: GroupSummary) -> list[str]:
    told = []
    if group.due != group.begun + group.waiting + group.dropped:
        told.append(
            f"{group.name}: {group.due} due, but {group.begun} begun + {group.waiting} waiting + "
            f"{group.dropped} dropped"
        )
    if group.begun != group.ok + group.failed + group.in_flight:
        told.append(
            f"{group.name}: {group.begun} begun, but {group.ok} ok + {group.failed} failed + "
            f"{group.in_flight} in flight"
        )
    return told


def _lost(trial: TrialData, view: GroupView, plan: int | None) -> list[str]:
    """What an open loop's plan has more, or less, than its records and its gauge; nothing where the
    plan or the gauge is not known."""
    if plan is None or view.summary.left_at_end < 0:
        return []
    later = view.summary.due - view.iterations("due")
    ended, dropped = _recorded(trial, view.index)
    lost = plan + later - ended - dropped - view.summary.left_at_end
    if abs(lost) <= ROUNDING:
        return []
    what = f"{lost} are lost" if lost > 0 else f"{-lost} are too many"
    return [
        f"{view.name}: the plan has {plan + later} requests, but {ended} ended by the records + {dropped} were dropped "
        f"+ {view.summary.left_at_end} were left by the gauge: {what}"
    ]


def _recorded(trial: TrialData, group: int) -> tuple[int, int]:
    """(requests that ended, by the histograms of the whole load; arrivals dropped, by the intervals)."""
    ends = [HISTOGRAM_METRICS.index(name) for name in ("response", "failed_response")]
    histograms, intervals = trial.histograms, trial.intervals
    mine = (histograms["group"] == group) & np.isin(histograms["metric"], ends)
    return int(histograms["count"][mine].sum()), int(intervals["dropped"][intervals["group"] == group].sum())

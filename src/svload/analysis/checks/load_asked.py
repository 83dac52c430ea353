"""Was the load that was asked for really made? Open: arrivals begun or dropped; closed:
users active (docs/method.md §3).

An arrival that waits for a slot, to the load's end too, is the server's doing; one that a slot was free for
and that was not begun is ours.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.arrivals import ROUNDING, planned
from svload.analysis.checks.base import Check, Context, below, percent, worst
from svload.analysis.checks.little import begin_ns, planned_vu_ns
from svload.analysis.view import GroupView
from svload.model.executors import ClosedLoop, FixedWork, OpenLoop
from svload.model.results import CheckResult, Grade
from svload.model.study import CaseConfig
from svload.model.traffic import Group

if TYPE_CHECKING:
    from svload.store import TrialData


class LoadAsked(Check):
    """Share of the asked load that was made: limits 99.9 % and 99.5 % open, 99.9 % and 99 % closed."""

    name = "load-asked"
    row = "load asked, open and closed"
    order = 12
    of_totals = True
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The worst of the groups."""
        found = [self._group(trial, config, view) for view in context.groups]
        if not found:
            return self.result(
                "REFUSED", "There is no traffic group.", None, None, "Give the study a traffic group."
            )
        grade = worst(*(one[0] for one in found))
        told = [one for one in found if one[0] != "VALID"] or found
        return self.result(
            grade,
            f"{'; '.join(sentence for _, _, sentence in told)}.",
            min(share for _, share, _ in found),
            limits.LOAD_CLOSED[0],
            "Give the generator more cores or more generators, or ask for less load.",
        )

    def _group(self, trial: TrialData, config: CaseConfig, view: GroupView) -> tuple[Grade, float, str]:
        executor = view.spec.executor
        if isinstance(executor, FixedWork):
            begun, done = view.iterations("begun"), view.summary.plan_done
            share = min(begun / executor.work, 1.0) if done else 1.0
            why = "" if done else ", then the time was over"
            sentence = f"{view.name}: {begun:,} of {executor.work:,} iterations were made{why}"
            return below(share, limits.LOAD_CLOSED), share, sentence
        if isinstance(executor, ClosedLoop):
            planned = planned_vu_ns(config, view.spec, trial.summary.window_ns)
            share = min(view.summary.active_ns / planned, 1.0) if planned else 0.0
            sentence = (
                f"{view.name}: {percent(share, 5)} of the asked time of {executor.most_vus} users was active"
            )
            return below(share, limits.LOAD_CLOSED), share, sentence
        made, asked = _made_and_asked(trial, config, view)
        share = min(made / asked, 1.0) if asked else 0.0
        sentence = (
            f"{view.name}: {made:,.0f} of {asked:,.0f} arrivals with a slot free were begun or dropped "
            f"({percent(share, 5)})"
        )
        return below(share, limits.LOAD_OPEN), share, sentence


def _made_and_asked(trial: TrialData, config: CaseConfig, view: GroupView) -> tuple[float, float]:
    """Arrivals begun or dropped, and those due while slots were free: all that the plan has, less those that
    no slot was free for to the end."""
    summary = view.summary
    due, begun = view.iterations("due"), view.iterations("begun")
    waiting = due - begun - summary.dropped
    without_slot = max(waiting - summary.waiting_ready, 0)
    plan = planned(trial.summary, config, view)
    if plan is None:
        plan = max(due, floor(even_arrivals(config, view.spec, trial.summary.window_ns)))
    asked = due if abs(plan - due) <= ROUNDING else max(plan, due)
    return begun + summary.dropped, asked - without_slot


def even_arrivals(config: CaseConfig, group: Group, window_ns: tuple[int, int]) -> float:
    """Arrivals that the plan of an older trial has at least, whose seed is not known: less
    one for the phase; 0 if Poisson."""
    executor = group.executor
    if not isinstance(executor, OpenLoop) or executor.arrivals == "poisson":
        return 0.0
    return max(executor.arrivals_until(window_ns[1] - begin_ns(config, group)) - 1, 0.0)

"""Was the load that was asked for really made? Open: arrivals begun or dropped; closed: users active (METHOD §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, below, percent, worst
from svload.analysis.checks.little import begin_ns, planned_vu_ns
from svload.analysis.view import GroupView
from svload.model.results import CheckResult, Grade
from svload.model.study import CaseConfig
from svload.model.traffic import ClosedLoop, FixedWork, Group, OpenLoop

if TYPE_CHECKING:
    from svload.store import TrialData


class LoadAsked(Check):
    """Share of the asked load that was made: limits 99.9 % and 99.5 % open, 99.9 % and 99 % closed."""

    name = "load-asked"
    row = "load asked, open and closed"
    order = 12

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
        sentence = f"{view.name}: {made:,.0f} of {asked:,.0f} arrivals with a slot free were begun or dropped ({percent(share, 5)})"
        return below(share, limits.LOAD_OPEN), share, sentence


def _made_and_asked(trial: TrialData, config: CaseConfig, view: GroupView) -> tuple[float, float]:
    """Arrivals begun or dropped, and those due while slots were free: as counted, and for even arrivals as planned."""
    summary = view.summary
    made = view.iterations("begun") + summary.dropped
    waited = int(view.histogram("slot_wait")[1:].sum()) > 0
    asked = made if waited else view.iterations("due")
    planned = planned_arrivals(config, view.spec, trial.summary.window_ns)
    return made, max(asked, planned - summary.waiting if waited else planned)


def planned_arrivals(config: CaseConfig, group: Group, window_ns: tuple[int, int]) -> float:
    """Arrivals that the plan has from the group's start to the window's end, less one a generator for the phase; 0 if Poisson."""
    executor = group.executor
    if not isinstance(executor, OpenLoop) or executor.arrivals == "poisson":
        return 0.0
    return max(executor.arrivals_until(window_ns[1] - begin_ns(config, group)) - 1, 0.0)

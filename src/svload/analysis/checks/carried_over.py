"""Do a closed loop's requests of the kept window represent its users? A user who waits throughout the window
for a request begun before it makes no request in it (docs/method.md §3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, above, doubted
from svload.analysis.view import GroupView, Window, look
from svload.model.metrics import metric_name
from svload.model.results import CheckResult, Estimate, Grade, Harm
from svload.model.study import CaseConfig
from svload.store import TrialData

_OF_WINDOW = ("success_rate", "error_rate", "response")


class _Carried(NamedTuple):
    """`all` requests were begun before the kept window and ended in it or after it; `failed` of them were not
    ok. `off`: by how much the window's success falls, in shares of one, where they are counted with it."""

    all: int
    failed: int
    off: float


class CarriedOver(Check):
    """WEAK or REFUSED, success and response of a closed loop, where its success falls by more than 5 or 20
    points once the requests under way as the kept window begins are counted with those due in it.

    4,000 users who wait for an answer until their time-out make no requests in a shorter window, and only the
    few who are answered would be counted. Arrivals of an open loop do not wait.
    """

    name = "carried-over"
    row = "requests of a closed loop under way as the kept window begins"
    order = 26
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Judge each group separately; the worst is reported."""
        closed = [view for view in context.groups if view.closed]
        if not closed:
            return self.result("VALID", "No closed loop carries requests into the kept window.")
        if not len(closed[0].intervals["due"]):
            return self.unmeasured("the warm-up cut leaves no kept window")
        before = Window(0, closed[0].window.first, closed[0].window.interval_ns)
        earlier = {view.name: view for view in look(trial, config, before)}
        found = {view.name: _carried(earlier[view.name], view) for view in closed}
        if not any(one.failed for one in found.values()):
            return self.result(
                "VALID", "No request from before the kept window failed in it.", 0.0, limits.CARRIED[1]
            )
        grades: dict[str, Grade] = {name: above(one.off, limits.CARRIED) for name, one in found.items()}
        name, most = max(found.items(), key=lambda one: one[1].off)
        told = f"{most.all:,} requests of {name} were in flight when the kept window began; {most.failed:,} of them failed"
        return self.result(
            grades[name],
            f"{told}. Counting them, its success rate is {100 * most.off:.3g} points lower."
            if most.off
            else f"{told}. Without them its success rate is no higher.",
            most.off,
            limits.CARRIED[1],
            "Measure for several times the timeout (measure.duration), or shorten the timeout, so that users without a "
            "response try again within the window.",
            [
                harm
                for owner, one in found.items()
                for harm in _harms(owner, one.off, grades[owner], context.metrics)
            ],
        )


def _harms(owner: str, off: float, grade: Grade, metrics: Mapping[str, Estimate]) -> Iterator[Harm]:
    """Return as bound how much too high the group's success may be, also where it is VALID: a criterion lies
    within it or not. An error rate of 0 has none: any share of 0 is 0."""
    success, errors = (metrics.get(f"{owner}.{name}") for name in ("success_rate", "error_rate"))
    if off and success is not None and success.value:
        yield Harm(number=f"{owner}.success_rate", grade=grade, below=off / success.value, above=0.0)
    if off and errors is not None and (errors.value or grade != "VALID"):
        above = off / errors.value if errors.value else None
        yield Harm(number=f"{owner}.error_rate", grade=grade, below=0.0, above=above)
    told = (f"{owner}.success_rate", f"{owner}.error_rate")
    yield from doubted(
        (
            number
            for number in metrics
            if number.startswith(f"{owner}.") and metric_name(number) in _OF_WINDOW and number not in told
        ),
        grade,
    )


def _carried(earlier: GroupView, kept: GroupView) -> _Carried:
    done = {outcome: int(earlier.intervals[f"completed_{outcome}"].sum()) for outcome in ("ok", "failed")}
    ok = max(earlier.ok - done["ok"], 0)
    failed = max(int(earlier.intervals["failed"].sum()) - done["failed"], 0)
    own = kept.ok + int(kept.intervals["failed"].sum())
    if not own or not failed:
        return _Carried(ok + failed, failed, 0.0)
    return _Carried(ok + failed, failed, max(kept.ok / own - (kept.ok + ok) / (own + ok + failed), 0.0))

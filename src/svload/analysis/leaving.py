"""Numbers computed again without what was due in disturbed moments (docs/method.md §3, *Leaving out*)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svload.analysis import limits
from svload.analysis.belief import UNITED, Beliefs
from svload.analysis.checks.base import worst
from svload.analysis.counting import Bound, Counting
from svload.analysis.disturbances import Disturbance, Spans, spans, united
from svload.analysis.measures import GroupMeasures
from svload.analysis.view import GroupView
from svload.model.metrics import is_timing
from svload.model.results import Belief, Estimate

RESCUED = ("p50", "p90", "mean")
"""Statistics that may be: never a p99, nor a throughput."""


def leave_out(metrics: Mapping[str, Estimate], beliefs: Beliefs, counting: Counting) -> dict[str, Estimate]:
    """The same metrics; medians, p90 and means that disturbances alone REFUSE are computed
    again and WEAK, both values kept.

    What queued behind a disturbance is left out with it, if that is no more than 30 % of a group's requests, else
    who was due in it alone. What is still touched bounds the number, and may be too much of it.
    """
    found = dict(metrics)
    severe = [one for one in counting.found.moments if one.severe]
    moments = united(spans(severe, limits.AROUND_S * 1e9), counting.window)
    for whole in counting.groups if moments else ():
        for group in counting.with_steps(whole):
            wanted = _wanted(group.name, metrics, beliefs)
            left, share = _left(counting, whole, group, severe, moments) if wanted else (group, 0.0)
            if not 0 < share <= limits.LEFT_OUT:
                continue
            for number, metric, stat in wanted:
                population = GroupMeasures(left).population(metric)
                again = population.stats([stat])[stat] if population else None
                if again is not None and again.value is not None:
                    bound = counting.still_touched(whole, left, metric, stat)
                    if not _is_rescued(stat, bound):
                        continue
                    belief = _belief(number, metrics[number], beliefs, bound, share)
                    found[number] = again.model_copy(update={"belief": belief})
    return found


def _left(
    counting: Counting, whole: GroupView, group: GroupView, severe: Sequence[Disturbance], moments: Spans
) -> tuple[GroupView, float]:
    """(the group without them, which share of its requests they are): with all that queued behind them where that is few enough."""
    for some in (united([*moments, *counting.aftermath(whole, severe)], counting.window), moments):
        left = group.without(some)
        share = 1 - left.due / group.due if group.due else 0.0
        if share <= limits.LEFT_OUT:
            break
    return left, share


def _is_rescued(stat: str, bound: Bound) -> bool:
    """Not where what is still touched reaches beyond the quantile, or is more of a mean than a WEAK one may be off."""
    if stat == "mean":
        return bound.below is not None and bound.below <= limits.COUNTED[1]
    return None not in bound


def _wanted(head: str, metrics: Mapping[str, Estimate], beliefs: Beliefs) -> list[tuple[str, str, str]]:
    """(number, metric, statistic) of each of a group's numbers that may be rescued."""
    found = []
    for number, estimate in metrics.items():
        metric, _, stat = number.removeprefix(f"{head}.").partition(".")
        if not number.startswith(f"{head}.") or stat not in RESCUED or not is_timing(number):
            continue
        rest = beliefs.of(number, without=UNITED)
        if (
            estimate.grade == "REFUSED"
            and estimate.value is not None
            and (not rest or rest.grade != "REFUSED")
        ):
            found.append((number, metric, stat))
    return found


def _belief(number: str, before: Estimate, beliefs: Beliefs, bound: Bound, share: float) -> Belief:
    """WEAK at best. What is left of the disturbances bounds it, and a WEAK number is off by no more than its limit."""
    rest = beliefs.of(number, without=UNITED)
    most = limits.COUNTED[1]
    below, above = (most if one is None else min(one, most) for one in bound)
    return Belief(
        grade=worst("WEAK", rest.grade if rest else "VALID"),
        below=below + (rest.below or 0.0 if rest else 0.0),
        above=above + (rest.above or 0.0 if rest else 0.0),
        doubts=before.belief.doubts if before.belief else (),
        as_measured=before.value,
        left_out=share,
    )

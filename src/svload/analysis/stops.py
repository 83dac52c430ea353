"""Was the generator itself what delayed the first part of a run? Then that part is no
warm-up (docs/method.md §1, §3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from svload.analysis import limits
from svload.analysis.quantiles import bucket_middles
from svload.analysis.readings import Monitors, of_monitor
from svload.analysis.view import GroupView

Stops = Sequence[tuple[float, float]]
"""(offset in ns from the load's start at which it was told, length in ns) of each gap in which a
thread of the load could not run."""
NO_STOPS: Stops = ()


def stops_of(monitors: Monitors) -> Stops:
    """Every gap that the witnesses beside the load's threads saw; none where there was no witness."""
    gaps = of_monitor(monitors, "generator", "hiccup_seconds")
    return tuple(
        (float(at), 1e9 * float(gap)) for series in gaps.values() for at, gap in zip(*series, strict=True)
    )


def is_own_doing(groups: Iterable[GroupView], stops: Stops, cut_ns: int) -> bool:
    """Whether the generator's own doing is above the refused limit of its harm in the first `cut_ns` of the window.

    Open loop: the mean response over that without generator lag. Closed loop, where a generator that stands
    still makes nobody late but reads late: the longest gap over the part.
    """
    if cut_ns <= 0:
        return False
    groups = tuple(groups)
    if any(not group.closed and _lag_share(group, cut_ns) > limits.OWN_DOING for group in groups):
        return True
    low_ns = min((group.window.low_ns for group in groups), default=0)
    # A gap is told at the look after it: that less its length is the latest moment at which it can have begun.
    longest = max((gap for at, gap in stops if at > low_ns and at - gap < low_ns + cut_ns), default=0.0)
    return longest > limits.OWN_DOING * cut_ns


def _lag_share(group: GroupView, cut_ns: int) -> float:
    """Mean response over mean response without generator lag, less one, of the requests due in the part."""
    if group.rows is not None:
        part = group.rows["ok"] & (group.rows["due_ns"] < group.window.low_ns + cut_ns)
        spent_ns = float(group.rows["response_ns"][part].sum())
        lag_ns = float(group.rows["lag_ns"][part].sum())
    else:
        intervals = -(-cut_ns // group.window.interval_ns)
        spent_ns, lag_ns = (_sum_ns(group, name, intervals) for name in ("response", "generator_lag"))
    if lag_ns <= 0:
        return 0.0
    return lag_ns / (spent_ns - lag_ns) if spent_ns > lag_ns else float("inf")


def _sum_ns(group: GroupView, metric: str, intervals: int) -> float:
    at, bucket, count = group.entries(metric)
    part = at < intervals
    return float(np.dot(bucket_middles(bucket[part]), count[part]))

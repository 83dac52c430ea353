"""The warm-up of each side of a block before its first turn: alone, unmeasured, until it has settled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from svload.drive.generators import Load
from svload.drive.share.cut import group_seed
from svload.drive.share.timeline import Timeline, timeline
from svload.model.study import CaseConfig
from svload.run.trial import TrialRun

if TYPE_CHECKING:
    from svload.analysis.view import GroupView

STRETCHES_S = (2, 4, 8, 16)
"""Warm-up loads, one after the other until the side has settled; 30 s at most. The study's ramp precedes the
first."""
LOOKS = 3
"""The p99 is the lowest of this many parts of the settled load: a stall of the machine is not the
server's."""


class Warmed(NamedTuple):
    """What a side's warm-up showed after its own cut: its p99, requests per second, and connections."""

    p99_ns: float
    per_s: float
    connections: int
    took_ns: int
    settled: bool


def without_ramps(config: CaseConfig) -> CaseConfig:
    """Return the case with its full load from the start."""
    groups = tuple(group.without_ramp for group in config.groups)
    return config.model_copy(update={"groups": groups})


def warm_up(trial: TrialRun) -> Warmed:
    """Load a side alone until its own cut shows that it has settled. Raise Stopped, SvloadError."""
    config, took_ns = trial.config, 0
    with trial.phase("warm-up"):
        for number, seconds in enumerate(STRETCHES_S):
            times = timeline(config, round(seconds * 1e9))
            seed = group_seed(trial.plan.seed, "warm-up", number)
            load = trial.load_apart(trial.shares(config, times, seed))
            took_ns += times.end_ns
            found = _look(trial, load, times, took_ns)
            if found.settled:
                break
            config = without_ramps(config)
    return found


def _look(trial: TrialRun, load: Load, times: Timeline, took_ns: int) -> Warmed:
    from svload.analysis.series import own_cut  # numpy: after the load
    from svload.analysis.view import kept_window, look

    data = trial.data_of(load, times)
    for result in load.results:
        result.tables.unlink(missing_ok=True)
    cut = own_cut(look(data, trial.config, kept_window(data.summary)))
    window = kept_window(data.summary, cut.cut_ns)
    groups = look(data, trial.config, window)
    ended = sum(int((group.intervals["ok"] + group.intervals["failed"]).sum()) for group in groups)
    return Warmed(
        max((_p99_ns(group) for group in groups), default=0.0),
        ended / window.seconds if window.size else 0.0,
        _connections(groups),
        took_ns,
        not cut.at_half,
    )


def _p99_ns(group: GroupView) -> float:
    import numpy as np

    from svload.analysis.quantiles import ranked_values

    if group.rows is None:
        return 0.0
    took = group.rows["response_ns"][group.rows["done_ns"] >= 0]
    found = (ranked_values(part).quantile(0.99) for part in np.array_split(took, LOOKS) if len(part))
    return min((one for one in found if one is not None), default=0.0)


def _connections(groups: Iterable[GroupView]) -> int:
    import numpy as np

    return sum(len(np.unique(group.rows["connection"])) for group in groups if group.rows is not None)

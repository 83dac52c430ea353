"""The warm-up of each side of a block before its first turn: alone, unmeasured, until it has settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svload.drive.generators import Load
from svload.drive.share.cut import group_seed
from svload.drive.share.timeline import Timeline, timeline
from svload.model.study import CaseConfig
from svload.model.units import show_duration
from svload.run.drain import timed_out
from svload.run.trial import TrialRun

if TYPE_CHECKING:
    from svload.analysis.quantiles import Floats
    from svload.analysis.view import GroupView, Rows

STRETCHES_S = (2, 4, 8, 16)
"""Warm-up loads, one after the other until the side has settled; 30 s at most. The study's ramp precedes the
first."""
PARTS = 9
"""The p99 is the median of the p99s of up to this many parts of the settled load: a stall of the machine is
in few of them."""
HOLDS = 67
"""Requests in each part: of fewer, a p99 is only the largest."""
ENOUGH = 5 * HOLDS
"""Requests that tell a stall from a slow server: a short one is in two neighbouring parts at most."""

FAR = 2
"""A side whose p99 is this many times that of all others is warmed up once more."""


class Warmed(NamedTuple):
    """What a side's warm-up showed after its own cut: its p99, requests per second, and kept connections; how
    long it took, and how long until the side had settled (None: it never did)."""

    p99_ns: float
    per_s: float
    connections: int
    took_ns: int
    settled_ns: int | None


class _Seen(NamedTuple):
    """One warm-up load after its cut: the responses of each group in order of time, its requests per second,
    its kept connections, whether it had settled, and whether requests timed out and none was ok."""

    took_ns: tuple[Floats, ...]
    per_s: float
    connections: int
    settled: bool
    silent: bool = False


def without_ramps(config: CaseConfig) -> CaseConfig:
    """Return the case with its full load from the start."""
    groups = tuple(group.without_ramp for group in config.groups)
    return config.model_copy(update={"groups": groups})


def warm_up(trial: TrialRun, least: int = 0, check: Callable[[Warmed], object] | None = None) -> Warmed:
    """Load a side alone until its own cut shows that it has settled, and each of its groups has had `least`
    requests since then. `check` is called with what each of its loads has shown so far, unless the first one
    had not settled, and may raise. Raise Stopped, SvloadError."""
    config, took_ns = trial.config, 0
    kept: list[_Seen] = []
    settled_ns: int | None = None
    with trial.phase("warm-up"):
        for number, seconds in enumerate(STRETCHES_S):
            times = timeline(config, round(seconds * 1e9))
            seed = group_seed(trial.plan.seed, "warm-up", number)
            load = trial.load_apart(trial.shares(config, times, seed))
            took_ns += times.end_ns
            seen = _look(trial, load, times)
            kept = [*(one for one in kept if one.settled), seen]
            settled_ns = (settled_ns or took_ns) if seen.settled else None
            groups = [_joined(parts) for parts in zip(*(one.took_ns for one in kept), strict=True)]
            fewest = min(map(len, groups), default=0)
            if seen.silent:  # each further load would wait for its timeouts
                break
            if check is not None and (seen.settled or number):
                sure_ns = max(map(_sure_p99_ns, groups), default=0.0)
                check(Warmed(sure_ns, seen.per_s, seen.connections, took_ns, settled_ns))
            if seen.settled and fewest >= least:
                break
            config = without_ramps(config)
    text = f"{show_duration(took_ns / 1e9)} of warm-up"
    if seen.silent or not fewest:
        trial.notice(f"{trial.plan.case} answered none of its requests in {text}")
    elif settled_ns is None:
        trial.notice(f"{trial.plan.case} had not settled after {text}")
    if 0 < fewest < least and not seen.silent:
        trial.notice(
            f"{trial.plan.case}: {fewest} requests in {text} are too few to tell a stall from a slow server, "
            f"so the turns may be longer than necessary"
        )
    p99_ns = max(map(typical_p99_ns, groups), default=0.0)
    return Warmed(p99_ns, seen.per_s, seen.connections, took_ns, settled_ns)


def confirmed(found: Mapping[str, Warmed], again: Callable[[str], Warmed]) -> dict[str, Warmed]:
    """Return what the sides' warm-ups showed; for one with a far higher p99 than all others, the lower p99 of
    two warm-ups: a slow server is as slow `again`, but a stall of the machine hit one of them only."""
    *_, other, slowest = sorted(found, key=lambda side: found[side].p99_ns)
    first = found[slowest]
    if not 0 < FAR * found[other].p99_ns < first.p99_ns:
        return dict(found)
    second = again(slowest)
    p99_ns, took_ns = min(first.p99_ns, second.p99_ns), first.took_ns + second.took_ns
    return {**found, slowest: second._replace(p99_ns=p99_ns, took_ns=took_ns)}


def _look(trial: TrialRun, load: Load, times: Timeline) -> _Seen:
    from svload.analysis.series import own_cut  # numpy: after the load
    from svload.analysis.view import kept_window, look

    data = trial.data_of(load, times)
    for result in load.results:
        result.tables.unlink(missing_ok=True)
    cut = own_cut(look(data, trial.config, kept_window(data.summary)))
    window = kept_window(data.summary, cut.cut_ns)
    groups = look(data, trial.config, window)
    ended = sum(int((group.intervals["ok"] + group.intervals["failed"]).sum()) for group in groups)
    return _Seen(
        tuple(map(_took_ns, groups)),
        ended / window.seconds if window.size else 0.0,
        connections_kept(groups),
        not cut.at_half,
        timed_out(load.results) and not any(group.ok for group in data.summary.groups),
    )


def _took_ns(group: GroupView) -> Floats:
    import numpy as np

    if group.rows is None:
        return np.empty(0)
    return group.rows["response_ns"][group.rows["done_ns"] >= 0].astype(float)


def _joined(parts: Sequence[Floats]) -> Floats:
    import numpy as np

    return np.concatenate(parts)


def typical_p99_ns(took_ns: Floats) -> float:
    """Return the p99 of responses in order of time: the median of those of its parts. Parts with too few
    requests are joined; below three of them, it is the p99 of all."""
    import numpy as np

    from svload.analysis.quantiles import ranked_values

    parts = max(min(PARTS, len(took_ns) // HOLDS), 1)
    parts -= 1 - parts % 2
    found = (ranked_values(part).quantile(0.99) for part in np.array_split(took_ns, parts))
    return float(np.median([one or 0.0 for one in found]))


def _sure_p99_ns(took_ns: Floats) -> float:
    """Return a p99 that more requests will hardly lower: the median where they are too few for the p99 of
    parts."""
    import numpy as np

    few = 0 < len(took_ns) < 3 * HOLDS
    return float(np.median(took_ns)) if few else typical_p99_ns(took_ns)


def connections_kept(groups: Iterable[GroupView]) -> int:
    """Return how many connections that carried several requests, of which the first in a turn does not count,
    were in use at once, at most. One that replaces a closed one adds nothing."""
    return sum(_in_use(group.rows) for group in groups if group.rows is not None)


def _in_use(rows: Rows) -> int:
    import numpy as np

    from svload.analysis.claims.turns import over_shares

    _, which, times = np.unique(over_shares(rows, "connection"), return_inverse=True, return_counts=True)
    first = np.full(len(times), np.iinfo(np.int64).max)
    last = np.full(len(times), -1)
    np.minimum.at(first, which, rows["due_ns"])
    np.maximum.at(last, which, rows["done_ns"])
    first, last = np.sort(first[times > 1]), np.sort(last[times > 1])
    ended = np.searchsorted(last, first, "right")
    return int((np.arange(1, len(first) + 1) - ended).max(initial=0))

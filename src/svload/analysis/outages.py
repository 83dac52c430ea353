"""Outages of a server under load: when it went away, when it came back, and how much of the trial before
remains.

They are found in what clients saw, so that servers elsewhere are covered too: no request was answered for a
while, and connections were refused. A planned fault is not an outage.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from svload.analysis.recovery import disturbing
from svload.analysis.view import GroupView, Window, look
from svload.model.request_errors import ERRORS
from svload.model.request_hints import no_answer
from svload.model.results import Outage
from svload.model.study import CaseConfig
from svload.model.units import show_duration
from svload.store import TrialData

_LEAST_S = 0.5
"""A shorter absence of a server is a reset connection."""
_CONNECT = "connect_"
_WORDS = {
    "connect_refused": "connection refused",
    "connect_reset": "connection reset",
    "connect_timeout": "no answer to a connection",
    "connect_unreachable": "no route to it",
}
_OF_ALL = ("success_rate", "error_rate", "failed", "ok_share")


def outages_of(trial: TrialData, config: CaseConfig) -> tuple[Outage, ...]:
    """Return each outage that a group of the trial saw, in order of time."""
    if disturbing(trial) or trial.summary.imported is not None or not len(trial.intervals["interval"]):
        return ()
    if not any(name.startswith(_CONNECT) for group in trial.summary.groups for name in group.errors):
        return ()
    groups = look(trial, config, whole_window(trial))
    found = [one for group in groups for one in _of_group(group)]
    return tuple(sorted(found, key=lambda one: one.since_s))


def whole_window(trial: TrialData) -> Window:
    """Return all intervals of the trial in which a request was due, whether kept or not."""
    last = int(trial.intervals["interval"].max()) + 1
    return Window(0, last, trial.summary.interval_ns)


def healthy(trial: TrialData, outages: tuple[Outage, ...], *, before_any: bool = False) -> TrialData:
    """Return the trial with a window that ends where its server went away for good; `before_any`: where it
    first went away. Return all of it where the server was gone before the window."""
    ends = [one.since_s for one in outages if before_any or one.until_s is None]
    low_ns, high_ns = trial.summary.window_ns
    end_ns = reduce(min, (int(one * 1e9) for one in ends), high_ns)
    if not low_ns < end_ns < high_ns:
        return trial
    return replace(trial, summary=trial.summary.model_copy(update={"window_ns": (low_ns, end_ns)}))


def of_all_requests(name: str) -> bool:
    """Return whether a metric covers all requests, including those to the server while it was gone."""
    return name.rpartition(".")[2] in _OF_ALL


def _of_group(group: GroupView) -> list[Outage]:
    """Find stretches of intervals without an ok request, between or after intervals with one; or all
    intervals, where every connection was refused."""
    due, ok = group.intervals["due"], group.intervals["ok"]
    asked = np.flatnonzero(due)
    answered = np.flatnonzero(ok).tolist()
    if not len(asked) or (not answered and set(group.summary.errors) != {"connect_refused"}):
        return []
    edges = [*(answered or [int(asked[0]) - 1]), int(asked[-1]) + 1]
    found = []
    for before, after in pairwise(edges):
        failed = int((due - ok)[before + 1 : after].sum())
        long = (after - before - 1) * group.window.interval_ns / 1e9
        if not failed or long < _LEAST_S:
            continue
        span = (before + 1) * group.window.interval_ns, after * group.window.interval_ns
        errors, since_ns, until_ns = _errors(group, span)
        if errors is None:
            continue
        gone = after == edges[-1]
        found.append(_outage(group.name, since_ns / 1e9, None if gone else until_ns / 1e9, errors, failed))
    return found


def _errors(group: GroupView, span: tuple[int, int]) -> tuple[str | None, float, float]:
    """Return (the connection error of this span, its first failed request, its last one); None for the error
    where requests failed otherwise."""
    if group.rows is None:
        known = {name: count for name, count in group.summary.errors.items() if name.startswith(_CONNECT)}
        return max(known, key=lambda name: known[name], default=None), float(span[0]), float(span[1])
    due, ok = group.rows["due_ns"], group.rows["ok"]
    # Requests under way when the server went away were due earlier: the outage begins with the first.
    answered: NDArray[np.int64] = group.rows["done_ns"][ok & (due < span[0])]
    low = int(answered.max()) if len(answered) else span[0]
    inside = ~ok & (due >= min(low, span[0])) & (due < span[1]) & (group.rows["done_ns"] >= 0)
    names = [ERRORS[code] for code in group.rows["error"][inside]]
    connect = [name for name in names if name.startswith(_CONNECT)]
    if not connect or not all(map(no_answer, names)):
        return None, 0.0, 0.0
    error = max(set(connect), key=connect.count)
    return error, float(due[inside].min()), float(group.rows["done_ns"][inside].max())


def _outage(group: str, since_s: float, until_s: float | None, error: str, failed: int) -> Outage:
    words = _WORDS.get(error, error)
    if until_s is None:
        text = f"server gone since {_at(since_s)} ({words} until the end)"
    else:
        text = f"server gone from {_at(since_s)} to {_at(until_s)} ({words}), then back: it was started again"
    return Outage(
        group=group, since_s=since_s, until_s=until_s, error=error, failed=failed, sentence=f"{text}; {failed:,} requests failed."
    )  # fmt: skip


def _at(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else show_duration(seconds)

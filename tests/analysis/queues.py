"""A queue in virtual time as a trial, with and without disturbances: its truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.analysis.conftest import Bench, with_rows
from tests.evolve import evolve

from svload.analysis.measures import measure_trial
from svload.analysis.ranges import Ranges
from svload.analysis.view import kept_window, look
from svload.model.columns import bucket
from svload.model.metrics import CATALOGUE, MetricRef
from svload.model.results import Harm
from svload.model.study import CaseConfig
from svload.store import TrialData

Floats = NDArray[np.float64]
Stops = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Requests:
    """Offsets in s, in order of due time."""

    due: Floats
    done: Floats


def through(start_s: float, work_s: float, stops: Stops) -> float:
    """When work that begins at `start_s` ends, if nothing is done within the stops."""
    at = start_s
    for begin, end in stops:
        if end <= at:
            continue
        if at + work_s <= begin:
            break
        work_s -= max(begin - at, 0.0)
        at = end
    return at + work_s


def served(due: Floats, work: Floats, stops: Stops = ()) -> Requests:
    """One server, first come first served."""
    done, free = np.empty_like(due), 0.0
    for number, (arrival, need) in enumerate(zip(due.tolist(), work.tolist(), strict=True)):
        free = through(max(arrival, free), need, stops)
        done[number] = free
    return Requests(due, done)


def asked_by(users: int, work: Floats, think: Floats, stops: Stops = (), end_s: float = 60.0) -> Requests:
    """A closed loop of users who think, at one server; request i is the i-th that
    begins, with the i-th work and think."""
    import heapq

    ready = [(float(think[user]) * user / users, user) for user in range(users)]
    heapq.heapify(ready)
    due, done, free = [], [], 0.0
    counts = [0] * users
    while ready[0][0] < end_s:
        arrival, user = heapq.heappop(ready)
        number = (counts[user] * users + user) % len(work)
        counts[user] += 1
        free = through(max(arrival, free), float(work[number]), stops)
        due.append(arrival)
        done.append(free)
        heapq.heappush(ready, (free + float(think[number]), user))
    order = np.argsort(due, kind="stable")
    return Requests(np.array(due)[order], np.array(done)[order])


def as_trial(
    bench: Bench, made: Requests, end_s: float, *, rows: bool = True
) -> tuple[TrialData, CaseConfig]:
    """The requests as the one group of a trial, row by row or in histograms alone; nothing of it is disturbed yet."""
    base = bench.trial("TC0.r1")
    config = bench.config(base)
    config = evolve(config, groups=(config.groups[0],), thresholds=(), expects=())
    interval_ns = round(end_s * 1e9 / 600)
    due, done = (np.round(column * 1e9).astype(np.int64) for column in (made.due, made.done))
    n, size = len(due), int(done.max() // interval_ns) + 1
    summary = evolve(
        base.summary,
        window_ns=(0, round(end_s * 1e9)),
        interval_ns=interval_ns,
        groups=(evolve(base.summary.groups[0], due=n, begun=n, ok=n, think_ns=0),),
    )
    samples: dict[str, Any] = {
        name: np.zeros(n if rows else 0, dtype=base.samples[name].dtype) for name in base.samples
    }
    if rows:
        for name in ("due_ns", "ready_ns", "begun_ns", "written_ns"):
            samples[name] = due
        samples["first_byte_ns"] = samples["done_ns"] = done
        samples["read_lag_ns"] = np.full(n, -1)
    at, ended = due // interval_ns, done // interval_ns
    intervals: dict[str, Any] = {
        name: np.zeros(size, dtype=base.intervals[name].dtype) for name in base.intervals
    }
    intervals["interval"] = np.arange(size)
    for name in ("due", "begun", "ok"):
        intervals[name] = np.bincount(at, minlength=size)
    intervals["completed_ok"] = np.bincount(ended, minlength=size)
    intervals["response_sum_ns"] = np.bincount(at, weights=(done - due).astype(float), minlength=size)
    keys, counts = np.unique(
        at * 10_000 + np.array([bucket(one) for one in (done - due).tolist()]), return_counts=True
    )
    histograms: dict[str, Any] = {
        name: np.zeros(len(keys), dtype=base.histograms[name].dtype) for name in base.histograms
    }
    histograms |= {"interval": keys // 10_000, "bucket": keys % 10_000, "count": counts}
    monitors = {name: base.monitors[name][:0] for name in base.monitors}
    tables: dict[str, Any] = {"samples": samples, "intervals": intervals, "histograms": histograms}
    return replace(base, summary=summary, monitors=monitors, **tables), config


def with_gaps(trial: TrialData, gaps: Stops, metric: str = "gap_seconds") -> TrialData:
    """The trial with a reading for each gap: its end, and its length as the value."""
    rows = ((round(end * 1e9), "", "generator", "probe.0/0", metric, end - begin) for begin, end in gaps)
    return with_rows(trial, rows)


def ranged(
    trial: TrialData, config: CaseConfig, stats: Sequence[str] = ("p50", "p95", "mean")
) -> dict[str, Harm]:
    """What disturbances can have done to each number of the trial's one group."""
    window = kept_window(trial.summary)
    groups = look(trial, config, window)
    name = groups[0].name
    extra = [MetricRef(name, CATALOGUE["traffic", "response"], stat) for stat in stats]
    metrics = measure_trial(trial, config, window, extra, groups)
    found = Ranges(trial, config, window, groups, metrics).by_check
    return {one.number.removeprefix(f"{name}."): one for harms in found.values() for one in harms}

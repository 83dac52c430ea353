"""Trials of a simulated queue (virtual time), with and without disturbances, whose true values are known."""

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
from svload.model.results import Estimate, Harm
from svload.model.study import CaseConfig
from svload.store import TrialData

Floats = NDArray[np.float64]
Stops = Sequence[tuple[float, float]] | Floats


@dataclass(frozen=True)
class Requests:
    """Requests, with offsets in s, in order of due time."""

    due: Floats
    done: Floats


def as_trial(bench: Bench, made: Requests, end_s: float) -> tuple[TrialData, CaseConfig]:
    """Return a trial with these requests as its one group, in histograms, without readings."""
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
    empty = {
        table: {name: column[:0] for name, column in getattr(base, table).items()}
        for table in ("samples", "monitors")
    }
    return replace(base, summary=summary, intervals=intervals, histograms=histograms, **empty), config


def with_gaps(trial: TrialData, gaps: Stops, metric: str = "gap_seconds") -> TrialData:
    """Add a reading for each gap: its end, and its length as the value."""
    rows = ((round(end * 1e9), "", "generator", "probe.0/0", metric, end - begin) for begin, end in gaps)
    return with_rows(trial, rows)


Counter = tuple[Floats, Floats]
"""Moments in s, and what was counted up to each."""
NEVER: Counter = (np.zeros(1), np.zeros(1))


def counted(at: Floats, each: Floats) -> Counter:
    """Return the running totals at these moments."""
    order = np.argsort(at, kind="stable")
    return np.append(0.0, at[order]), np.append(0.0, np.cumsum(each[order]))


def within(spells: Stops) -> Counter:
    """Return the time within spells."""
    edges = np.append(0.0, np.ravel(np.asarray(spells)))
    return edges, np.cumsum(np.append(0.0, np.diff(edges) * (np.arange(len(edges) - 1) % 2)))


def read(
    trial: TrialData,
    end_s: float,
    *,
    others: Counter | None = NEVER,
    waits: Counter = NEVER,
    cpu: Counter = NEVER,
    stolen: Counter = NEVER,
    gaps: Stops = (),
) -> TrialData:
    """Add the readings of monitors of one core: CPU of strangers (None: unknown), waits and CPU of the
    backend, steal, and gaps of the load's thread."""
    counters = [
        ("", "host", "cpu0", "busy_seconds_total", cpu, 0.2),
        ("", "host", "cpu0", "steal_seconds_total", stolen, 0.2),
        ("backend", "switches", "", "run_queue_seconds_total", waits, 2.0),
        ("cache", "switches", "", "run_queue_seconds_total", NEVER, 2.0),
        ("backend", "process", "", "cpu_seconds_total", cpu, 0.2),
    ]
    counters += [("", "others", "", "cpu_seconds_total", others, 0.2)] if others else []
    rows = [
        (round(at * 1e9), *names, float(value))
        for *names, counter, every_s in counters
        for moments in [np.arange(0.0, end_s + every_s / 2, every_s)]
        for at, value in zip(moments, np.interp(moments, *counter), strict=True)
    ]
    found = with_rows(trial, rows)
    return with_gaps(found, gaps) if len(gaps) else found


def ranged(
    trial: TrialData, config: CaseConfig, stats: Sequence[str] = ("p50", "p95", "mean")
) -> dict[str, Harm]:
    """Return how far disturbances can have moved each number of the trial's one group."""
    metrics = measured(trial, config, stats)
    window = kept_window(trial.summary)
    groups = look(trial, config, window)
    found = Ranges(trial, config, window, groups, metrics).by_check
    return {one.number.removeprefix(f"{groups[0].name}."): one for harms in found.values() for one in harms}


def measured(trial: TrialData, config: CaseConfig, stats: Sequence[str]) -> dict[str, Estimate]:
    """Return every number of the trial by its full name."""
    name = config.groups[0].name
    extra = [MetricRef(name, CATALOGUE["traffic", "response"], stat) for stat in stats]
    return measure_trial(trial, config, kept_window(trial.summary), extra)

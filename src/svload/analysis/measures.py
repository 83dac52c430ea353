"""Every metric of a trial in its kept window: what the load saw, what the servers counted, what was really
requested.

Keys are those of the metric grammar (`group.metric.stat`, `service.metric`, `feeder.metric`); values are in
base units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.analysis.inference import autocorrelation_times, batch_edges, batch_means
from svload.analysis.monitored import monitored_measures
from svload.analysis.quantiles import NS, Ranked, bucket_middles, percentile, ranked_counts, ranked_values
from svload.analysis.readings import Series, readings_of, total_rate
from svload.analysis.recovery import WithLab, ended_services, recovery_measures
from svload.analysis.view import GroupView, Window, first_feeder, look, steps_of
from svload.model.executors import ClosedLoop
from svload.model.metrics import MetricRef, limit_of
from svload.model.results import Estimate
from svload.model.study import CaseConfig
from svload.model.units import show_percent
from svload.store import TrialData

Floats = NDArray[np.float64]
ALL_STAGES = "over all stages"
"""Label of a percentile, a mean or a rate that covers all of a load in stages."""
SHOWN = ("p50", "p90", "p95", "p99", "p99.9")
"""The percentiles that tables show."""
_STATS: Mapping[str, tuple[str, ...]] = {
    "response": (*SHOWN, "mean", "max"),
    "ok_response": (*SHOWN, "mean", "max"),
    "service": (*SHOWN, "mean", "max"),
    "server_time": ("p50", "p95", "p99", "mean"),
    "generator_lag": ("p50", "p99", "max"),
    "slot_wait": ("p50", "p99", "max"),
}
CURL: Mapping[str, str] = {
    "lookup": "lookup_ns",
    "connect": "connect_ns",
    "appconnect": "appconnect_ns",
    "pretransfer": "pretransfer_ns",
    "starttransfer": "",
    "redirect": "redirect_ns",
    "total": "",
    "request_size": "request_bytes",
    "header_size": "header_bytes",
    "body_size": "body_bytes",
}
"""Curl's variables of a `client: curl` group → the samples' column; `starttransfer` and `total` are
differences of timestamps."""
_HISTOGRAM = {"ok_response": "response"}
_OWN_RECORDS = ("server_time", "generator_lag", "slot_wait")
"""Metrics that only svload's own load records."""
_COUNTED = {"response": "ended", "generator_lag": "began", "slot_wait": "began"}
"""What the requests behind a metric did; those behind any other were ok."""
_UNKNOWN = Estimate(value=None, reason="the imported file does not hold it", why="not measured")
OF_GROUPS = ("connections", "bytes_received", "longest_silence")
"""Metrics of a group that a step of a scenario does not have."""


@dataclass(frozen=True)
class Population:
    """The values behind a percentile or a mean: their ranks, and their order in time as units (sum or
    exceedances over counts).

    `scale`: its units (ns, bytes) in a base unit. A mean covers only what ended.
    """

    ranked: Ranked
    exceedances: Callable[[Floats], tuple[Floats, Floats]]
    sums: Callable[[], tuple[Floats, Floats]]
    scale: float = NS

    def percentiles(self, stats: Iterable[str]) -> dict[str, Estimate]:
        """Return `p…` stats with intervals inside the run."""
        wanted = {stat: float(stat[1:]) / 100 for stat in stats}
        values = [self.ranked.quantile(p) for p in wanted.values()]
        known = np.array([np.inf if value is None else value for value in values])
        tau = autocorrelation_times(*self.exceedances(known)) if self.ranked.total else np.ones(len(known))
        return {
            stat: percentile(self.ranked, p, float(tau[at]), self.scale)
            for at, (stat, p) in enumerate(wanted.items())
        }

    def mean(self) -> Estimate:
        """Return the mean of what ended, with its interval by batch means. A failure counts as long as it
        took: how long a dropped or unfinished request would have taken is unknown."""
        sums, counts = self.sums()
        n = int(counts.sum())
        if not n:
            return Estimate(value=None, reason="no request is due in the kept window", why="no request")
        return _batched(sums, counts, 1 / self.scale, n)

    def extreme(self, stat: str) -> Estimate:
        """Return `min` or `max`; a failure ranks above all values."""
        ranked = self.ranked
        if not ranked.total:
            return Estimate(value=None, reason="no request is due in the kept window", why="no request")
        if not ranked.finite or (stat == "max" and ranked.finite < ranked.total):
            return Estimate(
                value=None,
                n=ranked.total,
                reason=f"> timeout ({show_percent(ranked.failed_share)} failed)",
                why="time-out",
            )
        return Estimate(value=float(ranked.values[0 if stat == "min" else -1]) / self.scale, n=ranked.total)

    def stats(self, wanted: Iterable[str]) -> dict[str, Estimate]:
        """Return all wanted stats by name."""
        wanted = tuple(wanted)
        found = self.percentiles(stat for stat in wanted if stat.startswith("p"))
        for stat in wanted:
            if stat == "mean":
                found[stat] = self.mean()
            elif stat in ("min", "max"):
                found[stat] = self.extreme(stat)
        return found


@dataclass(frozen=True)
class GroupMeasures:
    """One group's metrics; each population is built when first needed."""

    group: GroupView
    _known: dict[str, Population | None] = field(default_factory=dict, repr=False)

    def population(self, metric: str) -> Population | None:
        """Return the population of a time or size metric; None if this group does not record it."""
        if metric not in self._known:
            of = self._of_histogram if self.group.rows is None else self._of_rows
            self._known[metric] = of(metric)
        return self._known[metric]

    def _of_rows(self, metric: str) -> Population | None:
        rows = self.group.rows
        assert rows is not None
        if metric == "response":
            values, ended = np.where(rows["ok"], rows["response_ns"], np.inf), rows["done_ns"] >= 0
            times = rows["response_ns"][ended].astype(float)
            if self.group.stopped:
                values = values[ended]
                return _from_values(
                    values, len(values) + int(self.group.intervals["dropped"].sum()), ended=times
                )
            return _from_values(values, max(self.group.due, len(values)), ended=times)
        column = _row_values(rows, metric)
        if column is None or (metric in CURL and self.group.spec.client != "curl"):
            return None
        values, scale = column
        return _from_values(values, len(values), scale)

    def _of_histogram(self, metric: str) -> Population | None:
        if metric not in _STATS:
            return None
        name = _HISTOGRAM.get(metric, metric)
        counts = self.group.histogram(name)
        if metric != "response":
            return _from_histogram(self.group, name, counts)
        cells = self.group.intervals
        failed = np.maximum(cells["due"] - cells["ok"], 0).astype(float)
        if self.group.stopped:
            failed = (cells["failed"] + cells["dropped"]).astype(float)
        ended = cells["ok"] + cells["failed"]
        spent = cells["response_sum_ns"].astype(float), ended.astype(float)
        return _from_histogram(self.group, name, counts, failed, spent)

    def all(self, extra: Iterable[MetricRef] = ()) -> dict[str, Estimate]:
        """Return the metrics that tables show, and the extra ones asked for; keys without the group's
        name."""
        wanted: dict[str, list[str]] = {metric: list(stats) for metric, stats in _STATS.items()}
        if self.group.spec.client == "curl":
            wanted |= {metric: ["mean", "p50"] for metric in CURL}
        extra = tuple(extra)
        for ref in extra:
            if ref.stat and ref.stat not in wanted.setdefault(ref.metric.name, []):
                wanted[ref.metric.name].append(ref.stat)
        found: dict[str, Estimate] = {}
        for metric, stats in wanted.items():
            if self._is_unknown(metric):
                found |= {f"{metric}.{stat}": _UNKNOWN for stat in stats}
                continue
            population = self.population(metric)
            if population is not None:
                found |= {
                    f"{metric}.{stat}": self._of_none(metric, value)
                    for stat, value in population.stats(stats).items()
                }
        if self.group.shape == "ramping":
            found = {name: _of_all_stages(estimate) for name, estimate in found.items()}
        if self._totals_alone and (totals := self.population("response")):
            found["response.mean"] = totals.mean()
        else:
            found |= {name: self._rate(counts) for name, counts in within_limits(self.group, extra)}
        return found | self._scalars()

    @cached_property
    def _totals_alone(self) -> bool:
        """Measure imported totals over time: no single request's time is known."""
        group = self.group
        return group.imported and group.rows is None and group.ok > 0 and not group.counts.any()

    def _of_none(self, metric: str, estimate: Estimate) -> Estimate:
        """Return the estimate; one without a request says which ones are lacking, where others were due."""
        if estimate.why != "no request" or not self.group.due:
            return estimate
        return estimate.model_copy(update={"reason": f"no request {_COUNTED.get(metric, 'was ok')}"})

    def _is_unknown(self, metric: str) -> bool:
        return self.group.imported and (metric in _OWN_RECORDS or (self._totals_alone and metric in _STATS))

    def _scalars(self) -> dict[str, Estimate]:
        group, cells = self.group, self.group.intervals
        completed = cells["completed_ok"] + cells["completed_failed"]
        none = Estimate(value=None, reason="no request is due in the kept window", why="no request")
        due = group.due
        if group.stopped:  # requests then under way neither failed nor were ok
            due = group.ok + int((cells["failed"] + cells["dropped"]).sum())
        # Counted and not 1 − success, whose rounding puts an error rate at its limit beyond it.
        success, errors = (_exact(count / due, due) if due else none for count in (group.ok, due - group.ok))
        # Every load waits for its last answers: what is left was cut when the time of a search was over.
        cut = 0 if group.stopped else group.summary.in_flight
        return {
            "throughput": self._rate(completed),
            "ok_throughput": self._rate(cells["completed_ok"]),
            "success_rate": success,
            "error_rate": errors,
            "requests": _exact(group.summary.begun),
            "failed": _exact(group.summary.failed + cut),
            "dropped": _exact(group.summary.dropped),
            "connections": _exact(group.summary.connections_opened),
            "bytes_received": _exact(group.summary.bytes_received),
            "longest_silence": _exact(group.summary.longest_silence_ns / 1e9),
        }

    def _rate(self, per_interval: NDArray[np.int64]) -> Estimate:
        """Return events a second; for a fixed amount of work that was finished, until its last request."""
        group = self.group
        if group.shape == "finite" and group.summary.plan_done:
            seconds = (group.summary.last_done_ns - group.window.low_ns) / 1e9
            count = int(per_interval.sum())
            return (
                _exact(count / seconds, count)
                if seconds > 0
                else Estimate(value=None, reason="no request ended in the kept window", why="no request")
            )
        return _rate(per_interval, group.window)


def _of_all_stages(estimate: Estimate) -> Estimate:
    """Mark a number that covers this load as it was requested, ramps included, and no single level of it:
    those are separate (`stages_of`)."""
    if estimate.value is None or estimate.reason:
        return estimate
    return estimate.model_copy(update={"reason": ALL_STAGES})


def _row_values(rows: Mapping[str, NDArray[Any]], metric: str) -> tuple[Floats, float] | None:
    """Return (values in time order, their units in a base unit) of every metric but response: of ok requests,
    or of all that began for lag and wait."""
    ok, begun = rows["ok"], rows["begun_ns"] >= 0
    if metric in ("generator_lag", "slot_wait"):
        values = rows["lag_ns"] if metric == "generator_lag" else rows["ready_ns"] - rows["due_ns"]
        return values[begun].astype(float), NS
    if metric == "ok_response":
        return rows["response_ns"][ok].astype(float), NS
    stamps = {
        "service": ("begun_ns", "done_ns"),
        "total": ("begun_ns", "done_ns"),
        "server_time": ("written_ns", "first_byte_ns"),
        "starttransfer": ("begun_ns", "first_byte_ns"),
    }
    if metric in stamps:
        start, end = stamps[metric]
        # A dialogue that only sends is ok without a first byte.
        return (rows[end] - rows[start])[ok & (rows[end] >= 0)].astype(float), NS
    if metric not in CURL:
        return None
    return rows[CURL[metric]][ok].astype(float), 1.0 if metric.endswith("_size") else NS


def _from_values(values: Floats, total: int, scale: float = NS, ended: Floats | None = None) -> Population:
    """Build a population from values in time order; an infinite one is a failure, and `total` includes those
    without a row. A mean covers `ended`, or all values.

    Its units are the batches themselves: whole numbers of ns or requests, whose sums are exact.
    """
    of_mean = values if ended is None else ended

    def exceedances(at: Floats) -> tuple[Floats, Floats]:
        parts = _batches(values)
        finite = np.minimum(at, np.finfo(float).max)
        above = [[np.count_nonzero(part > value) for part in parts] for value in finite]
        return np.array(above, dtype=float).reshape(len(at), len(parts)), _sizes(parts)

    def sums() -> tuple[Floats, Floats]:
        parts = _batches(of_mean)
        return np.array([part.sum() for part in parts]), _sizes(parts)

    return Population(ranked_values(values[np.isfinite(values)], total), exceedances, sums, scale)


def _batches(values: Floats) -> list[Floats]:
    return np.split(values, batch_edges(len(values))[1:-1])


def _sizes(parts: list[Floats]) -> Floats:
    return np.array([len(part) for part in parts], dtype=float)


def _from_histogram(
    group: GroupView,
    name: str,
    counts: NDArray[np.int64],
    failed: Floats | None = None,
    spent: tuple[Floats, Floats] | None = None,
) -> Population:
    """Build a population by interval; `failed` rank above all, and a mean is what was `spent` over what
    ended, or covers all values."""
    at, bucket, count = group.entries(name)
    middle = bucket_middles(bucket)
    size = group.window.size
    above_all = np.zeros(size) if failed is None else failed
    finite = np.bincount(at, weights=count, minlength=size)
    n = finite + above_all

    def exceedances(values: Floats) -> tuple[Floats, Floats]:
        above = [
            np.bincount(at, weights=count * (middle > value), minlength=size) + above_all for value in values
        ]
        return np.array(above).reshape(len(values), size), n

    def sums() -> tuple[Floats, Floats]:
        of_all: Floats = np.bincount(at, weights=count * middle, minlength=size).astype(float)
        return spent or (of_all, finite.astype(float))

    return Population(ranked_counts(counts, int(counts.sum() + above_all.sum())), exceedances, sums)


def _rate(per_interval: NDArray[np.int64], window: Window) -> Estimate:
    """Return events per second of the window, interval by batch means."""
    if not window.size:
        return Estimate(value=None, reason="the kept window is empty", why="no request")
    return _batched(per_interval, None, 1e9 / window.interval_ns, int(per_interval.sum()))


def _batched(sums: NDArray[Any], counts: NDArray[Any] | None, scale: float, n: int) -> Estimate:
    found = batch_means(sums, counts)
    low, high = found.interval(scale)
    return Estimate(value=float(found.ratio[0]) * scale, low=low, high=high, n=n)


def _exact(value: float, n: int = 1) -> Estimate:
    return Estimate(value=float(value), n=n)


def counter_deltas(trial: WithLab, service: str) -> dict[str, float]:
    """Return what a service counted over the load: after − before, for the counters that it offers at both
    moments. None for a server that a fault ended."""
    if service in ended_services(trial):
        return {}
    before, after = trial.lab.before.get(service), trial.lab.after.get(service)
    if before is None or after is None:
        return {}
    return {name: value - before.values.get(name, 0.0) for name, value in after.values.items()}


def service_measures(trial: TrialData, service: str, window: Window) -> dict[str, Estimate]:
    """Return a service's counters over the load, and its CPU and memory in the window; what it does not offer
    is absent."""
    counted = counter_deltas(trial, service)
    names = ("requests", "hits", "misses", "connections", "tls_handshakes", "tls_resumed", "bytes_out")
    found = {name: _exact(counted[name]) for name in names if name in counted}
    if "hits" in counted and "misses" in counted:
        looked_up = counted["hits"] + counted["misses"]
        none = Estimate(value=None, reason="nothing was looked up in the cache", why="no looks-up")
        found["hit_ratio"] = _exact(counted["hits"] / looked_up, int(looked_up)) if looked_up > 0 else none
    cpu, memory = _processes(trial.monitors, service, window)
    if cpu is not None:
        found["cpu.mean"] = _exact(cpu)
    if memory is not None:
        found["memory.max"] = _exact(memory)
    return found


def _processes(
    monitors: Mapping[str, NDArray[Any]], service: str, window: Window
) -> tuple[float | None, float | None]:
    """Return (cores used on average, largest resident bytes) of a service's processes in the window, from the
    readings that enclose it."""
    readings = readings_of(monitors)
    memory = readings.whole(service, "process", "rss_bytes")
    return total_rate(readings.whole(service, "process", "cpu_seconds_total"), window), _largest_sum(
        memory, window
    )


def _largest_sum(processes: list[Series], window: Window) -> float | None:
    """Return the largest sum over processes; each process counts with its most recent reading."""
    moments = np.unique(np.concatenate([at for at, _ in processes])) if processes else np.zeros(0)
    inside = moments[(moments >= window.low_ns) & (moments < window.high_ns)]
    if not len(inside):
        return None
    return float(np.sum([one.standing(inside) for one in processes], axis=0).max())


def feeder_measures(trial: TrialData, config: CaseConfig, feeder: str) -> dict[str, Estimate]:
    """Return what was really requested of a feeder, over all groups that walk it first: repeats, distinct
    rows, the busiest row's share.

    A user's first request repeats nothing, so `repeated_share` is 1 where each user requests one row all the
    time; 0 where nobody requested a row twice. Independent draws repeat less than half of the rows in one
    round of the table.
    """
    specs = {group.name: group for group in config.groups}
    users = [
        (index, group)
        for index, group in enumerate(trial.summary.groups)
        if group.name in specs and first_feeder(specs[group.name]) == feeder
    ]
    if not users:
        return {}
    table = trial.rows
    mine = np.isin(table["group"], [index for index, _ in users])
    asked = (
        np.bincount(table["row"][mine].astype(np.int64), weights=table["asked"][mine])
        if mine.any()
        else np.zeros(0)
    )
    total = float(asked.sum())
    none = Estimate(value=None, reason="no row was requested", why="no request")
    repeats = sum(group.early_repeats for _, group in users)
    # Each user of a closed loop walks the rows; an open loop has none, and its arrivals walk as one.
    loops = [specs[group.name].executor for _, group in users]
    askers = sum(loop.most_vus if isinstance(loop, ClosedLoop) else 1 for loop in loops)
    again = max(int(total) - askers, 0)
    return {
        "early_repeats": _exact(repeats),
        "repeated_share": _exact(min(repeats / max(again, 1), 1.0), again) if total else none,
        "distinct": _exact(int(np.count_nonzero(asked))),
        "busiest_share": _exact(float(asked.max()) / total, int(total)) if total else none,
    }


def measure_trial(
    trial: TrialData,
    config: CaseConfig,
    window: Window,
    extra: Iterable[MetricRef] = (),
    groups: tuple[GroupView, ...] | None = None,
) -> dict[str, Estimate]:
    """Return all metrics of a trial by their full names; `extra` adds statistics that a study's criteria
    name."""
    extra = tuple(extra)
    found: dict[str, Estimate] = {}
    for whole in groups if groups is not None else look(trial, config, window):
        for group in (whole, *steps_of(trial, whole)):
            asked = [ref for ref in extra if ref.owner == group.name]
            measured = GroupMeasures(group).all(asked)
            measured |= recovery_measures(trial, group)
            found |= {
                f"{group.name}.{name}": value
                for name, value in measured.items()
                if group is whole or name not in OF_GROUPS
            }
    for service in config.services:
        found |= {
            f"{service.name}.{name}": value
            for name, value in service_measures(trial, service.name, window).items()
        }
    if asked_of_monitors := [ref for ref in extra if ref.metric.monitored]:
        found |= monitored_measures(trial.monitors, asked_of_monitors, window)
    for feeder in config.feeders:
        found |= {
            f"{feeder.name}.{name}": value
            for name, value in feeder_measures(trial, config, feeder.name).items()
        }
    return found


def within_limits(group: GroupView, refs: Iterable[MetricRef]) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield (the metric's name with its limit, the count in each interval of the window) for each metric that
    has a limit."""
    for ref in refs:
        if ref.limit_ns is not None:
            yield ref.name, _within(group, ref.limit_ns)


def due_within(group: GroupView, name: str) -> int:
    """Count, of a group's requests due in its window, the ok ones within the limit of a metric whose name
    includes it."""
    limit_ns = limit_of(name)
    return 0 if limit_ns is None else int(_within(group, limit_ns).sum())


def _within(group: GroupView, limit_ns: int) -> NDArray[np.int64]:
    """Count by due time: from rows to the nanosecond, from histograms by the middle of a bucket (± 0.8 % of
    the limit)."""
    window, rows = group.window, group.rows
    if rows is not None:
        kept = rows["ok"] & (rows["response_ns"] <= limit_ns)
        at = rows["due_ns"][kept] // window.interval_ns - window.first
        return np.bincount(at.astype(np.int64), minlength=window.size)
    at, bucket, count = group.entries("response")
    kept = bucket_middles(bucket) <= limit_ns
    return np.bincount(at[kept], weights=count[kept], minlength=window.size).astype(np.int64)

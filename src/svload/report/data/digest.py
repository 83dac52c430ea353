"""A sealed trial, reduced to what charts and tables need, so that a thousand trials fit in memory. Needs
numpy: import late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.analysis.quantiles import bucket_middles
from svload.analysis.view import kept_window
from svload.model.columns import HISTOGRAM_METRICS
from svload.model.facts import TrialLab
from svload.model.request_errors import ERRORS
from svload.model.results import GroupSummary, TrialSummary
from svload.model.stacks import Stacks
from svload.report.data.resources import BINS, Resource, Series, monitors_cpu, resources_of
from svload.store.load_time import responses_ns
from svload.store.parquet import TrialData

Floats = NDArray[np.float64]
SEGMENTS = (
    "waiting for a slot",
    "generator lag",
    "name lookup",
    "connect",
    "TLS handshake",
    "request",
    "server",
    "transfer",
)
"""The parts of a request from its intended start to its last byte, in order."""


@dataclass(frozen=True)
class Curve:
    """A distribution: ascending values in seconds, how many lie at or below each, and the total including all
    failures, which count as larger."""

    values_s: Floats
    at_or_below: NDArray[np.int64]
    total: int


@dataclass(frozen=True)
class SlowRequest:
    """One of a trial's slowest requests that have a row: when it was due, how long it took, its parts by
    `SEGMENTS`, and its outcome."""

    due_s: float
    response_s: float
    parts_s: dict[str, float]
    outcome: str


@dataclass(frozen=True)
class GroupDigest:
    """One traffic group of one trial. Curves are of the kept window; series of the whole trial.

    `anatomy_s` contains the mean seconds of each of `SEGMENTS`; they add up to the mean response of the ok
    requests.
    """

    summary: GroupSummary
    response: Curve
    service: Curve
    anatomy_s: dict[str, float]
    series: dict[str, Series]
    slow: tuple[SlowRequest, ...] = ()


@dataclass(frozen=True)
class TrialDigest:
    """One sealed trial. Offsets in seconds from the load's start; `kept_s` is the window after the warm-up cut."""

    name: str
    case: str
    started_wall: float
    end_s: float
    window_s: tuple[float, float]
    kept_s: tuple[float, float]
    groups: dict[str, GroupDigest]
    resources: dict[Resource, Series]
    monitors_cpu: float | None
    lab: TrialLab
    summary: TrialSummary
    stacks: Stacks | None = None


def digest_trial(data: TrialData, cut_ns: int) -> TrialDigest:
    """Return the trial with its case's warm-up cut. Raises SvloadError (run-damaged)."""
    summary = data.summary
    kept = kept_window(summary, cut_ns)
    end_ns = max(summary.window_ns[1], 1)
    groups = {}
    for index, group in enumerate(summary.groups):
        intervals = _of_group(data.intervals, index)
        histograms = _of_group(data.histograms, index)
        inside = (histograms["interval"] >= kept.first) & (histograms["interval"] < kept.last)
        due_inside = (intervals["interval"] >= kept.first) & (intervals["interval"] < kept.last)
        late = intervals["due"][due_inside].astype(np.int64) - intervals["ok"][due_inside]
        failed = int(np.maximum(late, 0).sum())
        groups[group.name] = GroupDigest(
            summary=group,
            response=_curve(histograms, inside, "response", failed),
            service=_curve(histograms, inside, "service", 0),
            anatomy_s=_anatomy(data, index, histograms, inside, (kept.low_ns, kept.high_ns)),
            series=_group_series(intervals, histograms, summary.interval_ns, end_ns, data.thinned),
            slow=_slow(data, index),
        )
    resources = resources_of(data.monitors, end_ns)
    return TrialDigest(
        name=summary.trial,
        case=summary.case,
        started_wall=summary.started_wall,
        end_s=end_ns / 1e9,
        window_s=(summary.window_ns[0] / 1e9, summary.window_ns[1] / 1e9),
        kept_s=(kept.low_ns / 1e9, kept.high_ns / 1e9),
        groups=groups,
        resources=resources,
        monitors_cpu=monitors_cpu(data.monitors),
        lab=data.lab,
        summary=summary,
        stacks=data.stacks,
    )


def _of_group(table: Mapping[str, NDArray[Any]], index: int) -> dict[str, NDArray[Any]]:
    mine = table["group"] == index
    return {name: table[name][mine] for name in table if name != "group"}


def _metric(histograms: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = histograms["metric"] == HISTOGRAM_METRICS.index(name)
    return found


def _curve(
    histograms: Mapping[str, NDArray[Any]], inside: NDArray[np.bool_], metric: str, failed: int
) -> Curve:
    mine = inside & _metric(histograms, metric)
    counts = np.bincount(histograms["bucket"][mine].astype(np.int64), weights=histograms["count"][mine])
    filled = np.flatnonzero(counts)
    at_or_below = np.cumsum(counts[filled]).astype(np.int64)
    finite = int(at_or_below[-1]) if len(filled) else 0
    return Curve(bucket_middles(filled) / 1e9, at_or_below, finite + failed)


def merged_curve(curves: list[Curve]) -> Curve:
    """Return the pooled distribution, for drawing only: histograms are merged, percentiles never are
    (docs/method.md §1)."""
    values = np.concatenate([curve.values_s for curve in curves]) if curves else np.zeros(0)
    counts = (
        np.concatenate([np.diff(curve.at_or_below, prepend=0) for curve in curves]) if curves else np.zeros(0)
    )
    merged, where = np.unique(values, return_inverse=True)
    summed = np.bincount(where, weights=counts, minlength=len(merged)) if len(merged) else np.zeros(0)
    return Curve(merged, np.cumsum(summed).astype(np.int64), sum(curve.total for curve in curves))


def _anatomy(
    data: TrialData,
    index: int,
    histograms: Mapping[str, NDArray[Any]],
    inside: NDArray[np.bool_],
    kept_ns: tuple[int, int],
) -> dict[str, float]:
    """Return the mean seconds of each segment over the ok requests of the kept window; from rows if there are
    any, else from histograms."""
    samples = data.samples
    mine = (samples["group"] == index) & (samples["due_ns"] >= kept_ns[0]) & (samples["due_ns"] < kept_ns[1])
    ok = mine & (samples["error"] == 0) & (samples["done_ns"] >= 0) & (samples["first_byte_ns"] >= 0)
    if ok.any():
        parts = _parts_ns({name: samples[name][ok].astype(np.float64) for name in _STAMPS})
        return {name: float(part.mean()) / 1e9 for name, part in parts.items()}
    return _anatomy_of_histograms(histograms, inside)


_STAMPS = (
    "due_ns", "ready_ns", "begun_ns", "first_byte_ns", "done_ns",
    "lookup_ns", "connect_ns", "appconnect_ns", "pretransfer_ns", "redirect_ns",
)  # fmt: skip


def _parts_ns(rows: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the nanoseconds of each of `SEGMENTS` in each row. Curl's variables lie on one axis from `begun`
    (docs/method.md §6); after redirects the time that they do not cover is attributed to the server."""
    lookup = rows["lookup_ns"]
    connect = np.maximum(rows["connect_ns"] - lookup, 0)
    reached = np.maximum(rows["connect_ns"], lookup)
    tls = np.maximum(rows["appconnect_ns"] - reached, 0)
    reached = np.maximum(rows["appconnect_ns"], reached)
    request = np.maximum(rows["pretransfer_ns"] - reached, 0)
    spent = lookup + connect + tls + request
    server = np.maximum(rows["first_byte_ns"] - rows["begun_ns"] - spent, 0)
    parts = (
        rows["ready_ns"] - rows["due_ns"],
        rows["begun_ns"] - rows["ready_ns"],
        lookup,
        connect,
        tls,
        request,
        server,
        rows["done_ns"] - rows["first_byte_ns"],
    )
    return dict(zip(SEGMENTS, parts, strict=True))


_SLOWEST = 12


def _slow(data: TrialData, index: int) -> tuple[SlowRequest, ...]:
    """Return the slowest finished requests of a group that have rows, failed ones too, slowest first."""
    samples = data.samples
    mine = np.flatnonzero((samples["group"] == index) & (samples["done_ns"] >= 0))
    took = responses_ns(samples)[mine]
    if len(took) > _SLOWEST:
        slow = np.flatnonzero(took >= np.partition(took, -_SLOWEST)[-_SLOWEST])
        mine, took = mine[slow], took[slow]
    chosen = mine[np.argsort(-took, kind="stable")[:_SLOWEST]]
    rows = {name: samples[name][chosen].astype(np.float64) for name in _STAMPS}
    begun, reached = rows["begun_ns"] >= 0, rows["first_byte_ns"] >= 0
    rows["first_byte_ns"] = np.where(reached, rows["first_byte_ns"], rows["done_ns"])
    parts = _parts_ns(rows)
    return tuple(
        SlowRequest(
            due_s=float(rows["due_ns"][at]) / 1e9,
            response_s=float(response) / 1e9,
            parts_s={name: float(part[at]) / 1e9 for name, part in parts.items()} if begun[at] else {},
            outcome=_outcome(int(samples["status"][row]), int(samples["error"][row])),
        )
        for at, (row, response) in enumerate(zip(chosen.tolist(), responses_ns(samples)[chosen], strict=True))
    )


def _outcome(status: int, error: int) -> str:
    texts = [f"status {status}"] if status else []
    texts += ["error " + error_name(error).replace("_", " ")] if error else []
    return ", ".join(texts) or "ok"


def _anatomy_of_histograms(
    histograms: Mapping[str, NDArray[Any]], inside: NDArray[np.bool_]
) -> dict[str, float]:
    def mean_s(metric: str) -> float:
        mine = inside & _metric(histograms, metric)
        counts = histograms["count"][mine]
        if not counts.sum():
            return 0.0
        return float((bucket_middles(histograms["bucket"][mine]) * counts).sum() / counts.sum()) / 1e9

    service, server = mean_s("service"), mean_s("server_time")
    if not service:
        return {}
    found = {
        "waiting for a slot": mean_s("slot_wait"),
        "generator lag": mean_s("generator_lag"),
        "server": min(server, service),
    }
    return found | {"transfer": max(service - server, 0.0)}


def _group_series(
    intervals: Mapping[str, NDArray[Any]],
    histograms: Mapping[str, NDArray[Any]],
    interval_ns: int,
    end_ns: int,
    thinned: bool,
) -> dict[str, Series]:
    """Return series by name, in at most `BINS` bins of whole intervals: due, throughput and failures (1/s),
    requests in flight or waiting at the end of each, and the slowest ok response (s) of the requests due
    then; p50 and p99 in bins that may be wider. A thin copy has responses in its own merged intervals."""
    whole = max(-(-end_ns // interval_ns), 1)
    per_bin = -(-whole // BINS)
    bins = -(-whole // per_bin)
    width_s = per_bin * interval_ns / 1e9
    at_s: Floats = (np.arange(bins, dtype=np.float64) + 0.5) * width_s
    left_s = np.minimum(width_s, end_ns / 1e9 - np.arange(bins, dtype=np.float64) * width_s)
    seconds: Floats = np.where(left_s > width_s / 4, left_s, np.nan)
    during = intervals["interval"] < whole  # the load's axis has no place for later ones
    at = intervals["interval"][during].astype(np.int64) // per_bin

    def total(*names: str) -> Floats:
        weights = sum((intervals[name][during].astype(np.float64) for name in names), np.zeros(len(at)))
        return np.asarray(np.bincount(at, weights=weights, minlength=bins)[:bins], dtype=np.float64)

    def responses(begins: NDArray[np.int64]) -> dict[str, Series]:
        return _responses_over_time(histograms, intervals, begins, bins * per_bin, interval_ns, end_ns)

    by_response = responses(np.arange(bins) * per_bin)
    if thinned:
        merged = histograms["interval"][_metric(histograms, "response")].astype(np.int64)
        of_merged = responses(np.unique([0, *merged[merged < whole]]))
        by_response |= {name: of_merged[name] for name in _LEAST_FOR}
    due, done = total("due"), total("completed_ok", "completed_failed")
    return {
        "due": Series(at_s, due / seconds),
        "throughput": Series(at_s, done / seconds),
        "failures": Series(at_s, total("completed_failed") / seconds),
        "under way": Series(at_s, np.cumsum(due - total("dropped") - done)),
        **by_response,
    }


_LEAST_FOR = {"p50": (0.5, 6), "p99": (0.99, 100)}
"""Quantile, and the number of requests that a bin needs to draw it."""


def _responses_over_time(
    histograms: Mapping[str, NDArray[Any]], intervals: Mapping[str, NDArray[Any]], edges: NDArray[np.int64],
    end: int, interval_ns: int, end_ns: int,
) -> dict[str, Series]:  # fmt: skip
    """Return p50 and p99 (failures count as slowest) in bins that are just wide enough to hold enough
    requests, and each bin's slowest ok response. A bin begins at each interval of `edges`, the last ends at
    `end`."""
    bins = len(edges)
    limits = np.append(edges, end) * (interval_ns / 1e9)
    at_s: Floats = (limits[:-1] + limits[1:]) / 2

    def bin_of(interval: NDArray[Any]) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(edges, interval.astype(np.int64), side="right") - 1)

    during = intervals["interval"] < end
    due = np.bincount(
        bin_of(intervals["interval"][during]),
        weights=intervals["due"][during].astype(np.float64),
        minlength=bins,
    ).astype(np.float64)
    mine = _metric(histograms, "response") & (histograms["interval"] < end)
    at = bin_of(histograms["interval"][mine])
    bucket = histograms["bucket"][mine].astype(np.int64)
    if not len(bucket):
        nothing = Series(at_s, np.full(bins, np.nan))
        return dict.fromkeys((*_LEAST_FOR, "slowest"), nothing)
    first, width = int(bucket.min()), int(bucket.max() - bucket.min()) + 1
    counts = np.bincount(
        at * width + bucket - first, weights=histograms["count"][mine], minlength=bins * width
    ).reshape(bins, width)
    found = {}
    for name, (p, least) in _LEAST_FOR.items():
        begins = _wide_enough(due, least)
        if name == "p99" and due.sum() < least:
            found[name] = Series(at_s, np.full(bins, np.nan))
            continue
        held, running = (
            np.add.reduceat(due, begins),
            np.cumsum(np.add.reduceat(counts, begins, axis=0), axis=1),
        )
        rank = np.maximum(np.ceil(p * held - 1e-9 * held), 1)
        column = (running < rank[:, None]).sum(axis=1)
        middle = bucket_middles(np.minimum(column, width - 1) + first) / 1e9
        values = np.where((column < width) & (held > 0), middle, np.nan)
        ends = np.append(begins[1:], bins) - 1
        if len(begins) == 1:  # a single value: a line from begin to end
            found[name] = Series(np.array([0.0, min(float(limits[-1]), end_ns / 1e9)]), np.repeat(values, 2))
        else:
            found[name] = Series((at_s[begins] + at_s[ends]) / 2, values)
    last = width - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)
    slowest = np.where(counts.sum(axis=1) > 0, bucket_middles(last + first) / 1e9, np.nan)
    return {**found, "slowest": Series(at_s, slowest)}


def _wide_enough(due: Floats, least: int) -> NDArray[np.int64]:
    """Return the first of each run of neighbouring bins that together hold `least` requests; the rest at the
    end joins the last run."""
    begins, held = [0], 0.0
    for at, count in enumerate(due.tolist()):
        if held >= least:
            begins.append(at)
            held = 0.0
        held += count
    if held < least and len(begins) > 1:
        begins.pop()
    return np.array(begins, dtype=np.int64)


def error_name(code: int) -> str:
    """Return the name of an error code; a code that this svload does not know stays a number."""
    return ERRORS[code] if 0 <= code < len(ERRORS) else f"error {code}"

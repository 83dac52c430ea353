"""The summary of one load's sealed (or stopped) trial, as `svload load` prints it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from svload.analysis.outages import healthy
from svload.analysis.quantiles import bucket_edges, bucket_middles
from svload.analysis.view import GroupView, kept_window, look
from svload.model.executors import OpenLoop
from svload.model.load_summary import (
    Bar,
    Connections,
    InstrumentVerdict,
    Lag,
    LoadSummary,
    RequestError,
    ServerVerdict,
    ThresholdVerdict,
    Times,
    WarmUp,
)
from svload.model.request_hints import HINTS
from svload.model.results import (
    Estimate,
    Grade,
    GroupSummary,
    ThresholdResult,
    TrialResult,
    TrialSummary,
    Why,
)
from svload.model.study import CaseConfig
from svload.model.units import show_duration
from svload.store import TrialData

BARS = 10
TIMES = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
LAGS = ("p50", "p99", "max")
_OTHERS = {"ok": "success_rate", "throughput_rps": "throughput", "longest_silence_ms": "longest_silence"}
"""Fields of the summary outside the tables of times → their metric."""
ENOUGH_CPU_S = 0.05
"""CPU time from which the cost of a request is known well enough to estimate what the generators could
make."""


def summarise_load(
    url: str,
    load: str,
    trial: TrialData,
    config: CaseConfig,
    result: TrialResult,
    thresholds: Sequence[ThresholdResult] = (),
) -> LoadSummary:
    """Summarise the one group of `trial` as judged in `result`. `load` is the load in words."""
    part = healthy(trial, result.outages)
    view = look(part, config, kept_window(part.summary, result.cut_ns))[0]
    group, window_s = view.summary, _window_s(trial.summary)
    stopped = trial.summary.stopped != "end"
    found = _Figures(group.name, result.metrics, _unanswered(group) / max(group.due, 1) if stopped else 0.0)
    response, ok_response, service = (found.times(name) for name in ("response", "ok_response", "service"))
    server_time = found.times("server_time")
    slot_wait, lag = found.lag("slot_wait"), found.lag("generator_lag")
    for path, metric in _OTHERS.items():
        found.grade(path, metric)
    begun_rps, throughput_rps = _rates(trial, part, config, view)
    return LoadSummary(
        url=url,
        load=load,
        model="closed loop" if view.closed else "open loop",
        interrupted=stopped,
        due=group.due,
        begun=group.begun,
        waiting=group.waiting,
        dropped=group.dropped,
        requests=group.ok + group.failed,
        ok=group.ok,
        failed=group.failed,
        in_flight=group.in_flight,
        errors=group.errors,
        error_hints=tuple(
            RequestError(name=name, count=count, hint=HINTS.get(name, ""))
            for name, count in sorted(group.errors.items(), key=lambda item: -item[1])
        ),
        status=group.status,
        failed_response_ms=_of_failed(view),
        stages=result.stages,
        gone=tuple(one.sentence for one in result.outages),
        duration_s=window_s,
        rate_asked_rps=None if view.closed else _per_s(view.due, view.window.seconds),
        begun_rps=begun_rps,
        throughput_rps=throughput_rps,
        bytes_sent=group.bytes_sent,
        bytes_received=group.bytes_received,
        response_ms=response,
        ok_response_ms=ok_response,
        service_ms=service,
        server_time_ms=server_time,
        slot_wait_ms=slot_wait,
        generator_lag_ms=lag,
        reasons=found.reasons,
        whys=found.whys,
        weak=tuple(found.weak),
        grades=found.grades,
        histogram=tuple(histogram_bars(view.histogram("response"))),
        warm_up=_warm_up(trial, config, result.cut_ns),
        longest_silence_ms=group.longest_silence_ns / 1e6,
        connections=Connections(
            opened=group.connections_opened, tls_full=group.tls_full, tls_resumed=group.tls_resumed
        ),
        cpu_s=sum(generator.cpu_ns for generator in trial.summary.generators) / 1e9,
        measurable_rps=_measurable(group, trial.summary),
        instrument=_instrument(result, _stopped(group, window_s, found) if stopped else ""),
        server=ServerVerdict(state=result.verdict.server, reasons=tuple(_server_reasons(result))),
        thresholds=tuple(
            ThresholdVerdict(
                that=one.that, outcome=one.outcome, measured=one.measured, sentence=f"{one.that} {one.told}"
            )
            for one in thresholds
        ),
    )


def _warm_up(trial: TrialData, config: CaseConfig, cut_ns: int) -> WarmUp | None:
    if cut_ns <= 0:
        return None
    whole, kept = kept_window(trial.summary), kept_window(trial.summary, cut_ns)
    at, bucket, _ = look(trial, config, whole)[0].entries("response")
    dropped = bucket[at < kept.first - whole.first]
    slowest_ns = bucket_middles(dropped).max() if len(dropped) else None
    return WarmUp(cut_s=cut_ns / 1e9, slowest_ms=None if slowest_ns is None else float(slowest_ns) / 1e6)


def _of_failed(view: GroupView) -> Lag | None:
    """Return how long the failed requests took; nearest rank, from buckets where no rows are kept."""
    if view.rows is None:
        counts = view.histogram("failed_response")
        filled = np.flatnonzero(counts)
        took, up_to = bucket_middles(filled) / 1e6, np.cumsum(counts[filled])
    else:
        took = np.sort(view.rows["response_ns"][~view.rows["ok"] & (view.rows["done_ns"] >= 0)]) / 1e6
        up_to = np.arange(1, len(took) + 1)
    if not len(took):
        return None
    p50, p99 = (float(took[np.searchsorted(up_to, ceil(p * up_to[-1]))]) for p in (0.5, 0.99))
    return Lag(p50=p50, p99=p99, max=float(took[-1]))


class _Figures:
    """The group's times in ms, why some are null, and how far the others may be believed. `unanswered` is the
    share of requests without a time because the load was stopped: a percentile among them is not known."""

    def __init__(self, group: str, metrics: Mapping[str, Estimate], unanswered: float) -> None:
        self.group, self.metrics, self.unanswered = group, metrics, unanswered
        self.unknown: list[str] = []
        self.reasons: dict[str, str] = {}
        self.whys: dict[str, Why] = {}
        self.weak: list[str] = []
        self.grades: dict[str, Grade] = {}

    def times(self, metric: str) -> Times:
        return Times(**{stat.replace(".", "_"): self._ms(metric, stat) for stat in TIMES})

    def lag(self, metric: str) -> Lag:
        return Lag(**{stat: self._ms(metric, stat) for stat in LAGS})

    def _ms(self, metric: str, stat: str) -> float | None:
        estimate = self.metrics.get(f"{self.group}.{metric}.{stat}")
        if estimate is None:
            return None
        path = f"{metric}_ms.{stat}"
        if estimate.value is None:
            self.reasons[path] = estimate.reason
            self.whys[path] = estimate.why
            return None
        if estimate.weak:
            self.weak.append(path)
        if estimate.why == "grows":
            self.whys[path] = estimate.why
        self.grade(path, f"{metric}.{stat}")
        if not metric.endswith(("wait", "lag")) and self.unanswered > _beyond(stat):
            self.grades[path] = "REFUSED"
            self.unknown.append(path)
        return estimate.value * 1e3

    def grade(self, path: str, metric: str) -> None:
        """Note the grade of the metric's number at this path, if it is not simply VALID."""
        estimate = self.metrics.get(f"{self.group}.{metric}")
        grade: Grade = estimate.grade if estimate is not None else "VALID"
        if grade != "VALID":
            self.grades[path] = grade


def _beyond(stat: str) -> float:
    """Return the share of requests beyond a percentile; 1 for any other statistic."""
    if stat == "max":
        return 0.0
    return 1 - float(stat[1:]) / 100 if stat[:1] == "p" else 1.0


def histogram_bars(counts: NDArray[np.int64], bars: int = BARS) -> Iterator[Bar]:
    """Group counts by bucket into at most `bars` bars whose bounds grow by a constant factor, from the least
    value's bucket to the largest's."""
    filled = np.flatnonzero(counts)
    if not len(filled):
        return
    low, high = bucket_edges(filled[[0, -1]])
    first, last = max(float(low[0]), 1.0), max(float(high[1]), 2.0)
    edges = np.geomspace(first, last, bars + 1)
    at = np.clip(np.searchsorted(edges, bucket_middles(filled), side="right") - 1, 0, bars - 1)
    sums = np.bincount(at, weights=counts[filled], minlength=bars).astype(int)
    for number, count in enumerate(sums):
        yield Bar(from_ms=edges[number] / 1e6, to_ms=edges[number + 1] / 1e6, count=int(count))


def _window_s(summary: TrialSummary) -> float:
    """Return the measured time in s; a fixed amount of work ends with its last answer."""
    group, (begin_ns, end_ns) = summary.groups[0], summary.window_ns
    done = group.plan_done and group.last_done_ns > begin_ns
    return ((group.last_done_ns if done else end_ns) - begin_ns) / 1e9


def _per_s(count: int, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None


def _rates(
    trial: TrialData, part: TrialData, config: CaseConfig, view: GroupView
) -> tuple[float | None, float | None]:
    """Return the requests begun and completed a second; where `part` ends with the loss of the server, those
    of the time before."""
    if part is trial:
        window_s = _window_s(trial.summary)
        completed = view.summary.completed_in_window
        return _per_s(_begun_in_window(view), window_s), _per_s(completed, window_s)
    before = look(part, config, kept_window(part.summary))[0]
    begun, *completed_by = (
        int(before.intervals[name].sum()) for name in ("begun", "completed_ok", "completed_failed")
    )
    return _per_s(begun, before.window.seconds), _per_s(sum(completed_by), before.window.seconds)


def _begun_in_window(view: GroupView) -> int:
    """Return the requests sent before the load's end. Those that waited for a slot until then were sent as it
    drained: no more than one for each slot was in flight at the end."""
    executor, group = view.spec.executor, view.summary
    slots = executor.max_vus if isinstance(executor, OpenLoop) else None
    return group.begun if slots is None else min(group.begun, group.completed_in_window + slots)


def _measurable(group: GroupSummary, summary: TrialSummary) -> float | None:
    """Return the requests a second that the same generators could make with their threads busy all the
    time."""
    cpu_s = sum(generator.cpu_ns for generator in summary.generators) / 1e9
    if cpu_s < ENOUGH_CPU_S or not group.ok:
        return None
    return group.written / cpu_s * len(summary.generators)


def _instrument(result: TrialResult, stopped: str) -> InstrumentVerdict:
    """Return the verdict on the numbers; `stopped` is the sentence about a load that the user stopped, if it
    was."""
    verdict = result.verdict
    wrong = [check.sentence for check in verdict.checks if check.grade != "VALID"]
    reasons = tuple(reason for reason in verdict.reasons if reason in wrong)
    if not stopped:
        return InstrumentVerdict(grade=verdict.instrument, reasons=reasons, remedy=verdict.remedy)
    grade: Grade = "WEAK" if verdict.instrument == "VALID" else verdict.instrument
    return InstrumentVerdict(grade=grade, reasons=(stopped, *reasons), remedy=verdict.remedy)


def _unanswered(group: GroupSummary) -> int:
    return group.in_flight + group.waiting


def _stopped(group: GroupSummary, window_s: float, found: _Figures) -> str:
    sentence = f"Stopped early, after {show_duration(window_s)}; the numbers cover that time"
    unknown = [stat for stat in TIMES if f"response_ms.{stat}" in found.unknown]
    if not unknown:
        return f"{sentence}."
    which = "max is" if unknown[0] == "max" else f"{unknown[0]} and above are"
    had = "1 request" if _unanswered(group) == 1 else f"{_unanswered(group):,} requests"
    return f"{sentence}. {had} had no response yet, so {which} unknown."


def _server_reasons(result: TrialResult) -> list[str]:
    checks = {check.sentence for check in result.verdict.checks}
    return [reason for reason in result.verdict.reasons if reason not in checks]

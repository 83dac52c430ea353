"""A run as OpenMetrics text, for Prometheus and all that reads its format.

A finished run exports its judged metrics. Of a running one only its journals are read: judging it would load
the machine that is measuring.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from svload.model.events import Event
from svload.model.metrics import CATALOGUE, Source, without_limit
from svload.model.results import Findings
from svload.model.units import Dimension
from svload.report.wording.numbers import Numbers
from svload.report.wording.spelling import dimension_of, services_of, split_metric
from svload.store.journal import read_events
from svload.store.layout import RunDir

_UNITS: Mapping[Dimension, str] = {
    "time_s": "seconds",
    "size_bytes": "bytes",
    "ratio": "ratio",
    "rate_rps": "per_second",
    "count": "",
}
_GRADES = ("VALID", "WEAK", "REFUSED")
_STATES = ("STEADY", "SATURATED", "OVERLOADED", "UNKNOWN")
_BOUNDS = ("value", "low", "high")
_PASSED = {"pass": True, "passed": True, "fail": False, "failed": False}
_COUNTED = ("due", "begun", "ok", "failed")


def openmetrics(run: RunDir, findings: Findings | None, stamps: bool = False) -> str:
    """Return the exposition text, with `# EOF`. `findings` None: the run is still running, its verdicts are
    provisional.

    With `stamps` every sample has its Unix time, for backfilling into a time series database; without, the
    reader's clock counts. Raises SvloadError for a run that cannot be read.
    """
    exposition = _Exposition(run, findings, stamps)
    text: bytes = generate_latest(exposition)  # type: ignore[no-untyped-call]
    return text.decode("utf-8")


class _Exposition(CollectorRegistry):
    """The run's metric families in order; a registry only because the writer requires one."""

    def __init__(self, run: RunDir, findings: Findings | None, stamps: bool) -> None:
        super().__init__(auto_describe=False)
        self._run, self._findings = run, findings
        self._events = read_events(run.events).events
        last = self._events[-1].wall if self._events else None
        self._stamps, self._now = stamps, last if stamps else None

    def collect(self) -> Iterator[Metric]:
        yield from self._about()
        if self._findings is None:
            yield from self._provisional()
            yield from self._under_load()
        else:
            yield from self._verdicts(self._findings)
            yield from self._measured(self._findings)

    def _about(self) -> Iterator[Metric]:
        lock = self._run.lock()
        about = InfoMetricFamily("svload_run", "The run: its study, profile, seed and svload's version.")
        values = {"run": self._run.name, "study": lock.name, "profile": lock.profile or "", "seed": str(lock.seed), "version": lock.svload_version}  # fmt: skip
        about.add_metric([], values, timestamp=self._now)
        yield about
        cases = InfoMetricFamily("svload_case", "A case: its level of each factor.")
        for case in lock.valid_cases:
            levels = zip(_labels(case.levels), case.levels.values(), strict=True)
            cases.add_metric([], {"case": case.name, **dict(levels)}, timestamp=self._now)
        yield cases
        trials = GaugeMetricFamily("svload_trials", "Trials by state.", labels=["state"])
        trials.add_metric(["planned"], len(self._run.planned_trials()), timestamp=self._now)
        trials.add_metric(["sealed"], len(self._run.sealed_trials()), timestamp=self._now)
        yield trials

    def _verdicts(self, findings: Findings) -> Iterator[Metric]:
        ended = {str(event.data.get("trial")): event.wall for event in self._events}
        rows = [
            (one.trial, one.case, one.verdict.instrument, one.verdict.server, ended.get(one.trial, self._now))
            for one in findings.trials
        ]
        yield from self._states(rows)
        doc = "1 if the threshold holds in the case, 0 if it failed; absent where it is undecided."
        passed = [((one.case, one.that), _PASSED.get(one.outcome)) for one in findings.thresholds]
        yield from self._gauge("svload_threshold_passed", doc, ("case", "that"), passed)
        found = findings.capacity
        gates = [((one.name,), _PASSED.get(one.gate.outcome)) for one in findings.claims if one.gate]
        if found is not None and found.gate is not None:
            gates.append(((f"capacity over {found.over}",), _PASSED.get(found.gate.outcome)))
        doc = "1 if a comparison's or a search's gate passed, 0 if it failed; absent where it is undecided."
        yield from self._gauge("svload_gate_passed", doc, ("gate",), gates)
        if found is not None:
            ends = zip(_BOUNDS, (found.limit, found.low, found.high), strict=True)
            limit = [((found.over, bound), end) for bound, end in ends]
            doc = "The largest load that meets the criteria of a search, and the ends of its interval."
            yield from self._gauge("svload_capacity", doc, ("over", "bound"), limit)

    def _gauge(
        self, name: str, doc: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float | None]]
    ) -> Iterator[Metric]:
        """Yield the family of the known values, by the values of their labels; nothing without any."""
        family = GaugeMetricFamily(name, doc, labels=labels)
        for of_labels, value in rows:
            if value is not None:
                family.add_metric(of_labels, value, timestamp=self._now)
        if family.samples:
            yield family

    def _states(self, rows: Sequence[tuple[str, str, str, str, float | None]]) -> Iterator[Metric]:
        """Yield (trial, case, instrument, server, wall) of each as state sets."""
        for name, doc, known, at in (
            ("svload_trial_instrument", "Whether the trial's numbers can be trusted.", _GRADES, 2),
            ("svload_trial_server", "State of the server.", _STATES, 3),
        ):
            family = StateSetMetricFamily(name, doc, labels=["trial", "case"])
            for row in rows:
                states = {state: row[at] == state for state in known}
                family.add_metric([row[0], row[1]], states, timestamp=row[4] if self._stamps else None)
            if rows:
                yield family

    def _measured(self, findings: Findings) -> Iterator[Metric]:
        """Yield one family per metric: each case's number and the ends of its interval, distinguished by
        `bound`, with its grade."""
        services, numbers = set(services_of(findings)), Numbers(findings)
        families: dict[str, GaugeMetricFamily] = {}
        for case in findings.cases:
            for key in case.metrics:
                one = numbers.of_case(case, key)
                owner, named, stat = split_metric(key)
                name = without_limit(named)
                if not name:
                    continue
                stat = stat or named[len(name) :].strip("()")
                source: Source = "service" if owner in services else "traffic"
                title = f"svload_{source}_{name}"
                if title not in families:
                    known = CATALOGUE.get((source, name))
                    labels = ["case", "service" if source == "service" else "group", "stat", "bound", "grade"]
                    unit = _UNITS[dimension_of(key)]
                    doc = known.definition if known else name
                    families[title] = GaugeMetricFamily(title, doc, labels=labels, unit=unit)
                for bound in _BOUNDS:
                    value = getattr(one, bound)
                    if value is not None:
                        row = [case.case, owner, stat, bound, one.grade]
                        families[title].add_metric(row, value, timestamp=self._now)
        yield from families.values()

    def _provisional(self) -> Iterator[Metric]:
        """Yield the verdicts made at sealing: a case's final warm-up cut needs all its replicates."""
        case_of = {plan.trial: plan.case for plan in self._run.planned_trials()}
        rows: list[tuple[str, str, str, str, float | None]] = []
        for event in self._events:
            if event.kind == "trial-sealed" and "instrument" in event.data:
                trial, instrument, server = map(event.text, ("trial", "instrument", "server"))
                rows.append((trial, case_of.get(trial, ""), instrument, server, event.wall))
        yield from self._states(rows)

    def _under_load(self) -> Iterator[Metric]:
        """Yield the last progress of the trial now under load."""
        for trial in self._run.unsealed_trials():
            progress = [event for event in read_events(self._run.trial(trial).events).events if event.kind == "progress"]  # fmt: skip
            if progress:
                yield from self._progress(trial, progress[-1])
                return

    def _progress(self, trial: str, event: Event) -> Iterator[Metric]:
        at = event.wall if self._stamps else None
        labels = ["trial", "group"]
        requests = CounterMetricFamily("svload_running_requests", "Requests of the trial under load.", labels=[*labels, "state"])  # fmt: skip
        errors = CounterMetricFamily("svload_running_errors", "Failed requests of the trial under load.", labels=[*labels, "error"])  # fmt: skip
        users = GaugeMetricFamily("svload_running_active_vus", "Active virtual users.", labels=labels)
        flight = GaugeMetricFamily("svload_running_in_flight", "Requests in flight.", labels=labels)
        response = GaugeMetricFamily("svload_running_response", "Response in the last second, of the slowest generator.", labels=[*labels, "stat"], unit="seconds")  # fmt: skip
        groups: Sequence[Mapping[str, object]] = event.data.get("groups", ())  # type: ignore[assignment]
        for group in groups:
            where = [trial, str(group["name"])]
            for state in _COUNTED:
                requests.add_metric([*where, state], _count(group.get(state)), timestamp=at)
            for error, count in _mapping(group.get("errors")).items():
                errors.add_metric([*where, error], _count(count), timestamp=at)
            users.add_metric(where, _count(group.get("active_vus")), timestamp=at)
            flight.add_metric(where, _count(group.get("in_flight")), timestamp=at)
            for stat in ("p50", "p99"):
                # null, or 0 in merged shares: no request ended in that second
                if value := _count(_mapping(group.get("last")).get(f"response_{stat}_ns")):
                    response.add_metric([*where, stat], value / 1e9, timestamp=at)
        yield from (requests, errors, users, flight)
        if response.samples:
            yield response
        cores = GaugeMetricFamily("svload_running_service_cores", "Cores that a service keeps busy.", labels=["service"])  # fmt: skip
        for service, busy in _mapping(event.data.get("service_cores")).items():
            cores.add_metric([service], _count(busy), timestamp=at)
        if cores.samples:
            yield cores


def _count(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _labels(factors: Iterable[str]) -> list[str]:
    """Return the factors' names as labels: letters, digits and `_`, avoiding labels already in use."""
    labels: list[str] = []
    for factor in factors:
        name = re.sub(r"\W", "_", factor, flags=re.ASCII)
        name = f"factor_{name}" if name in ("case", "run") or not re.match(r"[A-Za-z]", name) else name
        while name in labels:
            name += "_"
        labels.append(name)
    return labels

"""`abort_if`: criteria on the readings of monitors and on what clients see, evaluated while load is made."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from svload.model.errors import SvloadError, fail
from svload.model.events import Event
from svload.model.metrics import MetricRef
from svload.model.study import CaseConfig
from svload.model.units import show_duration

LOOK_S = 5.0
"""The span of latest readings that a criterion uses: with the whole load, its start would count too."""
EVERY_S = 1.0
LEAST_S = 2.0
"""The shortest span for criteria on what clients see: a shorter one says too little."""
_DATA = "abort"
Table = Mapping[str, tuple[str, Any]]


class Watch:
    """Evaluates a case's criteria once a second. `readings(from_ns, to_ns)` returns the monitors' readings
    between two moments of CLOCK_MONOTONIC, with offsets from 0; what clients see comes with each report of
    the load, and is left out in its first `ramp_ns`."""

    def __init__(self, config: CaseConfig, readings: Callable[[int, int], Table], ramp_ns: int = 0) -> None:
        self._config = config
        self._readings = readings
        self._ramp_ns = ramp_ns
        self._asked_at = 0.0
        self._seen: deque[tuple[int, Mapping[str, Any]]] = deque()

    def held(
        self, began_ns: int, now_ns: int, groups: Sequence[Mapping[str, Any]] = (), offset_ns: int = 0
    ) -> dict[str, object]:
        """Return data for a progress event: the first criterion that holds; empty if none does, or if they
        were evaluated just before. `groups` is the load's report, `offset_ns` into the load."""
        if not self._config.abort_ifs:
            return {}
        if offset_ns >= self._ramp_ns:
            self._seen.append((offset_ns, {str(one["name"]): one for one in groups}))
        while len(self._seen) > 2 and self._seen[1][0] <= offset_ns - LOOK_S * 1e9:
            self._seen.popleft()
        if now_ns / 1e9 - self._asked_at < EVERY_S:
            return {}
        self._asked_at = now_ns / 1e9
        found = first_seen(self._config, self._seen)
        from_ns = max(began_ns, now_ns - round(LOOK_S * 1e9))
        found = found or first_held(self._config, self._readings(from_ns, now_ns), from_ns, now_ns)
        return {_DATA: list(found)} if found is not None else {}


def first_seen(config: CaseConfig, seen: Sequence[tuple[int, Mapping[str, Any]]]) -> tuple[str, str] | None:
    """Return (criterion, its value in words) of the first criterion on what clients see that holds over these
    reports, each given with its moment: counts, rates and shares from the first to the last report,
    percentiles in each of them."""
    from svload.analysis.criteria import criterion_of, show

    if len(seen) < 2 or seen[-1][0] - seen[0][0] < LEAST_S * 1e9:
        return None
    for text in config.abort_ifs:
        criterion = criterion_of(text, config)
        if criterion.ref.metric.source != "traffic":
            continue
        reports = [(at, groups[criterion.ref.owner]) for at, groups in seen if criterion.ref.owner in groups]
        values = _seen_values(criterion.ref, reports)
        if values and all(map(criterion.holds, values)):
            return text, show(criterion.ref, values[-1])
    return None


def _seen_values(ref: MetricRef, reports: Sequence[tuple[int, Mapping[str, Any]]]) -> list[float]:
    """Return a percentile for each report that has one, or one number over all reports."""
    if len(reports) < 2:
        return []
    if ref.metric.name == "response":
        key = f"response_{ref.stat}_ns"
        return [one["last"][key] / 1e9 for _, one in reports[1:] if one.get("last", {}).get(key)]
    (begin_ns, first), (end_ns, last) = reports[0], reports[-1]
    ok, failed = (last.get(key, 0) - first.get(key, 0) for key in ("ok", "failed"))
    match ref.metric.name:
        case "failed":
            return [float(failed)]
        case "throughput" | "ok_throughput":
            count = ok if ref.metric.name == "ok_throughput" else ok + failed
            return [count * 1e9 / (end_ns - begin_ns)]
        case "success_rate" | "error_rate":
            count = ok if ref.metric.name == "success_rate" else failed
            return [count / (ok + failed)] if ok + failed else []
    return []


def first_held(config: CaseConfig, table: Table, from_ns: int, to_ns: int) -> tuple[str, str] | None:
    """Return (criterion, its value in words) of the first that holds over these readings; None if none does,
    or if there are no readings."""
    from svload.analysis.criteria import criterion_of, show
    from svload.analysis.monitored import value_of
    from svload.analysis.readings import Readings
    from svload.analysis.view import Window

    readings = Readings(_arrays(table))
    for text in config.abort_ifs:
        criterion = criterion_of(text, config)
        if not criterion.ref.metric.monitored:
            continue
        value = value_of(readings, criterion.ref, Window(from_ns, to_ns, 1))
        if value is not None and criterion.holds(value):
            return text, show(criterion.ref, value)
    return None


def _arrays(table: Table) -> dict[str, Any]:
    """Return a table of `model.columns.MONITORS` as arrays."""
    import numpy as np

    names = ("service", "monitor", "entity", "metric")
    found: dict[str, Any] = {name: np.array(table[name][1], dtype=object) for name in names}
    found["offset_ns"] = np.array(array("q", table["offset_ns"][1]))
    found["value"] = np.array(array("d", table["value"][1]))
    return found


def abort_of(event: Event) -> SvloadError | None:
    """Return the error that ends the run if a progress event reports that a criterion holds."""
    if event.kind != "progress" or _DATA not in event.data:
        return None
    that, value = map(str, event.data[_DATA])  # type: ignore[call-overload]
    at = show_duration(event.number("offset_s") or 0.0)
    trial = event.data.get("trial", "the trial")
    return fail("abort-held", that=that, trial=trial, at=at, value=value, seconds=f"{LOOK_S:g}")

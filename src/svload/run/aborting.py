"""`abort_if`: criteria over what monitors read, asked while load is made."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

from svload.model.errors import SvloadError, fail
from svload.model.events import Event
from svload.model.study import CaseConfig
from svload.model.units import show_duration

LOOK_S = 5.0
"""A criterion is asked of the last readings: of all of the load, the first seconds would weigh on the last."""
EVERY_S = 1.0
_DATA = "abort"
Table = Mapping[str, tuple[str, Any]]


class Watch:
    """Asks a case's criteria once a second. `readings(from_ns, to_ns)` are the monitors' between two moments
    of CLOCK_MONOTONIC, offsets from 0.
    """

    def __init__(self, config: CaseConfig, readings: Callable[[int, int], Table]) -> None:
        self._config = config
        self._readings = readings
        self._asked_at = 0.0

    def held(self, began_ns: int, now_ns: int) -> dict[str, object]:
        """Data for a progress event: the first criterion that holds; empty where none
        does, or it was asked just now."""
        if not self._config.abort_ifs or now_ns / 1e9 - self._asked_at < EVERY_S:
            return {}
        self._asked_at = now_ns / 1e9
        from_ns = max(began_ns, now_ns - round(LOOK_S * 1e9))
        found = first_held(self._config, self._readings(from_ns, now_ns), from_ns, now_ns)
        return {_DATA: list(found)} if found is not None else {}


def first_held(config: CaseConfig, table: Table, from_ns: int, to_ns: int) -> tuple[str, str] | None:
    """(criterion, its value in words) of the first that holds over these readings; None where
    none does, or nothing was read.
    """
    from svload.analysis.criteria import criterion_of, show
    from svload.analysis.monitored import value_of
    from svload.analysis.readings import Readings
    from svload.analysis.view import Window

    readings = Readings(_arrays(table))
    for text in config.abort_ifs:
        criterion = criterion_of(text, config)
        value = value_of(readings, criterion.ref, Window(from_ns, to_ns, 1))
        if value is not None and criterion.holds(value):
            return text, show(criterion.ref, value)
    return None


def _arrays(table: Table) -> dict[str, Any]:
    """A table of `model.columns.MONITORS` as arrays."""
    import numpy as np

    names = ("service", "monitor", "entity", "metric")
    found: dict[str, Any] = {name: np.array(table[name][1], dtype=object) for name in names}
    found["offset_ns"] = np.array(array("q", table["offset_ns"][1]))
    found["value"] = np.array(array("d", table["value"][1]))
    return found


def abort_of(event: Event) -> SvloadError | None:
    """The error that ends the run, where a progress event tells of a criterion that holds."""
    if event.kind != "progress" or _DATA not in event.data:
        return None
    that, value = map(str, event.data[_DATA])  # type: ignore[call-overload]
    at = show_duration(event.number("offset_s") or 0.0)
    trial = event.data.get("trial", "the trial")
    return fail("abort-held", that=that, trial=trial, at=at, value=value, seconds=f"{LOOK_S:g}")

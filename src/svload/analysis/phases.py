"""Where a run's wall time went: bring-up, filling, resets, warming, load, analysis; and how much of it was
not load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from svload.model.events import Event

if TYPE_CHECKING:
    from svload.store import TrialData

WAITING = "waiting"
"""Waiting for another load on this machine."""
BEFORE_TRIALS = ("install", "look", "up", "fill")
OF_TRIALS = (
    "reset",
    "restart",
    "set-up",
    "populate",
    "drop-cache",
    "warm",
    "warm-up",
    "count",
    "load",
    "settle",
    "write",
)
AFTER_TRIALS = ("analyse", "report")
LOAD, OTHER, TOTAL = "load", "other", "total"


class Outside(NamedTuple):
    """Wall time beside load: seconds, and their share of the whole run."""

    seconds: float
    share: float


def phases_of(events: Sequence[Event], trials: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return seconds by phase in chronological order, then `other` and `total`, added over resumes. `trials`:
    `own_phases` of each sealed trial.

    The total is the span of each execution's events, so an execution that was killed counts too, up to its
    last event. Load is that of sealed trials, including ramps and the wait for last answers: load that did
    not count is lost time, under `other`.
    """
    spent = dict.fromkeys((WAITING, *BEFORE_TRIALS, *OF_TRIALS, *AFTER_TRIALS), 0.0)
    for event in events:
        name, seconds = str(event.data.get("name", "")), event.number("seconds")
        if event.kind == "phase" and seconds is not None:
            spent[name] = spent.get(name, 0.0) + seconds
    for phases in trials:
        for name, seconds in phases.items():
            spent[name] = spent.get(name, 0.0) + seconds
    total_s = _span_s(events)
    known = {name: seconds for name, seconds in spent.items() if seconds > 0}
    return known | {OTHER: max(total_s - sum(known.values()), 0.0), TOTAL: total_s}


def own_phases(trial: TrialData) -> dict[str, float]:
    """Return a trial's seconds by phase. Sides that took turns were under one load, of which each has an
    equal part."""
    sides = len(trial.summary.turns.sides) if trial.summary.turns else 1
    return {name: spent / sides if name == LOAD else spent for name, spent in trial.lab.phases_s.items()}


def _span_s(events: Sequence[Event]) -> float:
    """Add up all executions, each from its first event to its last."""
    starts = [place for place, event in enumerate(events) if event.kind == "run-started"]
    spans = zip(starts, [*starts[1:], len(events)], strict=True) if starts else ()
    return sum((events[end - 1].monotonic_ns - events[start].monotonic_ns) / 1e9 for start, end in spans)


def outside_load(phases_s: Mapping[str, float]) -> Outside | None:
    """Return all time except load; None where the phases are not known."""
    total_s = phases_s.get(TOTAL, 0.0)
    if total_s <= 0 or LOAD not in phases_s:
        return None
    seconds = max(total_s - phases_s[LOAD], 0.0)
    return Outside(seconds, seconds / total_s)

"""Planned faults in a trial's numbers: which part is undisturbed, how soon the load returned to its level,
and what failed (docs/method.md §1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.quantiles import bucket_middles
from svload.analysis.view import GroupView, Window
from svload.model.facts import TrialLab
from svload.model.faults import ENDS_PROCESSES, FaultEvent
from svload.model.results import Estimate, FaultResult
from svload.model.units import show_duration
from svload.store import TrialData

Floats = NDArray[np.float64]


class WithLab(Protocol):
    """A trial with what happened in its lab."""

    @property
    def lab(self) -> TrialLab: ...


def disturbing(trial: WithLab) -> list[FaultEvent]:
    """Return the faults that were carried out and took something from a service, in order of time."""
    return sorted((one for one in trial.lab.faults if one.disturbs), key=lambda one: one.begun_s or 0.0)


def undisturbed(trial: TrialData, window: Window) -> Window:
    """Return the part of the window before the trial's first fault: all of it where there is none."""
    faults = disturbing(trial)
    if not faults or faults[0].begun_s is None:
        return window
    first = int(faults[0].begun_s * 1e9 // window.interval_ns)
    return Window(window.first, min(max(first, window.first), window.last), window.interval_ns)


def ended_services(trial: WithLab) -> set[str]:
    """Return services with a process that a fault ended: its counters restarted, or were lost with it."""
    return {service_of(one) for one in disturbing(trial) if one.do in ENDS_PROCESSES}


def service_of(event: FaultEvent) -> str:
    """Return `web` of `web[2]`, `backend` of `backend.object`."""
    return event.target.partition(".")[0].partition("[")[0]


@dataclass(frozen=True)
class _Cells:
    """Stretches of equal length: share of ok requests, and median response with failures above all (inf where
    nothing was due)."""

    success: Floats
    median_s: Floats


def recovery_measures(trial: TrialData, group: GroupView) -> dict[str, Estimate]:
    """Return `recovery`, `fault_errors` and `fault_error_rate` of a group; empty for a trial without
    faults."""
    faults = disturbing(trial)
    if not faults:
        return {}
    each = [recovery(group, faults, number) for number in range(len(faults))]
    due, ok = group.intervals["due"], group.intervals["ok"]
    during = _during(trial, group.window)
    asked, errors = int(due[during].sum()), int((due - ok)[during].sum())
    none = Estimate(value=None, reason="no request was due while a fault lasted", why="no request")
    return {
        "recovery": _longest(each),
        "fault_errors": Estimate(value=float(errors), n=asked),
        "fault_error_rate": Estimate(value=errors / asked, n=asked) if asked else none,
    }


def _longest(each: Sequence[Estimate]) -> Estimate:
    """Return the slowest recovery of several faults; one without recovery outranks all."""
    lacking = [one for one in each if one.value is None]
    if lacking:
        return max(lacking, key=lambda one: (one.why == "not recovered", one.low or 0.0))
    return max(each, key=lambda one: one.value or 0.0)


def recovery(group: GroupView, faults: Sequence[FaultEvent], number: int) -> Estimate:
    """Return how long it took after one of the faults until the group was back at its level before the first
    fault."""
    window, begun = group.window, [one.begun_s or 0.0 for one in faults]
    first, mine = (_interval(at_s, window) for at_s in (begun[0], begun[number]))
    end = _interval(begun[number + 1], window) if number + 1 < len(begun) else window.size
    if group.shape == "ramping":
        return Estimate(value=None, reason="load in stages has no level to return to", why="in stages")
    if mine < 0 or mine >= window.size:
        return Estimate(value=None, reason="the fault lies outside the kept window", why="too few")
    due = group.intervals["due"][: max(first, 0)]
    due_before = int(due.sum())
    width = ceil(limits.RECOVERY_REQUESTS * first / due_before) if due_before else 0
    # A cell in which nothing was due shows no level: a cell is at least as long as the longest pause.
    width = max(width, int(np.diff([-1, *np.flatnonzero(due), first]).max())) if width else 0
    if (
        not width
        or first // width < limits.RECOVERY_LEVEL_CELLS
        or (end - mine) // width < limits.RECOVERY_CELLS
    ):
        text = "too few requests before the fault, or after it, to determine its level"
        return Estimate(value=None, n=due_before, reason=text, why="too few")
    cells = first // width
    before = _cells(group, first - cells * width, cells, width)
    after = _cells(group, mine, (end - mine) // width, width)
    most_s = float(before.median_s.max()) * (1 + limits.RECOVERED)
    back = (after.success >= before.success.min()) & (after.median_s <= most_s)
    at = _for_good(back)
    lasts_s = ((window.first + end) * window.interval_ns) / 1e9 - begun[number]
    if at is None:
        reason = f"> {show_duration(lasts_s)}: not back at its level before the fault"
        return Estimate(value=None, low=lasts_s, n=len(back), reason=reason, why="not recovered")
    began_s = (window.first + mine + at * width) * window.interval_ns / 1e9
    return Estimate(value=max(began_s - begun[number], 0.0) if at else 0.0, n=len(back))


def _for_good(back: NDArray[np.bool_]) -> int | None:
    """Return the first cell from which `RECOVERY_CELLS` in a row are back and few later ones are not."""
    row = limits.RECOVERY_CELLS
    for at in range(len(back) - row + 1):
        rest = back[at:]
        if back[at : at + row].all() and (~rest).sum() <= limits.RECOVERY_OUTSIDE * len(rest):
            return at
    return None


def _interval(at_s: float, window: Window) -> int:
    return int(at_s * 1e9 // window.interval_ns) - window.first


def _cells(group: GroupView, first: int, count: int, width: int) -> _Cells:
    """Return `count` cells of `width` intervals, starting at the interval `first` of the window."""
    inside = slice(first, first + count * width)
    due = group.intervals["due"][inside].reshape(count, width).sum(axis=1)
    ok = group.intervals["ok"][inside].reshape(count, width).sum(axis=1)
    at, bucket, many = group.entries("response")
    chosen = (at >= first) & (at < first + count * width)
    cell = (at[chosen] - first) // width
    values, weights = bucket_middles(bucket[chosen]) / 1e9, many[chosen]
    medians = np.full(count, inf)
    for number in range(count):
        mine = cell == number
        if due[number]:
            medians[number] = _median(values[mine], weights[mine], int(due[number]))
    return _Cells(np.where(due > 0, ok / np.maximum(due, 1), 0.0), medians)


def _median(values: Floats, weights: NDArray[np.int64], total: int) -> float:
    """Return the median by nearest rank; what is missing up to `total` failed and ranks above all."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    at = int(np.searchsorted(reached, ceil(total / 2)))
    return float(values[order][at]) if at < len(order) else inf


def _during(trial: TrialData, window: Window) -> NDArray[np.bool_]:
    """Mark the intervals of the window during a fault: from its begin until it was undone."""
    found = np.zeros(window.size, dtype=bool)
    for begun_s, end_s in spans(trial):
        low = max(_interval(begun_s, window), 0)
        high = window.size if end_s is None else max(_interval(end_s, window) + 1, 0)
        found[low:high] = True
    return found


def spans(trial: TrialData) -> Iterator[tuple[float, float | None]]:
    """Return (begin, end) of each fault, in seconds from the load's start; None: it lasted to the end."""
    for fault in disturbing(trial):
        begun_s = fault.begun_s or 0.0
        ends = [
            one.done_s
            for one in trial.lab.faults
            if one.do not in ("stop", "kill", "pause", "limit")
            and one.done_s is not None
            and one.done_s > begun_s
            and service_of(one) == service_of(fault)
        ]
        yield begun_s, min(ends, default=None)


def fault_results(trial: TrialData, groups: Sequence[GroupView]) -> tuple[FaultResult, ...]:
    """Return every planned act of a trial as pages show it, with each group's recovery after those that
    disturb."""
    faults = disturbing(trial)
    return tuple(
        FaultResult(
            place=one.place,
            what=one.what,
            planned_s=one.planned_s,
            begun_s=one.begun_s,
            done_s=one.done_s,
            sentence=one.sentence,
            recovery={group.name: recovery(group, faults, faults.index(one)) for group in groups}
            if one in faults
            else {},
        )
        for one in trial.lab.faults
    )

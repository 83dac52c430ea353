"""A trial as the judges see it: its kept window, and each traffic group's part of the tables as plain
arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from svload.model.columns import HISTOGRAM_METRICS, INTERVALS
from svload.model.executors import Shape
from svload.model.results import GroupSummary, TrialSummary
from svload.model.study import CaseConfig
from svload.model.traffic import FeederPart, Group
from svload.store.load_time import responses_ns

if TYPE_CHECKING:
    from svload.store import TrialData

Table = Mapping[str, NDArray[Any]]
Ints = NDArray[np.int64]
_BUCKETS = 1 << 13
DELAYED = ("response", "ok_response")
"""The times that include the generator's own delays."""
STAMPED_ALL = 0.99
"""From this share of the ok requests on, those with a read timestamp are not a sample: the generator's delays
are known for all."""


@dataclass(frozen=True)
class Window:
    """Whole intervals [first, last) of the kept window; offsets in ns from the load's start."""

    first: int
    last: int
    interval_ns: int

    @property
    def low_ns(self) -> int:
        return self.first * self.interval_ns

    @property
    def high_ns(self) -> int:
        return self.last * self.interval_ns

    @property
    def size(self) -> int:
        return self.last - self.first

    @property
    def seconds(self) -> float:
        return self.size * self.interval_ns / 1e9


def kept_window(summary: TrialSummary, cut_ns: int = 0) -> Window:
    """Return the whole intervals after ramps and the warm-up cut; empty where the cut leaves none."""
    low, high = summary.window_ns
    first = -(-(low + cut_ns) // summary.interval_ns)
    return Window(first, max(floor(high / summary.interval_ns), first), summary.interval_ns)


@dataclass(frozen=True)
class GroupView:
    """One traffic group in a window. `rows` are its requests due in the window in order of due time, or None
    (histograms only)."""

    index: int
    summary: GroupSummary
    spec: Group
    window: Window
    intervals: Mapping[str, Ints] = field(repr=False)
    rows: Rows | None = field(repr=False)
    _histograms: Mapping[str, NDArray[Any]] = field(repr=False)
    imported: bool = False
    """requests of another load tester: what svload's own load records about itself is not known"""
    stopped: bool = False
    """the load was stopped before its end: requests then under way did not fail, and have no time"""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def closed(self) -> bool:
        """Whether its load is a closed loop."""
        return self.spec.executor.model == "closed loop"

    @property
    def shape(self) -> Shape:
        """Constant, ramping (shown over time only), or finite (a fixed amount of work)."""
        return self.spec.executor.shape

    def iterations(self, count: Literal["due", "begun"]) -> int:
        """Iterations due, or started, in the whole trial: a scenario's first steps."""
        firsts, at = [], 0
        for scenario in self.spec.scenarios:
            firsts.append(at)
            at += len(scenario.steps)
        steps = self.summary.steps
        if not firsts or len(steps) < at:
            return self.summary.due if count == "due" else self.summary.begun
        return sum(steps[first].due if count == "due" else steps[first].begun for first in firsts)

    @property
    def due(self) -> int:
        """Requests due in the window."""
        return int(self.intervals["due"].sum())

    @property
    def ok(self) -> int:
        """Requests due in the window that were ok, whenever they ended."""
        return int(self.intervals["ok"].sum())

    @cached_property
    def counts(self) -> Ints:
        """Merged histograms of the window: metric × bucket."""
        table = self._histograms
        key = table["metric"].astype(np.int64) * _BUCKETS + table["bucket"]
        size = len(HISTOGRAM_METRICS) * _BUCKETS
        return np.bincount(key, weights=table["count"], minlength=size).astype(np.int64).reshape(-1, _BUCKETS)

    def histogram(self, metric: str) -> Ints:
        """Return counts by bucket of one metric (model.columns.HISTOGRAM_METRICS) in the window."""
        found: Ints = self.counts[HISTOGRAM_METRICS.index(metric)]
        return found

    def due_in(self, chosen: NDArray[np.bool_]) -> GroupView:
        """Return the group with the requests due in these intervals alone, from its histograms. One that a
        thin copy merged counts if all intervals between its neighbours are chosen."""
        table = self._histograms
        at = table["interval"].astype(np.int64) - self.window.first
        kept = np.zeros(len(at), dtype=bool)
        for metric in np.unique(table["metric"]):
            mine = table["metric"] == metric
            starts = np.unique([0, *at[mine]])
            whole = np.logical_and.reduceat(chosen, starts)
            whole[1:] &= whole[:-1]
            kept[mine] = whole[np.searchsorted(starts, at[mine])]
        return replace(
            self,
            rows=None,
            intervals={name: cells * chosen for name, cells in self.intervals.items()},
            _histograms={name: column[kept] for name, column in table.items()},
        )

    def entries(self, metric: str) -> tuple[Ints, Ints, Ints]:
        """Return (interval within the window, bucket, count) of one metric: the histogram over time."""
        table = self._histograms
        mine = table["metric"] == HISTOGRAM_METRICS.index(metric)
        at = table["interval"][mine].astype(np.int64) - self.window.first
        return at, table["bucket"][mine].astype(np.int64), table["count"][mine].astype(np.int64)


def look(trial: TrialData, config: CaseConfig, window: Window) -> tuple[GroupView, ...]:
    """Return a view of each group of the trial in `window`; a group missing from the case's configuration is
    left out. Sides that take turns were ramped up before the first turn."""
    in_turns = trial.summary.turns is not None
    specs = {group.name: group.without_ramp if in_turns else group for group in config.groups}
    return tuple(
        _group(trial, index, summary, specs[summary.name], window)
        for index, summary in enumerate(trial.summary.groups)
        if summary.name in specs
    )


def _group(
    trial: TrialData, index: int, summary: GroupSummary, spec: Group, window: Window, step: int | None = None
) -> GroupView:
    histograms = trial.histograms
    inside = (histograms["group"] == index) & _within(histograms["interval"], window)
    if step is not None:
        inside &= histograms["step"] == step
    return GroupView(
        index=index,
        summary=summary,
        spec=spec,
        window=window,
        intervals=_dense(trial.intervals, index, window, step),
        rows=_rows(trial.samples, index, window, step),
        _histograms={name: histograms[name][inside] for name in ("interval", "metric", "bucket", "count")},
        imported=trial.summary.imported is not None,
        stopped=trial.summary.stopped != "end",
    )


def steps_of(trial: TrialData, group: GroupView) -> tuple[GroupView, ...]:
    """Return each step of a group's scenarios as a group named `group.step`; none where it has one request.

    Connections, bytes and silences exist for the group only: a step's summary has none.
    """
    if not group.spec.scenarios:
        return ()
    whole = GroupSummary(
        name="", waiting=0, in_flight=0, written=0, completed_in_window=0, ok_in_window=0, due=0, begun=0, dropped=0,
        ok=0, failed=0, last_done_ns=group.summary.last_done_ns, plan_done=group.summary.plan_done,
    )  # fmt: skip
    found = []
    for number, (step, summary) in enumerate(zip(group.spec.steps, group.summary.steps, strict=False)):
        name = f"{group.name}.{step.name}"
        mine = whole.model_copy(update={**summary.model_dump(), "name": name})
        spec = group.spec.model_copy(update={"name": name, "request": step.request, "scenarios": ()})
        found.append(_group(trial, group.index, mine, spec, group.window, number))
    return tuple(found)


def _within(interval: NDArray[Any], window: Window) -> NDArray[np.bool_]:
    at = interval.astype(np.int64)
    found: NDArray[np.bool_] = (at >= window.first) & (at < window.last)
    return found


def _dense(table: Table, index: int, window: Window, step: int | None = None) -> dict[str, Ints]:
    """Return every count of the group, or of one of its steps, as one cell per interval of the window, zero
    where nothing happened."""
    mine = (table["group"] == index) & _within(table["interval"], window)
    if step is not None:
        mine &= table["step"] == step
    rows = np.flatnonzero(mine)
    at = table["interval"][rows].astype(np.int64) - window.first
    once = len(at) == len(np.unique(at))
    dense = {}
    for name in INTERVALS:
        if name in ("group", "step", "interval"):
            continue
        dense[name] = np.zeros(window.size, dtype=np.int64)
        if once:
            dense[name][at] = table[name][rows]
        else:
            np.add.at(dense[name], at, table[name][rows].astype(np.int64))
    return dense


def _rows(samples: Table, index: int, window: Window, step: int | None = None) -> Rows | None:
    mine = samples["group"] == index
    if not mine.any():
        return None
    if step is not None:
        mine = mine & (samples["step"] == step)
    due = samples["due_ns"]
    inside = np.flatnonzero(mine & (due >= window.low_ns) & (due < window.high_ns))
    if np.any(np.diff(due[inside]) < 0):
        return Rows(samples, inside[np.argsort(due[inside], kind="stable")])
    whole = len(inside) and inside[-1] - inside[0] == len(inside) - 1
    return Rows(samples, slice(inside[0], inside[-1] + 1) if whole else inside)


class Rows(Mapping[str, NDArray[Any]]):
    """The chosen rows of a samples table, column by column on demand, uncopied where they lie side by side;
    `ok` and `response_ns` come with them."""

    def __init__(self, samples: Table, which: Ints | slice) -> None:
        self._samples = samples
        self._which = which
        self._columns: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._columns:
            self._columns[name] = self._derived(name)
        return self._columns[name]

    def _derived(self, name: str) -> NDArray[Any]:
        if name == "ok":
            return np.asarray((self["error"] == 0) & (self["done_ns"] >= 0))
        if name == "response_ns":
            return responses_ns(self)
        if name == "lag_ns":
            return np.where(self["begun_ns"] >= 0, self["begun_ns"] - self["ready_ns"], 0)
        return self._samples[name][self._which]

    def __iter__(self) -> Any:
        return iter(self._samples)

    def __len__(self) -> int:
        return len(self["due_ns"])


def generator_delays_ns(rows: Rows) -> Ints | None:
    """Return what the generator itself added to each response: how late it began, and how late it read. None
    where too few of the ok requests have a read timestamp."""
    read_ns, ok = rows["read_lag_ns"], rows["ok"]
    if not ok.any() or (read_ns[ok] >= 0).mean() < STAMPED_ALL:
        return None
    return np.asarray(rows["lag_ns"] + np.maximum(read_ns, 0))


def first_feeder(group: Group) -> str | None:
    """Return the feeder that a group's `early_repeats` and rows table count: the first that its request
    names."""
    parts = (part for request in group.requests for part in request.parts)
    return next((part.feeder for part in parts if isinstance(part, FeederPart)), None)

"""A trial's tables in load time, which stands still between the turns of its side (docs/method.md §2).

The engine aggregates in load time and stamps requests in real time; monitors read in real time. After this
conversion all of a trial's offsets use one clock, and lie within its own turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.model.summaries import TurnRecord

Ints = NDArray[np.int64]
Table = Mapping[str, NDArray[Any]]
STAMPS = ("due_ns", "ready_ns", "begun_ns", "written_ns", "first_byte_ns", "done_ns")
_SERIES = ("service", "monitor", "metric", "entity")
_COUNTER = "_total"


@dataclass(frozen=True)
class Turns:
    """One side's turns in one block: [begin, end) of each in ns, and the begin of any side's next turn."""

    begin_ns: Ints
    end_ns: Ints
    next_ns: Ints

    @classmethod
    def of_record(cls, record: TurnRecord) -> Turns:
        """Return those of a trial, in real time."""
        return replace(cls.of_ends(record.turns_ns), next_ns=np.array(record.next_ns, dtype=np.int64))

    @classmethod
    def of_ends(cls, turns_ns: Sequence[tuple[int, int]]) -> Turns:
        """Return turns of which only [begin, end) is known, with pauses of length 0."""
        begin, end = (np.array(ends, dtype=np.int64) for ends in zip(*turns_ns, strict=True))
        return cls(begin, end, end)

    @property
    def in_load_time(self) -> Turns:
        """Return the same in load time: each begins where the last ended; its pause is after its end."""
        until = np.cumsum(self.end_ns - self.begin_ns)
        return Turns(until - (self.end_ns - self.begin_ns), until, until + (self.next_ns - self.end_ns))

    def of(self, at_ns: Ints) -> Ints:
        """Return the turn that contains each moment, or the last ended before it; −1 before the first."""
        return np.searchsorted(self.begin_ns, at_ns, "right") - 1

    def load_ns(self, at_ns: Ints) -> Ints:
        """Return the load time of moments in real time; it stops between turns (engine/docs/share.md)."""
        lengths = self.end_ns - self.begin_ns
        turn = self.of(at_ns)
        within = np.minimum(at_ns - self.begin_ns[turn], lengths[turn] - 1)
        return np.where(turn >= 0, (np.cumsum(lengths) - lengths)[turn] + within, -1)


def samples_in_load_time(table: Table, turns: Turns) -> dict[str, NDArray[Any]]:
    """Convert the stamps of every request. Due time and slot become load time; from then on real time runs,
    so that durations are unchanged, and the response leaves out the time between turns spent waiting for a
    slot."""
    stamps = {name: np.asarray(table[name]).astype(np.int64) for name in STAMPS}
    due, ready = stamps["due_ns"], stamps["ready_ns"]
    waited = ready >= 0
    from_ns = np.where(waited, ready, due)
    moved = turns.load_ns(from_ns) - from_ns
    found: dict[str, NDArray[Any]] = {name: np.where(at >= 0, at + moved, at) for name, at in stamps.items()}
    found["due_ns"] = turns.load_ns(due)
    return found


def responses_ns(samples: Table) -> Ints:
    """Return the time of each request from due to done, by its stamps in load time (`read_trial`): waiting
    for a slot between the turns of its side does not count. Meaningless for a request that never ended."""
    return np.asarray(samples["done_ns"] - samples["due_ns"])


def _idle_sql(stamp: str, turn: str) -> str:
    """Return SQL for the time between turns before a stamp, given the last turn begun (`Turns.load_ns`)."""
    within = f"least(one.{stamp} - {turn}.begin_ns, {turn}.length_ns - 1)"
    return f"coalesce(one.{stamp} - {turn}.before_ns - {within}, 0)"


WITHOUT_TURNS_SQL = "case when one.done_ns >= 0 then one.done_ns - one.due_ns end"
"""`responses_ns` of samples `one` that did not wait for a slot; null for a request that never ended."""
TIMED_SQL = f"""\
select *, {WITHOUT_TURNS_SQL} as response_ns from _prompt one
union all
select *, {WITHOUT_TURNS_SQL} as response_ns from _waiting one where ready_ns < 0 or ready_ns = due_ns
union all
select one.*, case when one.done_ns >= 0 then one.done_ns - one.due_ns
    - {_idle_sql("ready_ns", "ready")} + {_idle_sql("due_ns", "due")} end as response_ns
  from (select * from _waiting where ready_ns >= 0 and ready_ns <> due_ns) one
  asof left join _turns due on one.trial = due.of_trial and one.due_ns >= due.begin_ns
  asof left join _turns ready on one.trial = ready.of_trial and one.ready_ns >= ready.begin_ns"""
"""Samples with `responses_ns`: from those in real time of trials where something waited for a slot (`_waiting`) or
nothing did (`_prompt`), and `_turns` (of_trial, begin_ns, length_ns, before_ns: load time before it). Only what waited
is joined to its turns, which takes a sort."""


def monitors_in_load_time(table: Table, turns: Turns) -> dict[str, NDArray[Any]]:
    """Return the readings within the turns. A counter grows by its growth within them, interpolated linearly
    between readings; other readings between turns are left out, except those in the turn's own pause, which
    describe its end."""
    columns = {name: np.asarray(cells) for name, cells in table.items()}
    at = columns["offset_ns"].astype(np.int64)
    code = np.zeros(len(at), dtype=np.int64)
    for name in _SERIES:
        cells = columns[name].tolist()
        known = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
        code = code * max(len(known), 1) + np.fromiter(map(known.__getitem__, cells), np.int64, len(cells))
    order = np.lexsort((at, code))
    parts: list[tuple[Ints, NDArray[np.float64], Ints]] = []
    for first, last in pairwise([*np.flatnonzero(np.diff(code[order], prepend=-1)).tolist(), len(order)]):
        rows = order[first:last]
        counts = str(columns["metric"][rows[0]]).endswith(_COUNTER)
        read = _counter if counts else _others
        offsets, values = read(at[rows], columns["value"][rows].astype(float), turns)
        parts.append((offsets, values, np.full(len(offsets), rows[0])))
    if not parts:
        return columns
    offsets, values, sources = (np.concatenate(column) for column in zip(*parts, strict=True))
    by_time = np.argsort(offsets, kind="stable")
    found = {name: columns[name][sources[by_time]] for name in columns}
    return found | {"offset_ns": offsets[by_time], "value": values[by_time]}


def _counter(at: Ints, values: NDArray[np.float64], turns: Turns) -> tuple[Ints, NDArray[np.float64]]:
    """Return readings at the turns' ends and within them, without the growth between turns."""
    edges = np.concatenate([turns.begin_ns, turns.end_ns])
    inside = _within(at, turns)
    known = edges[(edges >= at[0]) & (edges <= at[-1])]
    knots = np.unique(np.concatenate([at[inside], known]))
    if not len(knots):
        return at[:0], values[:0]
    grown = np.diff(np.interp(knots, at, values), prepend=values[0])
    middles = (knots[1:] + knots[:-1]) // 2
    turn = turns.of(middles)
    counts = (turn >= 0) & (middles < turns.end_ns[turn])
    total = grown[0] + values[0] + np.concatenate([[0.0], np.cumsum(np.where(counts, grown[1:], 0.0))])
    # A turn's end is the next one's start: the later reading is kept, which has the same value.
    offsets = _clock(knots, turns)
    last = np.append(np.diff(offsets) > 0, True)
    return offsets[last], total[last]


def _others(at: Ints, values: NDArray[np.float64], turns: Turns) -> tuple[Ints, NDArray[np.float64]]:
    turn = turns.of(at)
    kept = (turn < 0) | (at < turns.next_ns[turn]) | (turn == len(turns.begin_ns) - 1)
    return _clock(at[kept], turns), values[kept]


def _within(at: Ints, turns: Turns) -> NDArray[np.bool_]:
    turn = turns.of(at)
    return (turn >= 0) & (at < turns.end_ns[turn])


def _clock(at: Ints, turns: Turns) -> Ints:
    """Return the same as `Turns.load_ns`, but continue before the first turn and after the last, so that
    readings around the load stay outside it."""
    lengths = turns.end_ns - turns.begin_ns
    turn = turns.of(at)
    found = (np.cumsum(lengths) - lengths)[turn] + np.minimum(at - turns.begin_ns[turn], lengths[turn])
    after = int(lengths.sum()) + at - turns.end_ns[-1]
    found = np.where(at > turns.end_ns[-1], after, found)
    return np.asarray(np.where(turn < 0, at - turns.begin_ns[0], found))

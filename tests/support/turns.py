"""Sides of a synthetic run that take turns: the turns of each, and its tables in real time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.analysis.turn_plan import TurnPlan, turns_of
from svload.model.plan import TrialPlan
from svload.model.results import TurnRecord
from svload.model.study import Lock
from svload.store.load_time import STAMPS
from svload.study.order import sets_of_cases, turned_factor

Table = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class TurnModel:
    """`rounds` turns of `length_ns` per block; `slow`: level → the multiplier of its responses by turn."""

    length_ns: int = 500_000_000
    pause_ns: int = 40_000_000
    rounds: int = 10
    p99_ns: float = 20_000_000.0
    slow: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    control: bool = False

    @property
    def duration_ns(self) -> int:
        """Return how long each side is loaded."""
        return self.rounds * self.length_ns

    def record(self, lock: Lock, plan: TrialPlan) -> TurnRecord:
        """Return the turns of one trial among those of its set."""
        sets = sets_of_cases(lock.valid_cases, turned_factor(lock))
        mine = next(names for one in sets if plan.case in (names := [case.name for case in one]))
        planned = TurnPlan(self.length_ns, self.pause_ns, self.rounds)
        turns = turns_of(planned, len(mine), lock.seed, plan.block)[mine.index(plan.case)]
        next_ns = tuple(end + self.pause_ns for _, end in turns)
        settled = {
            "p99_ns": self.p99_ns,
            "pause_ns": self.pause_ns,
            "warm_ns": 2_000_000_000,
            "settled": True,
        }
        return TurnRecord(turns_ns=turns, next_ns=next_ns, sides=tuple(mine), **settled)


def in_real_time(table: Table, record: TurnRecord) -> dict[str, NDArray[Any]]:
    """Return samples or readings as a side that takes turns has them."""
    begins, ends = np.array(record.turns_ns, dtype=np.int64).T
    lengths = ends - begins
    until = np.cumsum(lengths)

    def real(at: NDArray[Any]) -> NDArray[Any]:
        turn = np.minimum(np.searchsorted(until, at, "right"), len(until) - 1)
        return np.asarray(begins[turn] + at - (until - lengths)[turn])

    found = dict(table)
    if "offset_ns" in table:
        return found | {"offset_ns": real(table["offset_ns"])}
    ready = table["ready_ns"]
    moved = np.where(ready >= 0, real(ready) - ready, 0)
    found |= {name: np.where(table[name] >= 0, table[name] + moved, table[name]) for name in STAMPS}
    return found | {"due_ns": real(table["due_ns"])}

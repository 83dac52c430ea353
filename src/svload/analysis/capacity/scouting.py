"""Single looks at loads ×2 apart, until one holds beside one that breaks: where the search begins (docs/method.md §4).

They guide and count for nothing: a level that was chosen because its look held would be
kept too often by that look. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from svload.analysis.capacity.level import Replicate


class Range(Protocol):
    """Loads that may be measured, and the first one."""

    @property
    def least(self) -> int:
        """No load below it."""
        ...

    @property
    def most(self) -> int: ...

    @property
    def start(self) -> int: ...


@dataclass(frozen=True)
class Scouted:
    """`next_load`: the next look; None: the limit lies near `start`. `trials`: looks among
    what was seen, its first so many."""

    next_load: int | None
    start: int
    trials: int


def scouted(asked: Range, seen: Sequence[Replicate], growth: float) -> Scouted:
    """What the looks say so far; the same replicates say the same."""
    looks: dict[int, bool | None] = {}
    while True:
        load = _next(asked, looks, growth)
        if load is None:
            return Scouted(None, _start(asked, looks), len(looks))
        if len(looks) >= len(seen):
            return Scouted(load, asked.start, len(looks))
        if seen[len(looks)].load != load:  # a later verdict on a look: the search went on otherwise then
            return Scouted(None, _start(asked, looks), len(looks))
        looks[load] = seen[len(looks)].holds


def grown(load: int, most: int, growth: float) -> int:
    return min(max(round(load * growth), load + 1), most)


def shrunk(load: int, least: int, growth: float) -> int:
    return max(min(round(load / growth), load - 1), least)


def _next(asked: Range, looks: dict[int, bool | None], growth: float) -> int | None:
    """Up until one breaks, down until one holds. One that says nothing is passed by upwards,
    where there are more requests."""
    if not looks:
        return asked.start
    broken = min((load for load, holds in looks.items() if holds is False), default=None)
    held = any(holds for load, holds in looks.items() if broken is None or load < broken)
    if broken is None:
        above = grown(max(looks), asked.most, growth)
        return above if above not in looks else None
    if held:
        return None
    below = shrunk(min(looks), asked.least, growth)
    return below if below not in looks else None


def _start(asked: Range, looks: dict[int, bool | None]) -> int:
    """The largest load that held below the least that broke; where none did, the end that the looks reached."""
    broken = min((load for load, holds in looks.items() if holds is False), default=None)
    held = [load for load, holds in looks.items() if holds and (broken is None or load < broken)]
    if held:
        return max(held)
    return asked.start if broken is None else min(looks)

"""Which load is measured next: single looks, a geometric bracket, bisection, and both ends once more from
above and from below (docs/method.md §4).

All that is known comes in as the replicates of sealed trials, in the order they ran, so a search that was
killed goes on where it stood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Literal

from svload.analysis.capacity.budget import UNBOUNDED, Budget
from svload.analysis.capacity.level import LEAST, MOST, Judged, Replicate, judge_level
from svload.analysis.capacity.scouting import grown, scouted, shrunk

GROWTH = 2.0
Direction = Literal["from below", "from above"]
WAYS: tuple[Direction, Direction] = ("from above", "from below")


@dataclass(frozen=True)
class Search:
    """What is asked: loads from `least` to `most` (users, or requests a second), a bracket no
    wider than `tolerance` (0.05: 5 %).

    `start`: the first load. `most_replicates` bounds a level, `budget` the whole search.
    """

    least: int
    most: int
    start: int
    tolerance: float = 0.05
    most_replicates: int = MOST
    budget: Budget = UNBOUNDED


@dataclass(frozen=True)
class Step:
    """Loads to measure now, in this order, and why."""

    loads: tuple[int, ...]
    because: str


@dataclass(frozen=True)
class Answer:
    """Where the search ended: the largest load that kept the criterion, the least that broke it.

    `kept` is None where no load kept it, `broken` where none broke it. `confirmed`: by direction
    what the kept end said when it was measured again. `hysteresis`: loads that keep the criterion
    when they are reached from below and break it from above. `why_wide`: what keeps the bracket
    wider than asked; empty: nothing.
    """

    kept: int | None
    broken: int | None
    levels: Mapping[int, Judged]
    confirmed: Mapping[Direction, Judged] = field(default_factory=dict)
    hysteresis: tuple[int, ...] = ()
    why_wide: str = ""


def next_step(search: Search, seen: Sequence[Replicate]) -> Step | Answer:
    """What to measure next, or the answer. Pure: the same replicates give the same step."""
    looks = scouted(search, seen, GROWTH)
    if looks.next_load is not None and not search.budget.why_over(len(seen), 1):
        return Step((looks.next_load,), f"a first look at {looks.next_load:,}")
    search, counted = replace(search, start=looks.start), seen[looks.trials :]
    step = _searched(search, counted)
    if isinstance(step, Answer) or not (over := search.budget.why_over(len(seen), len(step.loads))):
        return step
    levels = _levels(search, counted)
    unsure = [_about(load, level) for load, level in levels.items() if level.outcome == "more"]
    return _answer(search, counted, levels, "; ".join([over, *unsure]))


def ends_after(search: Search, seen: Sequence[Replicate]) -> tuple[int | None, int | None]:
    """The bracket after these: the largest load that is kept, the least that is broken."""
    return _ends(_levels(search, seen[scouted(search, seen, GROWTH).trials :]))


def levels_after(search: Search, seen: Sequence[Replicate]) -> dict[int, Judged]:
    """Every level that is measured so far, ascending; none that had a single look alone."""
    return dict(sorted(_levels(search, seen[scouted(search, seen, GROWTH).trials :]).items()))


def _searched(search: Search, seen: Sequence[Replicate]) -> Step | Answer:
    levels = _levels(search, seen)
    unsure = [load for load, level in levels.items() if level.outcome == "more"]
    if unsure:
        load = unsure[-1]
        return Step((load,) * _missing(levels[load]), _about(load, levels[load]))
    low, high = _ends(levels)
    if low is None and high is None:
        return _unless_all_open(search, seen, levels)
    if high is None:
        assert low is not None
        if low >= search.most:
            return _confirmed(search, seen, levels)
        return _first(
            _grown(search, low, levels), f"{low:,} kept it: the bracket grows", search, seen, levels
        )
    if low is None:
        if high <= search.least:
            return _answer(search, seen, levels, "")
        return _first(
            _shrunk(search, high, levels), f"{high:,} broke it: the bracket shrinks", search, seen, levels
        )
    between = _between(search, low, high, levels)
    if between is not None:
        return Step((between,) * LEAST, f"between {low:,}, which kept it, and {high:,}, which broke it")
    return _confirmed(search, seen, levels)


def _levels(search: Search, seen: Sequence[Replicate]) -> dict[int, Judged]:
    """By load, in the order they were first measured. An open level is one that counts neither way.

    A replicate that came right after a larger load is left to the ways (hysteresis) where a level has enough others.
    """
    by_load: dict[int, list[Replicate]] = {}
    for one in seen:
        by_load.setdefault(one.load, []).append(one)
    return {load: judge_level(_own(load, mine), search.most_replicates) for load, mine in by_load.items()}


def _own(load: int, replicates: Sequence[Replicate]) -> Sequence[Replicate]:
    others = [one for one in replicates if one.after is None or one.after <= load]
    return others if sum(one.counts for one in others) >= LEAST else replicates


def _missing(level: Judged) -> int:
    return max(LEAST - level.replicates, 1)


def _about(load: int, level: Judged) -> str:
    if level.replicates < LEAST:
        return f"{load:,} has {level.replicates} of {LEAST} replicates"
    return f"{load:,} is not told yet: {_broke(level)}"


def _ends(levels: Mapping[int, Judged]) -> tuple[int | None, int | None]:
    """The largest kept load below the least broken one, and that one."""
    high = min((load for load, level in levels.items() if level.outcome == "broken"), default=None)
    kept = [
        load for load, level in levels.items() if level.outcome == "kept" and (high is None or load < high)
    ]
    return max(kept, default=None), high


def _unless_all_open(
    search: Search, seen: Sequence[Replicate], levels: Mapping[int, Judged]
) -> Step | Answer:
    """Nothing can be told yet. More load brings more requests where these were too few;
    else one level lower may be told."""
    if not levels:
        return Step((search.start,) * LEAST, f"near {search.start:,}, by the first looks")
    if all(level.too_few for level in levels.values()):
        above = grown(max(levels), search.most, GROWTH)
        if above not in levels:
            return Step((above,) * LEAST, f"too few requests at {max(levels):,}: a higher level")
    else:
        below = max(search.least, min(levels) // 2)
        if below not in levels and len(levels) == 1:
            return Step((below,) * LEAST, f"nothing can be said of {min(levels):,}: a lower level")
    return _answer(search, seen, levels, _open_words(levels))


def _grown(search: Search, low: int, levels: Mapping[int, Judged]) -> int | None:
    """Above `low`; past what is open already, which counts neither way."""
    load = low
    while load < search.most:
        load = grown(load, search.most, GROWTH)
        if load not in levels:
            return load
    return None


def _shrunk(search: Search, high: int, levels: Mapping[int, Judged]) -> int | None:
    load = high
    while load > search.least:
        load = shrunk(load, search.least, GROWTH)
        if load not in levels:
            return load
    return None


def _first(
    load: int | None, because: str, search: Search, seen: Sequence[Replicate], levels: Mapping[int, Judged]
) -> Step | Answer:
    if load is None:
        return _answer(search, seen, levels, _open_words(levels))
    return Step((load,) * LEAST, because)


def _between(search: Search, low: int, high: int, levels: Mapping[int, Judged]) -> int | None:
    """The geometric middle of the widest part of the bracket that can still shrink it; None: it is
    narrow enough, or no level is left."""
    if high - low <= 1 or high / low - 1 <= search.tolerance:
        return None
    inside = sorted(load for load in levels if low < load < high)  # open ones: they split the bracket
    points = [low, *inside, high]
    for first, second in ((points[0], points[1]), (points[-2], points[-1])):
        if second - first > 1 and second / first - 1 > search.tolerance:
            return min(max(round(sqrt(first * second)), first + 1), second - 1)
    return None


def _confirmed(search: Search, seen: Sequence[Replicate], levels: Mapping[int, Judged]) -> Step | Answer:
    """The kept end again, each time right after a load above it, then after one below: a server that
    was overloaded may not come back."""
    low, high = _ends(levels)
    assert low is not None
    if high is None:
        return _answer(search, seen, levels, "")
    below = max(search.least, round(low / GROWTH))
    ways: list[tuple[Direction, int]] = [("from above", high)]
    if below < low:
        ways.append(("from below", below))
    for way, before in ways:
        level = _of_way(search, seen, low, way)
        if level.outcome == "more":
            return Step((before, low) * _missing(level), f"the end at {low:,} again, {way}")
    return _answer(search, seen, levels, _open_words(levels) if _between_open(low, high, levels) else "")


def _of_way(search: Search, seen: Sequence[Replicate], load: int, way: Direction) -> Judged:
    mine = [
        one
        for one in seen
        if one.load == load
        and one.after is not None
        and (one.after > load if way == "from above" else one.after < load)
    ]
    return judge_level(mine, search.most_replicates)


def _between_open(low: int, high: int, levels: Mapping[int, Judged]) -> bool:
    return any(low < load < high and level.outcome == "open" for load, level in levels.items())


def _open_words(levels: Mapping[int, Judged]) -> str:
    told = []
    for load, level in sorted(levels.items()):
        if level.outcome != "open":
            continue
        if level.replicates < LEAST:
            of = level.refused + level.replicates
            told.append(f"{load:,}: {level.by} has no number in {level.refused} of {of} trials ({level.why})")
        elif level.too_few:
            told.append(f"{load:,}: of {level.by}, {level.why}")
        else:
            told.append(f"{load:,}: {_broke(level)}")
    return "; ".join(told)


def _broke(level: Judged) -> str:
    return f"{level.breaks} of {level.replicates} trials break it ({level.by})"


def _answer(search: Search, seen: Sequence[Replicate], levels: Mapping[int, Judged], why: str) -> Answer:
    low, high = _ends(levels)
    confirmed = {} if low is None else {way: _of_way(search, seen, low, way) for way in WAYS}
    return Answer(
        low,
        high,
        levels,
        {way: one for way, one in confirmed.items() if one.replicates},
        tuple(load for load in sorted(levels) if _differs_by_way(search, seen, load)),
        why,
    )


def _differs_by_way(search: Search, seen: Sequence[Replicate], load: int) -> bool:
    above, below = (_of_way(search, seen, load, way).outcome for way in WAYS)
    return (above, below) == ("broken", "kept")

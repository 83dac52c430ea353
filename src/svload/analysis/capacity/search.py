"""The choice of the next load to measure: looks ×2 apart, three halvings, then rounds of random loads around
the current estimate of the limit (docs/method.md §4).

The only input is the readings of sealed trials, in the order they ran, so a search that was killed resumes
where it stopped. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import exp, inf, log, sqrt
from random import Random
from statistics import mean, median

from svload.analysis.capacity.fit import FARTHEST, Limit, Point, cut, limit_by_outcome, limit_of, line_of
from svload.model.capacity import SearchState
from svload.model.study import CapacitySearch
from svload.model.units import show_duration, show_percent

PAUSE = 5.0
"""A gap between two seals counts as at most this many usual trials: a longer one means that the run was
stopped meanwhile."""
_RECENT = 6
"""The longest of this many last trials is the estimate for the next one: at more load they take longer."""


@dataclass(frozen=True)
class Budget:
    """What is left of a search's time: `left_s` of `within_s`, where a trial takes `trial_s`. Or, as an older
    svload wrote it, a number of trials. Without either there is no bound."""

    within_s: float | None = None
    left_s: float = 0.0
    trial_s: float = 0.0
    most_trials: int | None = None

    def why_over(self, made: int, wanted: int) -> str:
        """Return why `wanted` more trials do not fit after `made`; "" where they do. The first one always
        does."""
        if self.most_trials is not None and made >= self.most_trials:
            return f"the {self.most_trials:,} trials that the time allows are done"
        if self.within_s is None or not made or wanted * self.trial_s <= self.left_s:
            return ""
        return f"the time of {show_duration(self.within_s)} is over (--for)"


UNBOUNDED = Budget()


def spent_s(gaps_s: Sequence[float], first_s: float, trial_s: float) -> float:
    """Return how long trials have taken: the first one, and the gaps between their seals."""
    return first_s + sum(min(gap, PAUSE * trial_s) for gap in gaps_s)


def budget_of(
    asked: CapacitySearch, sealed_s: Sequence[float | None], begun_s: float | None = None
) -> Budget:
    """Return what is left after trials that were sealed at these times, in the order they ran; None: not
    known, and assumed to be as expected. `begun_s`: when the run had the machine for itself; None: not
    known."""
    if asked.within_s is None or asked.measuring_s is None or asked.trial_s is None:
        return Budget(most_trials=asked.most_trials)
    expected_s, most_s = asked.trial_s, PAUSE * asked.trial_s
    took_s = [
        max(after - before, 0.0) if before is not None and after is not None else expected_s
        for before, after in pairwise(sealed_s)
    ]
    first_s = expected_s
    if begun_s is not None and sealed_s and sealed_s[0] is not None:
        first_s = max(sealed_s[0] - begun_s, expected_s)
    spent = spent_s(took_s, first_s if sealed_s else 0.0, expected_s)
    return Budget(
        asked.within_s, asked.measuring_s - spent, min(max(took_s[-_RECENT:], default=expected_s), most_s)
    )


GROWTH = 2.0
HALVINGS = 3
ROUND = 3
"""Trials of a round."""
LEAST_ROUNDS, MOST_ROUNDS = 4, 12
STRANGERS = 0.2
"""A trial while other programs used this much of the machine counts half, as in comparisons."""
WIDEST = 2.0
"""A limit known only to within more than a factor of three is no answer."""
_SPREAD = 0.15
"""Spread of the first round's loads around the limit, as log; later ones are chosen so that margins reach
`_MARGINS` on either side."""
_MARGINS, _SPREADS = 0.35, (0.03, 0.3)
_STEP, _LEAP = 0.2, 0.3
"""A round moves the middle of the next by at most this; by the larger one where all its trials have the same
outcome."""


@dataclass(frozen=True)
class Search:
    """The search to make: loads from `least` to `most` (users, or requests a second), an interval no wider
    than `tolerance` (0.05: 5 %). `start`: the first load. `budget` bounds the whole search. `seed` draws
    loads."""

    least: int
    most: int
    start: int
    tolerance: float = 0.05
    budget: Budget = UNBOUNDED
    seed: int = 0
    trials_each: int = 1
    """of a reading: two where a gain is asked for"""


@dataclass(frozen=True)
class Reading:
    """The result of a trial, or of a step of two: `margin` is the log distance to the limit, positive where
    the criteria hold; None: it has no number. `surely`: it breaks them by so much that no second look is
    needed. `shares`: by criterion on a share of requests, the bad share and how much of it is allowed."""

    load: int
    margin: float | None
    surely: bool = False
    shares: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    strangers: float = 0.0
    """share of the machine that other programs used meanwhile"""

    @property
    def holds(self) -> bool | None:
        return None if self.margin is None else self.margin >= 0


@dataclass(frozen=True)
class Step:
    """Loads to measure now, in this order, and why."""

    loads: tuple[int, ...]
    because: str


@dataclass(frozen=True)
class Answer:
    """The end of the search. `state` as in findings. `held` and `broke`: loads of single looks on either
    side."""

    state: SearchState
    limit: Limit | None
    held: int | None
    broke: int | None
    why: str = ""


@dataclass(frozen=True)
class Progress:
    """The readings so far, divided into looks and rounds."""

    search: Search
    seen: Sequence[Reading]

    @cached_property
    def looks(self) -> int:
        """How many of the first readings are looks."""
        made = 0
        while made < len(self.seen) and self._look_after(made) is not None:
            made += 1
        return made

    @cached_property
    def next_look(self) -> int | None:
        """The load of the next look; None: there were enough."""
        return self._look_after(len(self.seen)) if self.looks == len(self.seen) else None

    @cached_property
    def sides(self) -> tuple[int | None, int | None]:
        """From the looks: the largest load that held below the least that broke, and that least load."""
        return _sides(self.seen[: self.looks])

    @cached_property
    def points(self) -> list[Point]:
        """Every reading with a number. The looks nearest to the limit count as one round."""
        found = []
        for at, one in enumerate(self.seen):
            if one.margin is not None and at >= self.looks - HALVINGS - 1:
                place = 0 if at < self.looks else 1 + (at - self.looks) // ROUND
                found.append(
                    Point(log(one.load), cut(one.margin), place, 1 / (1 + (one.strangers / STRANGERS) ** 2))
                )
        return found

    @property
    def rounds(self) -> int:
        """Completed rounds so far."""
        return (len(self.seen) - self.looks) // ROUND

    @cached_property
    def limit(self) -> Limit | None:
        return (limit_of(self.points) or self.by_outcome) if self.rounds else None

    @cached_property
    def by_outcome(self) -> Limit | None:
        """The limit by which trials held and which broke, with all looks: they lie on one side of it or the
        other."""
        return limit_by_outcome(
            [Point(log(one.load), one.margin, 0) for one in self.seen if one.margin is not None]
        )

    def _look_after(self, made: int) -> int | None:
        return _next_look(self.search, self.seen[:made])

    def round_loads(self) -> tuple[int, ...]:
        """Return the loads of the next round: one in each third of its range, in random order."""
        middle, spread = self._middle()
        random = Random(f"{self.search.seed}/{self.rounds}")
        drawn = [middle + spread * (2 * (at + random.random()) / ROUND - 1) for at in range(ROUND)]
        random.shuffle(drawn)
        return tuple(min(max(round(exp(x)), self.search.least), self.search.most) for x in drawn)

    def _middle(self) -> tuple[float, float]:
        """Return the log load around which the next round lies, and how far it reaches: each round moves it a
        little."""
        held, broke = self.sides
        ends = [log(one) for one in (held, broke) if one is not None] or [log(self.search.start)]
        middle, spread = mean(ends), _SPREAD
        all_held, all_broke = -inf, inf
        for number in range(1, self.rounds + 1):
            known = [one for one in self.points if one.round <= number]
            mine = [one.margin for one in known if one.round == number]
            line = line_of([one for one in known if one.round])
            if mine and min(mine) >= FARTHEST:
                all_held = max(all_held, middle)
                middle = middle + _LEAP if all_broke == inf else (middle + all_broke) / 2
            elif mine and max(mine) <= -FARTHEST:
                all_broke = min(all_broke, middle)
                middle = middle - _LEAP if all_held == -inf else (middle + all_held) / 2
            elif line is not None and number > 1:
                middle = min(max(line.zero, middle - _STEP), middle + _STEP)
                spread = min(max(_MARGINS / max(-line.slope, 0.1), _SPREADS[0]), _SPREADS[1])
            elif mine:
                middle += min(max(median(mine), -_STEP), _STEP)
            middle = min(max(middle, log(self.search.least)), log(self.search.most))
        return middle, max(spread, 1.5 / exp(middle))  # three whole loads at least


def next_step(search: Search, seen: Sequence[Reading]) -> Step | Answer:
    """Return what to measure next, or the answer: the same readings give the same step."""
    now = Progress(search, seen)
    if now.next_look is not None:
        step = Step((now.next_look,), _why_look(now))
    elif not any(one.margin is not None for one in seen):
        return answer(now, "no trial has a value")
    elif _is_enough(now):
        return answer(now)
    else:
        step = Step(now.round_loads(), f"round {now.rounds + 1}: loads around the limit in random order")
    each = search.trials_each
    over = search.budget.why_over(each * len(seen), each * len(step.loads))
    return answer(now, over) if over else step


def answer(now: Progress, over: str = "") -> Answer:
    """Return the answer if nothing more is measured. `over`: why nothing is."""
    held, broke = now.sides
    limit, search = now.limit or now.by_outcome, now.search
    beyond = _beyond(now)
    if beyond is not None:
        return Answer(beyond, None, held, broke)
    if burst := _bursts(now, limit):
        return Answer("undecided", limit, held, broke, burst)
    if limit is None:
        why = over or "the results don't depend on the load"
        return Answer("undecided", None, held, broke, why)
    if limit.low > search.most or limit.high < search.least:
        return Answer("above" if limit.low > search.most else "below", limit, held, broke)
    if limit.width > WIDEST:
        return Answer("undecided", limit, held, broke, over or "the trials vary too much")
    return Answer("found", limit, held, broke, "" if _is_narrow(now) else over)


def _next_look(search: Search, looks: Sequence[Reading]) -> int | None:
    """Return the next look: up until one breaks, down until one holds, then half way between. One without a
    number is passed upwards."""
    if not looks:
        return search.start
    held, broke = _sides(looks)
    loads = {one.load for one in looks}
    if broke is None:
        if len(looks) >= 2 and all(one.margin is None for one in looks[-2:]):
            return None  # this machine can't make more
        above = min(max(round(max(loads) * GROWTH), max(loads) + 1), search.most)
        return above if above not in loads else None
    at_it = [one for one in looks if one.load == broke]
    if len(at_it) == 1 and not at_it[0].surely and (held is None or broke / held > sqrt(GROWTH)):
        return broke  # a burst of something else may have broken it
    if held is None:
        below = max(min(round(min(loads) / GROWTH), min(loads) - 1), search.least)
        return below if below not in loads else None
    between = min(max(round(sqrt(held * broke)), held + 1), broke - 1)
    narrow = broke / held <= GROWTH ** (1 / 2 ** (HALVINGS - 0.5))
    return None if narrow or between in loads or broke - held <= 1 else between


def _sides(looks: Sequence[Reading]) -> tuple[int | None, int | None]:
    margins: dict[int, list[float]] = {}
    for one in looks:
        if one.margin is not None:
            margins.setdefault(one.load, []).append(cut(one.margin))
    broke = min((load for load, found in margins.items() if mean(found) < 0), default=None)
    held = [load for load, found in margins.items() if mean(found) >= 0 and (broke is None or load < broke)]
    return max(held, default=None), broke


def _is_enough(now: Progress) -> bool:
    """Decide by the width alone, never by where the limit lies."""
    if now.rounds >= MOST_ROUNDS:
        return True
    return now.rounds >= LEAST_ROUNDS and (_is_narrow(now) or _beyond(now) is not None)


def _is_narrow(now: Progress) -> bool:
    limit = now.limit
    return limit is not None and (limit.width <= now.search.tolerance or limit.high - limit.low <= 1)


def _beyond(now: Progress) -> SearchState | None:
    """Return above or below, where all trials at that end have the same outcome: six of them do by chance in
    one case of 32."""
    search = now.search
    ends: tuple[tuple[int, SearchState, bool], ...] = (
        (search.most, "above", True),
        (search.least, "below", False),
    )
    for end, state, holds in ends:
        at_it = [one for one in now.seen if abs(log(one.load / end)) <= 0.05 or one.load == end]
        known = [one.holds for one in at_it if one.margin is not None]
        if len(known) >= 2 * ROUND and all(one is holds for one in known):
            return state
    return None


def _bursts(now: Progress, limit: Limit | None) -> str:
    """Return why a criterion on a share of requests fails though the load does not break it: the trial is the
    unit, and the mean of the trials below the limit exceeds what is allowed. Empty where no such criterion
    does."""
    top = limit.low if limit is not None else (now.sides[0] or 0)
    if limit is not None and limit.by_outcome:
        top /= GROWTH  # right below such a limit some trials break by chance
    below = [one for one in now.seen if one.load <= top and one.load >= top / GROWTH]
    for name in {name for one in below for name in one.shares}:
        found = [one.shares[name] for one in below if name in one.shares]
        share, allowed = mean(bad for bad, _ in found), found[0][1]
        if share > allowed:
            failing = sum(bad > allowed for bad, _ in found)
            return (
                f"{name} fails at any load: in {failing} of {len(found)} trials at {round(top):,} or less, "
                f"{show_percent(share, 2)} of requests on average"
            )
    return ""


def _why_look(now: Progress) -> str:
    held, broke = now.sides
    if held is not None and broke is not None:
        return f"between {held:,}, which held, and {broke:,}, which broke"
    return f"a first look at {now.next_look:,}"

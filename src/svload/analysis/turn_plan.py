"""The turns of the sides of a block: their length and their order (benches/turns.md).

Fixed before the first turn, for all blocks and sides. Plain arithmetic, so that `svload plan` answers without
numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

from svload.analysis import limits
from svload.model.study import CaseConfig, Lock
from svload.study.order import draw, sets_of_cases, turned_factor

Turn = tuple[int, int]
"""[begin, end) in ns."""


class TurnPlan(NamedTuple):
    """The plan of turns: each side has one turn of `length_ns` in each round, and nobody sends during the
    pause after it."""

    length_ns: int
    pause_ns: int
    rounds: int

    @property
    def load_ns(self) -> int:
        """How long each side is loaded in a block."""
        return self.rounds * self.length_ns

    def seconds(self, sides: int) -> float:
        """Wall time of a block's turns."""
        return sides * self.rounds * (self.length_ns + self.pause_ns) / 1e9


def unmeasured_ns(p99_ns: float) -> tuple[float, float]:
    """A turn's head and tail, in which requests are made but do not count: the first ones find colder caches,
    and answers to the last ones would come after the turn."""
    return max(limits.TURN_HEAD_NS, limits.TURN_HEAD * p99_ns), p99_ns


def least_rounds(config: CaseConfig) -> int:
    """Return the fewest rounds of a block: of a start of its servers, or, where they run already, of a
    stretch of time."""
    return limits.TURN_PLANNED if config.starts_servers else limits.TURN_STRETCH


def least_load_ns(duration_ns: int, rounds: int) -> int:
    """Return how long each side is loaded in a block: short turns are more than `rounds`."""
    return max(duration_ns, rounds * limits.TURN_ROUND_NS)


def shortened(rounds: int) -> int:
    """Return the rounds of a block where time is short."""
    return min(rounds, limits.TURN_PLANNED)


def turn_plan(
    p99_ns: float, per_s: float, connections: int = 0, duration_ns: int = 0, rounds: int = limits.TURN_PLANNED
) -> TurnPlan:
    """Plan the turns from the warm-up: the slower side's p99, and the least rate of requests of a side (0:
    not known).

    A turn holds enough requests that count, excluding the first one of each connection after an off time.
    Beyond `TURN_MOST_NS` the p99 asks for no more than leaves half of a turn measured. `duration_ns` and
    `rounds`: how long, and in how many turns, each side is loaded at least.
    """
    by_p99_ns = limits.TURN_P99S * p99_ns
    by_p99_ns = min(by_p99_ns, max(limits.TURN_MOST_NS, 2 * sum(unmeasured_ns(p99_ns))))
    least_ns = max(limits.TURN_LEAST_NS, by_p99_ns)
    if per_s > 0:
        least, most = limits.TURN_HOLDS
        holds = min(max(connections, least), most)
        holds_ns = (holds + connections) / per_s * 1e9 + sum(unmeasured_ns(p99_ns))
        least_ns = max(least_ns, holds_ns)
    step_ns = limits.TURN_INTERVALS * 1_000_000
    low_ns, high_ns = limits.TURN_PAUSE_NS
    pause_ns = min(max(limits.TURN_PAUSE * p99_ns, low_ns), high_ns)
    length_ns = ceil(least_ns / step_ns) * step_ns
    rounds = max(rounds, ceil(duration_ns / length_ns))
    if per_s > 0:
        counted = per_s * (length_ns - sum(unmeasured_ns(p99_ns))) / 1e9 - connections
        rounds = max(rounds, ceil(limits.TURN_BLOCK_HOLDS / counted))
    return TurnPlan(length_ns, ceil(pause_ns), rounds)


def least_plan(duration_ns: int, rounds: int) -> TurnPlan:
    """Return the shortest turns of a block, before any warm-up."""
    return turn_plan(0.0, 0.0, duration_ns=least_load_ns(duration_ns, rounds), rounds=rounds)


def turns_of(plan: TurnPlan, sides: int, seed: int, block: int) -> list[tuple[Turn, ...]]:
    """Return the turns of each side in a block, from 0. The order within each round is drawn at random."""
    found: list[list[Turn]] = [[] for _ in range(sides)]
    at_ns = 0
    for round_ in range(plan.rounds):
        for side in sorted(range(sides), key=lambda one: draw(seed, "turn", block, round_, one)):
            found[side].append((at_ns, at_ns + plan.length_ns))
            at_ns += plan.length_ns + plan.pause_ns
    return [tuple(one) for one in found]


def seconds_apart(seed: int, block: int) -> float:
    """Return the time before a block of servers that run already, which makes it a separate stretch; drawn at
    random, so that no periodic event meets every block alike."""
    least_s, most_s = limits.TURN_APART_S
    return least_s + (most_s - least_s) * draw(seed, "apart", block) / 2**53


def sides_of(lock: Lock) -> list[list[str]]:
    """Return the cases of each set of sides that are up together; none where the study asks for no turns."""
    if lock.measure.order != "turns":
        return []
    return [[case.name for case in one] for one in sets_of_cases(lock.valid_cases, turned_factor(lock))]


def expected_turns(lock: Lock, configs: Mapping[str, CaseConfig]) -> dict[str, Any] | None:
    """Return what `svload plan` can tell about the turns before any warm-up: which cases take turns together,
    and the number and least length of turns; None where the study asks for none."""
    sets = [one for one in sides_of(lock) if len(one) > 1]
    if not sets:
        return None
    rounds = max(map(least_rounds, configs.values()))
    least = least_plan(lock.measure.duration_ns, rounds)
    return {
        "sides": sets,
        "rounds": least.rounds,
        "least_turn_s": least.length_ns / 1e9,
        "times_p99": limits.TURN_P99S,
        "holds": limits.TURN_HOLDS[0],
        "block_s": sum(least.seconds(len(one)) for one in sets),
    }

"""What every law is told: runs at several loads, as plain numbers, and the levels that they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["users", "rate", "think"]
"""What was varied: N users of a closed loop, arrivals a second of an open one, or the think time of N users."""


@dataclass(frozen=True)
class Run:
    """One run at one load. `response_s` is the mean, from due to done; `think_s` the mean pause
    of a user between two requests.

    `users` is None in an open loop, `rate_rps` in a closed one. `uses`: resource → how much of it was in use
    on average (cores, workers). `block`: runs of one block are left out together. `window_s` and
    `longest_cycle_s` (response and think time) bound the bias of completions that are counted in a window;
    None: not known, as of most tables.
    """

    throughput_rps: float
    response_s: float
    users: float | None = None
    rate_rps: float | None = None
    think_s: float = 0.0
    block: int = 0
    window_s: float | None = None
    longest_cycle_s: float | None = None
    uses: Mapping[str, float] = field(default_factory=dict)

    @property
    def cycle_s(self) -> float:
        """A user's mean cycle."""
        return self.response_s + self.think_s


@dataclass(frozen=True)
class Resource:
    """What requests use. `capacity` in the unit of its use: cores of a quota or a cpuset, workers. `kind`
    groups those that do not contain each other.
    """

    name: str
    kind: Literal["cpu", "cores", "workers", "rate"]
    capacity: float


@dataclass(frozen=True)
class Level:
    """All runs at one load; `at` is the value of what was varied."""

    at: float
    runs: tuple[Run, ...]

    @property
    def users(self) -> float | None:
        """N, of a closed loop."""
        return self.runs[0].users

    @property
    def think_s(self) -> float:
        return _mean(run.think_s for run in self.runs)

    @property
    def throughput_rps(self) -> float:
        """Mean over its runs."""
        return _mean(run.throughput_rps for run in self.runs)

    @property
    def response_s(self) -> float:
        """Mean over its runs."""
        return _mean(run.response_s for run in self.runs)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def value_of(run: Run, kind: Kind) -> float | None:
    """The value of what was varied; of think times to the nearest part in a thousand, since they are measured."""
    if kind == "think":
        return float(f"{run.think_s:.3g}")
    return run.users if kind == "users" else run.rate_rps


def levels_of(runs: Iterable[Run], kind: Kind) -> tuple[Level, ...]:
    """The runs by level, ascending; runs without that value are left out."""
    found: dict[float, list[Run]] = {}
    for run in runs:
        at = value_of(run, kind)
        if at is not None and run.throughput_rps > 0 and run.response_s > 0:
            found.setdefault(at, []).append(run)
    return tuple(Level(at, tuple(found[at])) for at in sorted(found))


def offered(levels: Sequence[Level], kind: Kind) -> list[float]:
    """What each level asks of the server, so that think times, too, ascend with load: users, rate, or N/(R +
    Z) at the shortest response seen.
    """
    if kind != "think":
        return [level.at for level in levels]
    shortest_s = min((level.response_s for level in levels), default=0.0)
    return [(level.users or 0.0) / max(shortest_s + level.think_s, 1e-12) for level in levels]


def by_load(levels: Sequence[Level], kind: Kind) -> list[Level]:
    """The levels from the least load to the largest."""
    loads = offered(levels, kind)
    return [levels[at] for at in sorted(range(len(levels)), key=lambda at: loads[at])]

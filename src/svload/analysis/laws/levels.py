"""The input of every law: runs at several loads, as plain numbers, and the levels that they form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, isfinite, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.inference import jackknife_error, t_reach

Floats = NDArray[np.float64]
Kind = Literal["users", "rate", "think"]
"""What was varied: N users of a closed loop, arrivals a second of an open one, or the think time of N users."""


@dataclass(frozen=True)
class Run:
    """One run at one load. `response_s` is the mean, from due to done; `think_s` the mean pause of a user
    between two requests.

    `users` is None in an open loop, `rate_rps` in a closed one. `uses`: resource → how much of it was in use
    on average (cores, workers). `block`: runs of one block are left out together. `window_s` and
    `longest_cycle_s` (response and think time) bound the bias of completions that are counted in a window;
    None: not known, as for most tables.
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
    """A resource that requests use. `capacity` in the unit of its use: cores of a quota or a cpuset, workers.
    `kind` groups those that do not contain each other."""

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
        """N, for a closed loop."""
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
    """Return the value of what was varied; think times to the nearest part in a thousand, since they are
    measured."""
    if kind == "think":
        return float(f"{run.think_s:.3g}")
    return run.users if kind == "users" else run.rate_rps


def levels_of(runs: Iterable[Run], kind: Kind) -> tuple[Level, ...]:
    """Return the runs by level, ascending; runs without that value are left out."""
    found: dict[float, list[Run]] = {}
    for run in runs:
        at = value_of(run, kind)
        if at is not None and run.throughput_rps > 0 and run.response_s > 0:
            found.setdefault(at, []).append(run)
    return tuple(Level(at, tuple(found[at])) for at in sorted(found))


def offered(levels: Sequence[Level], kind: Kind) -> list[float]:
    """Return what each level asks of the server, so that think times, too, ascend with load: users, rate, or
    N/(R + Z) at the shortest response seen."""
    if kind != "think":
        return [level.at for level in levels]
    shortest_s = min((level.response_s for level in levels), default=0.0)
    return [(level.users or 0.0) / max(shortest_s + level.think_s, 1e-12) for level in levels]


def by_load(levels: Sequence[Level], kind: Kind) -> list[Level]:
    """Return the levels from the least load to the largest."""
    loads = offered(levels, kind)
    return [levels[at] for at in sorted(range(len(levels)), key=lambda at: loads[at])]


State = Literal["bracketed", "below", "above", "edge", "none"]
"""below, above: it lies outside the levels on that side. edge: its interval extends beyond them. none: there
is no number."""


@dataclass(frozen=True)
class Limit:
    """A limit with its 95 % interval, and whether the levels bracket it. `reason`: why
    there is none, or what it rests on.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    state: State = "none"
    reason: str = ""


def placed(limit: Limit, at: Sequence[float]) -> Limit:
    """Return the limit with its state relative to the levels' values `at`."""
    if limit.value is None or not at:
        return replace(limit, state="none")
    low = limit.value if limit.low is None else limit.low
    high = limit.value if limit.high is None else limit.high
    first, last = min(at), max(at)
    state: State = "edge"
    if high < first or (high <= first and low < first):
        state = "below"
    elif low > last or (low >= last and high > last):
        state = "above"
    elif low > first and high < last:
        state = "bracketed"
    return replace(limit, state=state)


@dataclass(frozen=True)
class Bounds:
    """What no server can exceed, whatever its distributions (Muntz & Wong 1974; Lazowska et al. 1984, ch. 5).

    `top_rps` is 1/max(Dᵢ/mᵢ), `alone_s` is D: the response of a request that meets no others.
    """

    top_rps: float
    alone_s: float

    def throughput_rps(self, users: float, think_s: float) -> float:
        """Return the largest throughput that `users` can get."""
        return min(self.top_rps, users / max(self.alone_s + think_s, 1e-300))

    def response_s(self, users: float, think_s: float) -> float:
        """Return the least response that `users` can get."""
        return max(self.alone_s, users / self.top_rps - think_s)

    def at(self, level: Level, kind: Kind) -> tuple[float, float]:
        """Return (most throughput, least response) at a level."""
        if kind == "rate":
            return min(level.at, self.top_rps), self.alone_s
        users = level.users or 0.0
        return self.throughput_rps(users, level.think_s), self.response_s(users, level.think_s)


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval; None, None where there are too few blocks for one."""

    value: float
    low: float | None = None
    high: float | None = None


def jackknifed(estimate: Callable[[Sequence[Run]], float | None], runs: Sequence[Run]) -> Interval | None:
    """Return `estimate` of all runs, which is above 0, with its interval; None where it gives no value.

    One block is left out at a time (Efron; docs/method.md §2): the block is the unit of randomisation, so the
    interval includes whatever its runs share. On logarithms, t with B − 1 degrees of freedom.
    """
    value = _usable(estimate(runs))
    if value is None:
        return None
    blocks = sorted({run.block for run in runs})
    if len(blocks) < limits.CLAIM_BLOCKS:
        return Interval(value)
    left = [_usable(estimate([run for run in runs if run.block != block])) for block in blocks]
    logs = [log(one) for one in left if one is not None]
    if len(logs) < len(blocks):
        return Interval(value)
    half = t_reach(len(blocks) - 1) * jackknife_error(logs)
    return Interval(value, value * exp(-half), value * exp(min(half, 700.0 - abs(log(value)))))


def _usable(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) and value > 0 else None

"""The load that a plan asks for, computed independently of the engine's counts: the arrivals of an open loop
from seed, rate and time alone, and the user time of a closed loop.

It follows engine/README.md (the draws: splitmix64 over a group's name and an index) and shares no code with
the engine, so that a request that the engine never noticed is found missing here (docs/method.md §3,
accounting).
"""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from svload.analysis.view import GroupView
from svload.model.executors import ClosedLoop, OpenLoop
from svload.model.results import TrialSummary
from svload.model.study import CaseConfig
from svload.model.traffic import Group

ROUNDING = 1
"""Arrivals at the last nanosecond: two ways of rounding may differ by one."""
_PHASE, _ARRIVAL = 1, 2
_MOST = 20_000_000
"""Poisson arrivals that are drawn one by one; with more of them, nothing is planned."""
_PIECE = 1 << 18
_WORD = 0xFFFF_FFFF_FFFF_FFFF


def planned_vu_ns(config: CaseConfig, group: Group, window_ns: tuple[int, int]) -> float:
    """Return N·T of a closed group: Σ over its users of the part of the window in which each should be
    present.

    With a ramp or `start: together` that is N times the window's length; without a ramp users start spread
    over the first cycle (engine/docs/executors.md), and the time before a user's start does not count. In
    stages it is the integral of the line, in whole users.
    """
    executor = group.executor
    assert isinstance(executor, ClosedLoop)
    low, high = window_ns
    begin = config.begin_ns(group)
    return executor.users_ns(low - begin, high - begin)


def planned(trial: TrialSummary, config: CaseConfig, view: GroupView) -> int | None:
    """Return the arrivals due from the group's start to the load's end; None where the loop is not open or
    was stopped, or where its seed is not known.

    Also None where a feeder ends with its table, since that cuts the plan short.
    """
    executor = view.spec.executor
    if not isinstance(executor, OpenLoop) or trial.seed is None or trial.stopped != "end":
        return None
    if any(feeder.when_exhausted == "stop" for feeder in config.feeders):
        return None
    length_ns = trial.window_ns[1] - config.begin_ns(view.spec)
    level = executor.arrivals_until(length_ns)
    if executor.arrivals == "constant":
        return max(ceil(level - phase(trial.seed, view.spec.name)), 0)
    return poisson_until(trial.seed, view.spec.name, level)


def phase(seed: int, group: str) -> float:
    """Return where in its first gap a group's evenly spaced arrivals begin, in [0, 1)."""
    return float(_uniform(_key(seed, group, _PHASE), np.zeros(1, dtype=np.uint64))[0])


def poisson_until(seed: int, group: str, level: float) -> int | None:
    """Return how many sums of seeded exponentials with mean 1 lie below `level`; None where there are too
    many to draw."""
    if level + 8 * sqrt(level) > _MOST:
        return None
    key, total, first = _key(seed, group, _ARRIVAL), 0.0, 0
    while True:
        gaps = -np.log(1.0 - _uniform(key, np.arange(first, first + _PIECE, dtype=np.uint64)))
        sums = np.cumsum(np.concatenate([[total], gaps]))[1:]
        if sums[-1] >= level:
            return first + int(np.searchsorted(sums, level))
        total, first = float(sums[-1]), first + _PIECE


def _key(seed: int, group: str, stream: int) -> int:
    name = 0xCBF2_9CE4_8422_2325
    for byte in group.encode():
        name = (name ^ byte) * 0x0000_0100_0000_01B3 & _WORD
    return _mixed(_mixed(seed) ^ _mixed(name)) ^ _mixed(stream)


def _mixed(value: int) -> int:
    return int(_mix(np.array([value], dtype=np.uint64))[0])


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of splitmix64 (Steele, Lea & Flood, OOPSLA 2014)."""
    z = value + np.uint64(0x9E37_79B9_7F4A_7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return z ^ (z >> np.uint64(31))


def _uniform(key: int, index: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a uniform number in [0, 1), of 53 bits, for each index."""
    bits = _mix(_mix(np.uint64(key) ^ _mix(index)))
    return (bits >> np.uint64(11)).astype(np.float64) / float(1 << 53)

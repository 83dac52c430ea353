"""Asymptotic bounds (Muntz & Wong 1974; Lazowska et al. 1984, ch. 5): what no server can exceed, whatever its
distributions.

X ≤ min(1/max(Dᵢ/mᵢ), N/(D + Z)) and R ≥ max(D, N·max(Dᵢ/mᵢ) − Z); in an open loop X ≤ min(λ, 1/max(Dᵢ/mᵢ)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import stdtrit

from svload.analysis import limits
from svload.analysis.laws.levels import Kind, Level


@dataclass(frozen=True)
class Bounds:
    """Of one server. `top_rps` is 1/max(Dᵢ/mᵢ), `alone_s` is D: the response of a request that meets no other."""

    top_rps: float
    alone_s: float

    def throughput_rps(self, users: float, think_s: float) -> float:
        """The most that `users` can get."""
        return min(self.top_rps, users / max(self.alone_s + think_s, 1e-300))

    def response_s(self, users: float, think_s: float) -> float:
        """The least that they wait."""
        return max(self.alone_s, users / self.top_rps - think_s)

    def at(self, level: Level, kind: Kind) -> tuple[float, float]:
        """(most throughput, least response) at a level."""
        if kind == "rate":
            return min(level.at, self.top_rps), self.alone_s
        users = level.users or 0.0
        return self.throughput_rps(users, level.think_s), self.response_s(users, level.think_s)


def violated(bounds: Bounds, levels: Sequence[Level], kind: Kind) -> list[Level]:
    """Levels whose throughput lies above its bound by more than 5 % and more than its own interval: then a
    demand or a capacity is not what it seems.
    """
    return [
        level
        for level in levels
        if _least_rps(level) > (1 + limits.BOUND_EXCEEDED) * bounds.at(level, kind)[0]
    ]


def _least_rps(level: Level) -> float:
    """The lower end of the interval of its mean; with one run the mean itself."""
    values = np.array([run.throughput_rps for run in level.runs])
    if len(values) < 2:
        return level.throughput_rps
    half = float(stdtrit(len(values) - 1, 1 - limits.TAIL)) * float(values.std(ddof=1)) / sqrt(len(values))
    return level.throughput_rps - half

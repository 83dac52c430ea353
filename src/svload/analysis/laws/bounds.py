"""Asymptotic bounds (Muntz & Wong 1974; Lazowska et al. 1984, ch. 5): what no server can exceed, whatever its
distributions.

X ≤ min(1/max(Dᵢ/mᵢ), N/(D + Z)) and R ≥ max(D, N·max(Dᵢ/mᵢ) − Z); in an open loop X ≤ min(λ, 1/max(Dᵢ/mᵢ)).
"""

from __future__ import annotations

from dataclasses import dataclass

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

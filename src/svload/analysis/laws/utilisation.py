"""The utilisation law, U = X·D (Denning & Buzen 1978): a request's demand on a resource, by regression U = U₀
+ X·D over levels.

U comes from the processes' own accounts (their CPU, their workers), never from the host's, which include the
generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from svload.analysis import limits
from svload.analysis.inference import t_reach
from svload.analysis.laws.levels import Floats, Resource, Run, jackknifed

_LEAST_RUNS = 3


@dataclass(frozen=True)
class Demand:
    """D of one resource with its 95 % interval. `at_rest` is U₀; `rest_is_sure`: its interval lies above 0.
    `most_used`: the largest use of a run.

    `one_throughput`: the runs differ too little in throughput to separate U₀ from D, so U₀ is taken as 0.
    """

    resource: Resource
    demand_s: float
    low: float | None
    high: float | None
    at_rest: float
    rest_is_sure: bool
    most_used: float
    one_throughput: bool = False

    @property
    def free(self) -> float:
        """The capacity available to requests: without what the resource uses at rest, where that is
        certain."""
        return max(self.resource.capacity - (self.at_rest if self.rest_is_sure else 0.0), 1e-12)

    @property
    def per_server_s(self) -> float:
        """Dᵢ/mᵢ: the least time between two requests that it can sustain."""
        return self.demand_s / self.free

    @property
    def top_rps(self) -> float:
        """The most requests a second that it can sustain."""
        return 1 / self.per_server_s


@dataclass(frozen=True)
class Line:
    """U = at_rest + X·demand by least squares; `rest_half`: half of U₀'s 95 % interval, None where throughput
    does not vary."""

    demand_s: float
    at_rest: float
    rest_half: float | None
    one_throughput: bool = False


def line_of(throughput_rps: Floats, uses: Floats, sure: bool = True, one: bool = False) -> Line | None:
    """Return the regression; None with fewer than three runs, or where use does not (`sure`: surely) grow
    with throughput: something else causes it. `one`: all runs are at one throughput, and differ by chance."""
    x, u = np.asarray(throughput_rps, dtype=float), np.asarray(uses, dtype=float)
    if not len(x) or x.min() <= 0:
        return None
    if one or x.max() < limits.LOADS_APART * x.min():
        demand_s = float(u.sum() / x.sum())
        return Line(demand_s, 0.0, None, True) if demand_s > 0 else None
    if len(x) < _LEAST_RUNS:
        return None
    centred = x - x.mean()
    spread = float((centred**2).sum())
    demand_s = float((centred * u).sum()) / spread
    at_rest = float(u.mean()) - demand_s * float(x.mean())
    residual = u - at_rest - demand_s * x
    sd = sqrt(float((residual**2).sum()) / (len(x) - 2))
    t = t_reach(len(x) - 2)
    if demand_s <= (t * sd / sqrt(spread) if sure else 0.0):
        return None
    return Line(demand_s, at_rest, t * sd * sqrt(1 / len(x) + float(x.mean()) ** 2 / spread))


def demand_of(resource: Resource, runs: Sequence[Run]) -> Demand | None:
    """Return the resource's demand from every run that read its use; None where it cannot be determined."""
    runs = [run for run in runs if resource.name in run.uses and run.throughput_rps > 0]

    def slope(some: Sequence[Run]) -> float | None:
        found = line_of(*_points(resource.name, some), sure=False, one=one)
        return found.demand_s if found else None

    one = not _apart(runs)
    line = line_of(*_points(resource.name, runs), one=one)
    interval = jackknifed(slope, runs)
    if line is None or interval is None:
        return None
    return Demand(
        resource=resource,
        demand_s=line.demand_s,
        low=interval.low,
        high=interval.high,
        at_rest=line.at_rest,
        rest_is_sure=line.rest_half is not None and line.at_rest > line.rest_half,
        most_used=max(run.uses[resource.name] for run in runs),
        one_throughput=line.one_throughput,
    )


def _apart(runs: Sequence[Run]) -> bool:
    """Return whether the levels' mean throughputs differ: single runs of a full server scatter, and separate
    U₀ from D by chance alone."""
    found: dict[object, list[float]] = {}
    for run in runs:
        found.setdefault((run.users, run.rate_rps, f"{run.think_s:.2g}"), []).append(run.throughput_rps)
    means = [sum(rates) / len(rates) for rates in found.values()]
    return len(means) > 1 and max(means) >= limits.LOADS_APART * min(means)


def _points(name: str, runs: Sequence[Run]) -> tuple[Floats, Floats]:
    return np.array([run.throughput_rps for run in runs]), np.array([run.uses[name] for run in runs])


def top_of(demand: Demand, runs: Sequence[Run]) -> float | None:
    """Return what the resource can sustain a second by these runs alone, given its use at rest from all
    runs."""
    line = line_of(
        *_points(demand.resource.name, [run for run in runs if demand.resource.name in run.uses]),
        sure=False,
        one=demand.one_throughput,
    )
    if line is None:
        return None
    return (
        max(demand.resource.capacity - (line.at_rest if demand.rest_is_sure else 0.0), 1e-12) / line.demand_s
    )


def demands_of(resources: Sequence[Resource], runs: Sequence[Run]) -> tuple[Demand, ...]:
    """Return every resource's demand, with the first one to be full in front."""
    found = [one for resource in resources if (one := demand_of(resource, runs)) is not None]
    return tuple(sorted(found, key=lambda one: one.top_rps))

"""N* = (D + Z)/max(Dᵢ/mᵢ): where the two asymptotes of throughput meet, and users begin to wait for one
another (Kleinrock 1968; Denning & Buzen 1978).

max(Dᵢ/mᵢ) comes from the resources' demands (the utilisation law). Where none of them is the bottleneck
(throughput is flat far below what they can bear), or none was read, it comes from the flat throughput itself.
D is the response of a request that meets no others: that at the least load, minus the waiting that mean value
analysis finds there. The waiting is exact for exponential service and for processor sharing; the interval is
widened by half of it, which is what constant service would save.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from svload.analysis import limits
from svload.analysis.laws.levels import (
    Floats,
    Interval,
    Kind,
    Level,
    Limit,
    Resource,
    Run,
    by_load,
    jackknifed,
    levels_of,
    placed,
)
from svload.analysis.laws.throughput import flat_levels, plateau_rps
from svload.analysis.laws.utilisation import Demand, demands_of, top_of

NO_GROUND = "no monitored resource limits the server, and throughput still grows"
_MOST_USERS = 2_000
"""Mean value analysis counts them one by one; waiting at a least load above this is not subtracted."""


@dataclass(frozen=True)
class Ground:
    """The basis of a limit: `bottleneck` is the resource that is full first, None where only flat throughput
    shows the capacity."""

    bottleneck: Demand | None
    demands: tuple[Demand, ...]


def ground_of(runs: Sequence[Run], resources: Sequence[Resource], kind: Kind) -> Ground | None:
    """Return whether the resources' demands or flat throughput determine the server's capacity; None where
    neither does.

    Where a resource was used beyond its capacity, that capacity was assumed wrongly, and its demand means
    nothing.
    """
    demands = demands_of(resources, runs)
    sound = all(one.most_used <= limits.MOST_USED * one.resource.capacity for one in demands)
    flat = plateau_rps(flat_levels(levels_of(runs, kind), kind))
    if demands and sound and (flat is None or flat >= limits.LIMIT_SEEN * demands[0].top_rps):
        return Ground(demands[0], demands)
    return Ground(None, demands) if flat is not None else None


def top_rps(ground: Ground, runs: Sequence[Run], kind: Kind) -> float | None:
    """Return 1/max(Dᵢ/mᵢ), from these runs."""
    if ground.bottleneck is not None:
        return top_of(ground.bottleneck, runs)
    return plateau_rps(flat_levels(levels_of(runs, kind), kind))


def top_interval(runs: Sequence[Run], ground: Ground, kind: Kind) -> Interval | None:
    """Return the same with its interval: the rate at which an open loop would fill the server."""
    return jackknifed(lambda some: top_rps(ground, some, kind), runs)


@dataclass(frozen=True)
class Alone:
    """D at one level, and how much waiting was subtracted to find it."""

    response_s: float
    waiting_s: float


def alone_of(level: Level, ground: Ground, most_rps: float) -> Alone:
    """Find D from the least loaded level of a closed loop."""
    users = round(level.users or 0)
    if users <= 1 or users > _MOST_USERS:
        return Alone(level.response_s, 0.0)
    stations = _stations(ground, most_rps)
    known_s = sum(station.demand_s for station in stations)

    def response_s(rest_s: float) -> float:
        return rest_s + float(mean_values(stations, level.think_s + rest_s, users).response_s[-1])

    # A full server's response does not show the rest: there is one only if the stations cannot explain it all.
    full = abs(response_s(0.0) / level.response_s - 1) <= limits.FLAT
    rest_s = 0.0 if full else _solved(response_s, level.response_s)
    # Where the response is less than the stations alone would take, scale everything down.
    alone_s = level.response_s * known_s / response_s(0.0) if rest_s is None else known_s + rest_s
    waiting_s = max(level.response_s - alone_s, 0.0)
    if (
        ground.bottleneck is None
    ):  # it is not known how many servers share the work: between none and all of the waiting
        return Alone(level.response_s - waiting_s / 2, waiting_s)
    return Alone(alone_s, waiting_s)


def _stations(ground: Ground, most_rps: float) -> list[Station]:
    """Return the stations that a request visits: of resources that contain each other only the bottleneck."""
    first = ground.bottleneck
    if first is None:
        return [Station(1 / most_rps)]
    alike = [one for one in ground.demands if one.resource.kind == first.resource.kind == "cpu"] or [first]
    servers = [max(1, round(one.resource.capacity)) for one in alike]
    return [Station(one.per_server_s * m, m) for one, m in zip(alike, servers, strict=True)]


def _solved(response_s: Callable[[float], float], wanted_s: float) -> float | None:
    """Return the pure delay that gives the model the wanted response; None where the response is longer even
    without a delay."""
    low, high = 0.0, wanted_s
    if response_s(low) > wanted_s:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if response_s(middle) < wanted_s else (low, middle)
    return (low + high) / 2


def n_star(runs: Sequence[Run], resources: Sequence[Resource]) -> tuple[Limit, Ground | None]:
    """Return N* of runs at several numbers of users, with its interval and whether the levels bracket it."""
    ground = ground_of(runs, resources, "users")
    if ground is None:
        return Limit(None, reason=f"{NO_GROUND} with the most users"), None
    found = jackknifed(partial(_users_of, ground), runs)
    levels = levels_of(runs, "users")
    if found is None or not levels:
        return Limit(None, reason="there are too few levels"), ground
    low, high = _widened(found, ground, levels[0], top_rps(ground, runs, "users") or 0.0)
    return placed(
        Limit(found.value, low, high, reason=_rests_on(ground)), [level.at for level in levels]
    ), ground


def _users_of(ground: Ground, runs: Sequence[Run]) -> float | None:
    levels, most_rps = levels_of(runs, "users"), top_rps(ground, runs, "users")
    if not levels or most_rps is None:
        return None
    return (alone_of(levels[0], ground, most_rps).response_s + levels[0].think_s) * most_rps


def _widened(
    found: Interval, ground: Ground, least: Level, most_rps: float
) -> tuple[float | None, float | None]:
    """Widen the interval by half of the waiting that was subtracted."""
    if found.low is None or found.high is None:
        return None, None
    alone = alone_of(least, ground, most_rps)
    share = limits.WAITING_UNSURE * alone.waiting_s / (alone.response_s + least.think_s)
    return found.low * (1 - share), found.high * (1 + share)


def think_limit(runs: Sequence[Run], resources: Sequence[Resource]) -> tuple[Limit, Ground | None]:
    """Return the saturation think time, Z* = N·max(Dᵢ/mᵢ) − D: with a shorter pause, N users are more than
    the server can serve without a queue.

    For runs with varied think time at one number of users. A server that N users cannot saturate has none.
    """
    ground = ground_of(runs, resources, "think")
    if ground is None:
        return Limit(None, reason=f"{NO_GROUND} with the shortest think time"), None
    levels = levels_of(runs, "think")
    cycle = jackknifed(partial(_full_cycle_s, ground), runs)
    alone = jackknifed(partial(_alone_s, ground), runs)
    if cycle is None or alone is None:
        return Limit(None, reason="there are too few levels"), ground
    value = cycle.value - alone.value
    if value <= 0:
        return Limit(None, reason="these users can't saturate it with any think time"), ground
    low, high = None, None
    if cycle.low is not None and cycle.high is not None and alone.low is not None and alone.high is not None:
        half = ((cycle.high - cycle.low) ** 2 + (alone.high - alone.low) ** 2) ** 0.5 / 2
        low, high = max(value - half, 0.0), value + half
    return placed(Limit(value, low, high, reason=_rests_on(ground)), [level.at for level in levels]), ground


def _full_cycle_s(ground: Ground, runs: Sequence[Run]) -> float | None:
    """Return N·max(Dᵢ/mᵢ): a user's cycle when the server is just full."""
    levels, most_rps = levels_of(runs, "think"), top_rps(ground, runs, "think")
    return (levels[0].users or 0.0) / most_rps if levels and most_rps else None


def _alone_s(ground: Ground, runs: Sequence[Run]) -> float | None:
    levels, most_rps = by_load(levels_of(runs, "think"), "think"), top_rps(ground, runs, "think")
    return alone_of(levels[0], ground, most_rps).response_s if levels and most_rps else None


def _rests_on(ground: Ground) -> str:
    if ground.bottleneck is None:
        return "from flat throughput: none of the monitored resources is the limit"
    return f"from the demand of {ground.bottleneck.resource.name}"


@dataclass(frozen=True)
class Station:
    """A station: the mean service that a request needs there, and how many requests it serves at once."""

    demand_s: float
    servers: int = 1


@dataclass(frozen=True)
class MeanValues:
    """By number of users, from 1: throughput and mean response (without think time)."""

    throughput_rps: Floats
    response_s: Floats


def mean_values(stations: Sequence[Station], think_s: float, users: int) -> MeanValues:
    """Return throughput and response with 1 to `users` users, by exact mean value analysis of a closed
    network with one class of requests (Reiser & Lavenberg 1980; Lazowska et al. 1984, ch. 6 and 20).

    Stations are FCFS with exponential service or share their processor. Think time is a delay.
    """
    queue = np.zeros(len(stations))
    # p[i][j]: the probability that j are at station i, for j below its number of servers
    p = [np.eye(1, station.servers)[0] for station in stations]
    throughput, response = np.zeros(users), np.zeros(users)
    for n in range(1, users + 1):
        residence = np.array([_residence_s(station, queue[at], p[at]) for at, station in enumerate(stations)])
        response[n - 1] = residence.sum()
        throughput[n - 1] = x = n / max(think_s + response[n - 1], 1e-300)
        queue = x * residence
        p = [_probabilities(station, x, p[at]) for at, station in enumerate(stations)]
    return MeanValues(throughput, response)


def _residence_s(station: Station, queue: float, p: Floats) -> float:
    m = station.servers
    idle = sum((m - 1 - j) * p[j] for j in range(m - 1))
    return float(station.demand_s / m * (1 + queue + idle))


def _probabilities(station: Station, throughput_rps: float, before: Floats) -> Floats:
    m, load = station.servers, station.demand_s * throughput_rps
    p = np.zeros(m)
    for j in range(1, m):
        p[j] = load / j * before[j - 1]
    p[0] = max(0.0, 1 - (load + sum((m - j) * p[j] for j in range(1, m))) / m)
    return p

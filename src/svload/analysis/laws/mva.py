"""Exact mean value analysis of a closed network with one class of requests (Reiser & Lavenberg 1980;
Lazowska et al. 1984, ch. 6 and 20).

Stations are FCFS with exponential service or share their processor; one has several servers where
`servers` > 1. Think time is a delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from svload.analysis.laws.levels import Floats


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
    """Return throughput and response with 1 to `users` users."""
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

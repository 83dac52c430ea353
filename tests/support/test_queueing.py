"""The simulated networks against mean value analysis, Erlang's formula, and operational identities."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from tests.support.queueing import Closed, Station, poisson, simulate_closed, simulate_open

from svload.analysis.laws.n_star import Station as Known
from svload.analysis.laws.n_star import mean_values

REPEATS, REQUESTS = 40, 1_000
NETWORKS = {
    "one core": ((Station(0.01),), 0.05),
    "four cores": ((Station(0.01, 4),), 0.02),
    "no think time": ((Station(0.01), Station(0.004)), 0.0),
    "three stations": ((Station(0.01), Station(0.02, 3), Station(0.005)), 0.1),
}


@pytest.mark.parametrize("name", list(NETWORKS))
def test_a_closed_network_is_what_mean_value_analysis_says(name: str) -> None:
    stations, think_s = NETWORKS[name]
    users = (1, 4, 12)
    known = mean_values([Known(one.mean_s, one.servers) for one in stations], think_s, users[-1])
    networks = [Closed(stations, n, think_s) for n in users for _ in range(REPEATS)]
    seen = simulate_closed(networks, REQUESTS, seed=7)
    for place, n in enumerate(users):
        mine = seen[place * REPEATS : (place + 1) * REPEATS]
        throughput = np.mean([one.throughput_rps for one in mine])
        response = np.mean([one.response_s for one in mine])
        assert throughput == pytest.approx(known.throughput_rps[n - 1], rel=0.015)
        assert response == pytest.approx(known.response_s[n - 1], rel=0.03)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (1, 0.8), (4, 0.7)])
def test_an_open_queue_waits_as_erlang_says(servers: int, load: float) -> None:
    service_s, rate_rps = 0.01, load * servers / 0.01
    offered = load * servers
    waits = offered**servers / factorial(servers) / (1 - load)
    waits /= waits + sum(offered**k / factorial(k) for k in range(servers))
    known = service_s + waits * service_s / servers / (1 - load)
    response_s = simulate_open(Station(service_s, servers), poisson(rate_rps, 60_000, 5), seed=6)
    assert response_s[1_000:].mean() == pytest.approx(known, rel=0.06)


def test_mean_values_of_machines_and_one_repairman() -> None:
    """Closed form: M/M/1//N."""
    service_s, think_s, users = 0.01, 0.05, 9
    ratio = service_s / think_s
    weights = [factorial(users) / factorial(users - k) * ratio**k for k in range(users + 1)]
    busy = 1 - weights[0] / sum(weights)
    found = mean_values([Known(service_s)], think_s, users)
    assert found.throughput_rps[-1] == pytest.approx(busy / service_s)

"""A known server under users, rates and a ramp: the limits that a study reports without being asked follow
by arithmetic (10 ms of service, two workers)."""

from __future__ import annotations

from typing import Any

import pytest

from svload.analysis.laws.every import Laws, laws_of
from svload.analysis.laws.levels import Kind, Resource, Run

from .world import World

pytestmark = [pytest.mark.truth, pytest.mark.timing("server")]
SERVICE_S, THINK_S, WORKERS = 0.01, 0.04, 2
N_STAR = (SERVICE_S + THINK_S) / (SERVICE_S / WORKERS)
FULL_RPS = WORKERS / SERVICE_S
HEAD = f"""\
name: loads
lab: {{server: {{kit: truth, role: store, service_time: 10 ms, spin: 60 us, workers: {WORKERS}}}}}
requests: {{get: {{get: http://server/v1/a/c/o, expect_status: 404}}}}
"""


def judged(world: World, text: str) -> dict[str, Any]:
    return world.run(world.study(HEAD + text))


def laws(found: dict[str, Any], kind: Kind) -> Laws:
    """Return the laws' results for every trial."""
    runs, capacity = [], {}
    for trial in found["trials"]:
        metrics, load = trial["metrics"], trial["loads"]["load"]
        capacity |= {
            use["name"]: Resource(use["name"], use["kind"], use["capacity"]) for use in trial["uses"]
        }
        runs.append(
            Run(
                throughput_rps=metrics["load.throughput"]["value"],
                response_s=metrics["load.response.mean"]["value"],
                users=load["users"],
                rate_rps=load["rate_rps"],
                think_s=load["think_s"],
                block=trial["block"],
                uses={use["name"]: use["used"] for use in trial["uses"]},
            )
        )
    result = laws_of(runs, list(capacity.values()), kind)
    assert result is not None
    return result


@pytest.mark.timing("engine")
def test_users_begin_to_wait_at_n_star(world: World) -> None:
    found = judged(
        world,
        """\
factors: {users: [2, 4, 7, 14, 20, 30]}
traffic: {load: {executor: constant-vus, vus: "${users}", think_time: {exponential: 40 ms}, request: get}}
measure: {duration: 2s, replicates: 3}
""",
    )
    result = laws(found, "users")
    assert result.limit.value == pytest.approx(N_STAR, rel=0.15)
    assert result.ground.bottleneck.resource.name == "workers of server"
    assert result.ground.bottleneck.demand_s == pytest.approx(SERVICE_S, rel=0.1)
    assert result.bounds.top_rps == pytest.approx(FULL_RPS, rel=0.1)
    states = {case["levels"]["users"]: case["server"] for case in found["cases"]}
    assert states["30"] == "SATURATED"
    assert states["2"] != "SATURATED"
    assert [curve["kind"] for curve in found["curves"]] == ["users"]
    assert any(one["kind"] == "law" for one in found["findings"])


def test_a_ramp_breaks_where_the_workers_are_full(world: World) -> None:
    found = judged(
        world,
        """\
traffic: {load: {executor: ramping-arrival-rate, stages: [{duration: 6s, target: 400/s}], max_vus: 2000, request: get}}
measure: {duration: 6s, replicates: 1}
""",
    )
    breaks = {one["what"]: one for one in found["trials"][0]["breaks"]}
    assert breaks["response"]["at"] == pytest.approx(FULL_RPS, rel=0.15), breaks
    assert breaks["errors"]["at"] is None
    assert any("response time starts to rise faster at" in one["sentence"] for one in found["findings"])

"""A known server under users, rates and a ramp: the limits that a study reports without being asked follow
by arithmetic (10 ms of service, two workers)."""

from __future__ import annotations

from typing import Any

import pytest

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
    [curve] = found["curves"]
    limits = {limit["name"]: limit["value"] for limit in curve["limits"]}
    assert limits["N*"] == pytest.approx(N_STAR, rel=0.15)
    [bottleneck] = [one for one in curve["demands"] if one["bottleneck"]]
    assert bottleneck["resource"] == "workers of server"
    assert bottleneck["demand_s"] == pytest.approx(SERVICE_S, rel=0.1)
    assert curve["top_rps"] == pytest.approx(FULL_RPS, rel=0.1)
    states = {case["levels"]["users"]: case["server"] for case in found["cases"]}
    assert states["30"] == "SATURATED"
    assert states["2"] != "SATURATED"
    assert curve["kind"] == "users"
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

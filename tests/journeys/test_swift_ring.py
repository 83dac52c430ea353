"""Real Swift: a ring with one object server stopped during the load, an expiring token, a 1 GiB object."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from .ring import STUDY, peak_rss_bytes, requests, run_with_a_stop
from .world import World, complete, only_run

pytestmark = pytest.mark.real
MIB = 1 << 20


@pytest.fixture
def world(tmp_path: Path, cache: Path, needs: Callable[..., None]) -> World:
    needs("memcached")
    made = World(tmp_path, cache, anew=True)
    made.succeed("lab", "install", str(STUDY / "ring.yaml"))
    return made


def test_what_is_read_is_what_was_written_while_an_object_server_stands_still(world: World) -> None:
    run = run_with_a_stop(world, STUDY / "ring.yaml", "demo", "/object-2-server.conf", from_s=4.0, to_s=8.0)
    found = requests(world, run)
    by_outcome = {row["outcome"]: row for row in found}
    assert {"lost", "altered"}.isdisjoint(by_outcome), found
    assert by_outcome["verified"]["requests"] > 0, found
    assert by_outcome["stored"]["requests"] > 0, found
    assert max(row["longest_s"] for row in found) > 2, "nobody waited for the server that stood still"
    [every] = world.query("select count(*) as made from samples")
    assert sum(row["requests"] for row in found) == every["made"], "each request is told"
    assert world.silent() == []


RENEWED = """\
name: renewed
lab: {swift: {kit: swift, users: {"lab:reader": reading}, token_life: 2s}}
setup:
  - {request: token, renew: 10min}
  - {put: http://swift/v1/AUTH_lab/c, headers: {X-Auth-Token: "${token}"}}
requests:
  token: {get: http://swift/auth/v1.0, headers: {X-Auth-User: "lab:reader", X-Auth-Key: reading}, take: {token: {header: X-Auth-Token}}}
  list: {get: http://swift/v1/AUTH_lab/c?format=json, headers: {X-Auth-Token: "${token}"}}
traffic: {users: {executor: constant-vus, vus: 3, think_time: 100ms, record: rows, request: list}}
measure: {duration: 8s, replicates: 1}
"""


def test_a_token_that_has_ended_fails_a_request_and_is_renewed_by_another(world: World) -> None:
    world.run(world.study(RENEWED))
    asked = world.query("select vu, seq, step, status, error_name from samples order by vu, begun_ns")
    renewals = {row["step"] for row in asked if row["status"] == 200} - {0}
    assert len(renewals) == 1, "the renewal is a step of its own"
    [renewal] = renewals
    refused = [row for row in asked if row["status"] == 401]
    assert {row["error_name"] for row in refused} == {"status"}, "a refused request stays a failed one"
    assert {row["vu"] for row in refused} == {0, 1, 2}, "each user's token ended"
    for before, after in pairwise(asked):
        if before["status"] == 401 and before["vu"] == after["vu"]:
            assert (after["step"], after["status"]) == (renewal, 200), (before, after)
    renewed = [row for row in asked if row["step"] == renewal]
    assert len(refused) - 3 <= len(renewed) <= len(refused), "no renewal without a 401"
    assert sum(row["status"] == 200 and row["step"] == 0 for row in asked) > 0


@pytest.mark.parametrize("profile", [None, "ring"])
def test_an_object_of_a_gibibyte_both_ways(world: World, profile: str | None) -> None:
    which = ("--profile", profile) if profile else ()
    with world.start("run", str(STUDY / "large.yaml"), *which, "--out", str(world.runs)) as command:
        most = peak_rss_bytes(world, command)
        command.end()
    complete(only_run(world), command.said)
    asked = world.query("select status, error_name, body_bytes from samples order by step")
    assert [(row["status"], row["error_name"]) for row in asked] == [(201, ""), (200, ""), (204, "")], asked
    assert asked[1]["body_bytes"] == 1024 * MIB
    assert 0 < most <= 100 * MIB


@pytest.mark.parametrize("planted", [False, True])
def test_an_object_in_segments_comes_back_by_each_segments_digest(world: World, planted: bool) -> None:
    text = (STUDY / "segments.yaml").read_text()
    if planted:
        assert text.count("md5 == ${etag_3}") == 1
        text = text.replace("md5 == ${etag_3}", "md5 == ${etag_2}")
    world.run(world.study(text), "--only", "size-4MiB")
    asked = world.query("select status, error_name, body_bytes from samples order by begun_ns")
    found = [(row["status"], row["error_name"]) for row in asked]
    upload = [*5 * [(201, "")], (200, "")]
    if planted:
        assert found == [*upload, (206, ""), (206, ""), (206, "check")]
        return
    assert found == [*upload, *5 * [(206, "")], (200, "")]
    assert [row["body_bytes"] for row in asked[5:11]] == [4 * MIB, *4 * [MIB], 2000]

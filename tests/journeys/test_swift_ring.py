"""Real Swift: a ring with one object server stopped during the load, an object in segments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .ring import STUDY, requests, run_with_a_stop
from .world import World

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


def test_an_object_in_segments_comes_back_by_each_segments_digest(world: World) -> None:
    world.run(STUDY / "segments.yaml", "--only", "size-4MiB")
    asked = world.query("select status, error_name, body_bytes from samples order by begun_ns")
    found = [(row["status"], row["error_name"]) for row in asked]
    assert found == [*5 * [(201, "")], (200, ""), *5 * [(206, "")], (200, "")]
    assert [row["body_bytes"] for row in asked[5:11]] == [4 * MIB, *4 * [MIB], 2000]

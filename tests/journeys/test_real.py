"""The same journeys on real servers: Swift behind Varnish over HTTP and HTTPS, nginx, and a gate on two
builds. Small loads, short trials."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from .kills import VICTIMS, Moment, check_end, play
from .world import World, assert_valid, only_run

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
TINY = """\
  tiny:
    data: {objects: {containers: 10, count: 200, size: 8 KiB}}
    traffic: {background: {vus: 8, generators: 1, ramp_up: 0.5s}}
    measure: {duration: 2s, replicates: 1}
"""
CASES = "TC3,TC7,TC20"
"""Hits of the cache, no cache, and misses of the cache over TLS."""


@pytest.fixture
def world(tmp_path: Path, cache: Path, needs: Callable[..., None]) -> World:
    needs("root", "varnishd", "hitch", "memcached")
    return World(tmp_path, cache, anew=True)


@pytest.fixture
def study(world: World, tmp_path: Path) -> str:
    """Write studies/001-svload with a profile that a test can afford; the servers are the study's own."""
    folder = tmp_path / "001-svload"
    shutil.copytree(ROOT / "studies" / "001-svload", folder, ignore=shutil.ignore_patterns("runs"))
    file = folder / "study.yaml"
    file.write_text(file.read_text().rstrip("\n") + "\n" + TINY)
    world.succeed("lab", "install", str(folder))
    return str(folder)


@pytest.mark.smoke
def test_the_study_on_swift_and_varnish(world: World, study: str) -> None:
    for trial in world.run(study, "--profile", "tiny", "--only", CASES)["trials"]:
        assert_valid(trial, "accounting", "manipulation", "reconciliation")
        assert trial["metrics"]["probe.success_rate"]["value"] == 1.0
    rows = world.query("select service, count(distinct metric) as metrics from monitors group by 1")
    watched = {row["service"]: row["metrics"] for row in rows}
    assert watched.get("cache", 0) > 5 and watched.get("backend", 0) > 5, watched
    world.succeed("verify", str(only_run(world)))
    assert world.left() == []


def test_three_kills_on_the_real_lab_lose_nothing(world: World, study: str) -> None:
    names = VICTIMS | {"server": "varnishd"}
    moments = [
        Moment("server", "load", 0, 0.3),
        Moment("agent", "load", 0, 0.2),
        Moment("controller", "warm", 1, 0.1),
    ]
    args = (study, "--profile", "tiny", "--only", CASES, "--replicates", "2", "--duration", "1s")
    play(world, moments, args, names)
    check_end(world, trials=6)


@pytest.mark.smoke
def test_a_real_nginx_from_few_users_to_many(world: World, needs: Callable[..., None]) -> None:
    needs("nginx")
    example = str(ROOT / "examples" / "nginx-sweep")
    planned = world.json("plan", example)
    chosen = [case["name"] for case in planned["cases"] if case["levels"]["users"] in ("1", "8", "64")]
    assert len(chosen) == 3
    args = ("--only", ",".join(chosen), "--replicates", "1", "--duration", "0.3s")
    for trial in world.run(example, *args)["trials"]:
        assert_valid(trial, "accounting", "reconciliation", "manipulation")
        assert trial["metrics"]["visitors.success_rate"]["value"] == 1.0
    assert world.silent() == []


@pytest.mark.timing
def test_a_gate_on_two_builds_stops_the_slower_one(world: World) -> None:
    example = str(ROOT / "examples" / "two-builds")
    found = world.json("run", example, "--trust", "--duration", "2s", "--out", str(world.runs))
    claim = found["findings"]["claims"][0]
    assert claim["gate"]["outcome"] == "fail", claim["sentence"]
    assert claim["ratio"]["low"] > 1.05
    assert (found["complete"], found["exit_code"]) == (True, 1)
    assert world.silent() == []

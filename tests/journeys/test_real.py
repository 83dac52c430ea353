"""The same journeys on real servers: Swift behind Varnish over HTTP and HTTPS, nginx, and a gate on two
builds. Small loads, short trials."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from .kills import VICTIMS, Moment, check_end, play
from .world import World, assert_valid, lab_of, only_run

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
TINY = """\
  tiny:
    data: {objects: {containers: 10, count: 200, size: 8 KiB}}
    traffic: {background: {vus: 8, generators: 1, ramp_up: 0.5s}}
    measure: {duration: 2s, replicates: 1}
"""
CASES = {"TC3": ("http", "cache-hit"), "TC7": ("http", "backend"), "TC20": ("https", "cache-miss")}


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
    for trial in world.run(study, "--profile", "tiny", "--only", ",".join(CASES))["trials"]:
        assert_valid(trial, "accounting", "manipulation", "reconciliation")
        assert trial["metrics"]["probe.success_rate"]["value"] == 1.0
    run = only_run(world)
    assert len(list(run.glob("trials/*/seal.json"))) == 3
    _look_at_the_rows(world)
    _look_at_the_counters(run)
    world.succeed("verify", str(run))
    assert world.left() == []


def _look_at_the_rows(world: World) -> None:
    sql = (
        "select case_name, min(appconnect_ns) as least, max(appconnect_ns) as most, count(*) as n from samples "
        "where group_name = 'probe' and error = 0 group by 1"
    )
    rows = world.query(sql)
    assert {row["case_name"] for row in rows} == set(CASES)
    for row in rows:
        assert row["n"] > 0
        if CASES[row["case_name"]][0] == "https":
            assert row["least"] > 0, "every transfer over a new connection shakes hands"
        else:
            assert row["most"] == 0
    sql = "select service, count(distinct metric) as metrics from monitors group by 1"
    watched = {row["service"]: row["metrics"] for row in world.query(sql)}
    assert watched.get("cache", 0) > 5
    assert watched.get("backend", 0) > 5


def _look_at_the_counters(run: Path) -> None:
    """Check Varnish's counters: hits in the hit case, none in the others, nothing where it is bypassed."""
    for case, (_, server) in CASES.items():
        lab = lab_of(run, f"{case}.r1")
        before, after = lab["before"]["cache"]["values"], lab["after"]["cache"]["values"]
        grown = {name: after[name] - before[name] for name in ("hits", "misses", "requests")}
        if server == "backend":
            assert grown["requests"] == 0
        elif server == "cache-hit":
            assert grown["hits"] >= 0.99 * grown["requests"] > 0
        else:
            assert grown["hits"] <= 0.01 * grown["requests"]
            assert grown["misses"] > 0


def test_three_kills_on_the_real_lab_lose_nothing(world: World, study: str) -> None:
    names = VICTIMS | {"server": "varnishd"}
    moments = [
        Moment("server", "load", 0, 0.3),
        Moment("agent", "load", 0, 0.2),
        Moment("controller", "warm", 1, 0.1),
    ]
    args = (study, "--profile", "tiny", "--only", ",".join(CASES), "--replicates", "2", "--duration", "1s")
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

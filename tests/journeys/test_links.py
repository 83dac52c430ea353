"""A service behind a link of its own: users see its rate and its latency, others go on as they
do, and nothing is left of it."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svload.host.machine import fabric, linux

from .world import World, checks_of, only_run

pytestmark = pytest.mark.real
RATE = 1_250_000
SITE = {"kit": "nginx", "files": {"/a": "20 KiB", "/small": "1 KiB"}}


def run(world: World, **more: Any) -> dict[str, Any]:
    folder = world.root / "linked"
    folder.mkdir()
    study = {
        "name": "linked",
        "lab": {"site": SITE},
        "traffic": {"users": {"executor": "constant-vus", "vus": 4, "request": "GET http://site/a"}},
        "measure": {"duration": "0.5s", "replicates": 1},
    }
    (folder / "study.yaml").write_text(json.dumps({**study, **more}))
    before = socket.if_nameindex()
    found = world.run(folder, "--trust")
    assert socket.if_nameindex() == before
    return found


def services(world: World, trial: dict[str, Any]) -> dict[str, dict[str, Any]]:
    lab = json.loads((only_run(world) / "trials" / trial["trial"] / "lab.json").read_text())
    return {one["service"]: one for one in lab["services"]}


@pytest.fixture(autouse=True)
def _able(needs: Callable[..., None]) -> None:
    needs("root", "nginx")
    if why := fabric.lacking(latency=True):
        pytest.skip(why)


def used_percent(sentence: str) -> float:
    """How much of its link the site used."""
    told = re.search(r"site used ([\d.]+) % of its", sentence)
    assert told is not None, sentence
    return float(told[1])


@pytest.mark.timing
def test_its_rate_is_what_users_get(world: World) -> None:
    lab = {"site": {**SITE, "link": {"rate": "10 Mbit/s"}}}
    [trial] = run(world, lab=lab, measure={"duration": "3s", "replicates": 1})["trials"]
    acted = checks_of(trial)["limits-acted"]
    assert acted["grade"] == "VALID", acted["sentence"]
    assert "site used" in acted["sentence"]
    assert "of its 1.25 MB/s of link" in acted["sentence"]
    assert 80 < used_percent(acted["sentence"]) < 103
    answers = trial["metrics"]["users.throughput"]["value"]
    assert 0.75 < answers * 20_480 / RATE < 1.02, "what is not payload is headers"


@pytest.mark.smoke
def test_a_rate_is_set_on_a_link_of_its_own(world: World) -> None:
    [trial] = run(world, lab={"site": {**SITE, "link": {"rate": "10 Mbit/s"}}})["trials"]
    assert used_percent(checks_of(trial)["limits-acted"]["sentence"]) > 0
    site = services(world, trial)["site"]
    assert site["endpoints"][0]["address"].startswith("10.203.")
    assert {one["name"]: one["found"] for one in site["settings"]}["link_rate_bytes_per_s"] == str(RATE)


@pytest.mark.parametrize("most_s", [math.inf, pytest.param(0.01, marks=pytest.mark.timing)])
def test_its_latency_is_in_every_answer_and_may_be_a_factor(world: World, most_s: float) -> None:
    """`most_s`: what the servers and the generator may add to it."""
    traffic = {"users": {"executor": "constant-vus", "vus": 4, "request": "GET http://site/small"}}
    lab = {"site": {**SITE, "link": {"latency": "${latency}"}}}
    found = run(world, lab=lab, traffic=traffic, factors={"latency": ["5 ms", "20 ms"]})
    for trial in found["trials"]:
        held = {one["name"]: one["found"] for one in services(world, trial)["site"]["settings"]}
        asked_s = float(held["link_latency_s"])
        assert asked_s in (0.005, 0.02)
        assert asked_s <= trial["metrics"]["users.response.mean"]["value"] < asked_s + most_s
        assert "of a core" in checks_of(trial)["limits-acted"]["sentence"]


def test_one_before_it_and_one_behind_it_are_reached(world: World) -> None:
    lab = {
        "store": SITE,
        "front": {"kit": "nginx", "files": {"/own": "1 KiB"}, "of": "store", "link": {"rate": "100 Mbit/s"}},
    }
    traffic = {"users": {"executor": "constant-vus", "vus": 2, "request": "GET http://front/small"}}
    [trial] = run(world, lab=lab, traffic=traffic)["trials"]
    assert trial["metrics"]["users.failed"]["value"] == 0
    both = services(world, trial)
    assert both["store"]["endpoints"][0]["address"] == fabric.HUB
    assert both["store"]["links"] == []
    assert both["front"]["endpoints"][0]["address"] != fabric.HUB


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.timing)])
def test_a_kept_lab_keeps_them_and_its_keepers_death_ends_them(world: World, strict: bool) -> None:
    folder = world.root / "kept"
    folder.mkdir()
    study = {
        "name": "kept",
        "lab": {"site": {**SITE, "link": {"rate": "10 MB/s", "latency": "20 ms"}}},
        "traffic": {"users": {"executor": "constant-vus", "vus": 1, "request": "GET http://site/small"}},
        "measure": {"duration": "1s", "replicates": 1},
    }
    (folder / "study.yaml").write_text(json.dumps(study))
    before = socket.if_nameindex()
    up = world.succeed("lab", "up", str(folder), "--trust", "--for", "60s")
    [lab] = world.json("lab", "status")["labs"]
    assert f"nsenter --net={lab['network']} COMMAND" in up.stdout
    address, _, port = lab["endpoints"]["http://site"].removeprefix("http://").partition(":")
    with linux.in_network(lab["network"]):
        began = time.monotonic()
        socket.create_connection((address, int(port)), 10).close()
    assert not strict or 0.0199 < time.monotonic() - began < 0.2
    world.succeed("lab", "reset")
    assert socket.if_nameindex() == before
    [keeper] = world.processes("svload.run.keeper")
    os.kill(keeper, signal.SIGKILL)
    assert world.silent() == []
    assert not Path(lab["network"]).exists()
    world.succeed("lab", "status", "--json")
    assert world.labs() == []

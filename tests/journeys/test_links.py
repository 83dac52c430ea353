"""A service behind its own link: users see rate and latency, others don't, and nothing is left of it."""

from __future__ import annotations

import json
import math
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest

from svload.host.machine import fabric

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
    """Return how much of its link the site used."""
    found = re.search(r"site used ([\d.]+) % of its", sentence)
    assert found is not None, sentence
    return float(found[1])


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

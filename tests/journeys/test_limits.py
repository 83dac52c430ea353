"""Limits of services on real servers: a link's rate and latency, a disk rate, and limits that are changed
under load; nothing is left of them."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svload.host.machine import fabric

from .limited import EACH_MIB, FILES, HELD, WORKERS, Moment, measure, play, write_study
from .world import World, checks_of, lab_of, only_run

pytestmark = pytest.mark.real

LINK_RATE = 1_250_000
SITE = {"kit": "nginx", "files": {"/a": "20 KiB", "/small": "1 KiB"}}


def linked(world: World, **more: Any) -> list[tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
    """Return each trial and its services by name; no interface may be left."""
    study = {
        "name": "linked",
        "lab": {"site": SITE},
        "traffic": {"users": {"executor": "constant-vus", "vus": 4, "request": "GET http://site/a"}},
        "measure": {"duration": "0.5s", "replicates": 1},
    }
    before = socket.if_nameindex()
    trials = world.run(world.study(study | more), "--trust")["trials"]
    assert socket.if_nameindex() == before
    labs = [lab_of(only_run(world), trial["trial"]) for trial in trials]
    return [
        (trial, {one["service"]: one for one in lab["services"]})
        for trial, lab in zip(trials, labs, strict=True)
    ]


@pytest.fixture
def able(needs: Callable[..., None]) -> None:
    """Skip the test on a machine that can't give an nginx a link of its own."""
    needs("root", "nginx")
    if why := fabric.lacking(latency=True):
        pytest.skip(why)


LINKED = pytest.mark.usefixtures("able")


@LINKED
@pytest.mark.smoke
def test_a_rate_is_set_on_a_link_of_its_own(world: World) -> None:
    [(trial, services)] = linked(world, lab={"site": {**SITE, "link": {"rate": "10 Mbit/s"}}})
    sentence = checks_of(trial)["limits-acted"]["sentence"]
    used = re.search(r"site used ([\d.]+) % of its", sentence)
    assert used is not None and float(used[1]) > 0, sentence
    site = services["site"]
    assert site["endpoints"][0]["address"].startswith("10.203.")
    assert {one["name"]: one["found"] for one in site["settings"]}["link_rate_bytes_per_s"] == str(LINK_RATE)


@LINKED
@pytest.mark.parametrize("most_s", [math.inf, pytest.param(0.01, marks=pytest.mark.timing)])
def test_its_latency_is_in_every_answer_and_may_be_a_factor(world: World, most_s: float) -> None:
    """`most_s`: what the servers and the generator may add to it."""
    traffic = {"users": {"executor": "constant-vus", "vus": 4, "request": "GET http://site/small"}}
    lab = {"site": {**SITE, "link": {"latency": "${latency}"}}}
    for trial, services in linked(world, lab=lab, traffic=traffic, factors={"latency": ["5 ms", "20 ms"]}):
        held = {one["name"]: one["found"] for one in services["site"]["settings"]}
        asked_s = float(held["link_latency_s"])
        assert asked_s in (0.005, 0.02)
        assert asked_s <= trial["metrics"]["users.response.mean"]["value"] < asked_s + most_s
        assert "of a core" in checks_of(trial)["limits-acted"]["sentence"]


RATE = 20_000_000


@pytest.mark.parametrize(
    ("duration", "strict"), [("0.5s", False), pytest.param("4s", True, marks=pytest.mark.timing)]
)
def test_services_share_the_reads_of_the_machine_that_they_are_within(
    world: World, needs: Callable[..., None], duration: str, strict: bool
) -> None:
    """They read more files than their memory can keep in the page cache. The kernel's limit is always checked;
    the amount read only if the machine leaves the servers their cores."""
    needs("root", "nginx")
    files = {f"/f{number}": f"{EACH_MIB} MiB" for number in range(FILES)}
    (world.root / "files.csv").write_text("path\n" + "".join(f"{path}\n" for path in files))
    site = {"kit": "nginx", "files": files, "memory": "40 MiB", "within": "vm"}
    users = {"executor": "constant-vus", "vus": 4}
    study = {
        "name": "disk",
        "lab": {"vm": {"kit": "machine", "disk_rate": {"read": "20 MB/s"}}, "one": site, "two": site},
        "before_trial": [{"drop_cache": ["one", "two"]}],
        "feeders": {"files": {"csv": "files.csv", "take": "sequential"}},
        "traffic": {
            f"users-{name}": {**users, "request": f"GET http://{name}${{files.path}}"}
            for name in ("one", "two")
        },
        "measure": {"duration": duration, "replicates": 1},
    }
    [trial] = world.run(world.study(study), "--trust")["trials"]
    services = lab_of(only_run(world), trial["trial"])["services"]
    groups = {group["name"]: group for one in services for group in one["groups"]}
    assert set(groups) == {"vm", "one", "two"}
    assert [one["found"] for one in groups["vm"]["settings"]] == [str(RATE)]
    sentence = checks_of(trial)["limits-acted"]["sentence"]
    used = re.search(r"vm used ([\d.]+) % of its 20 MB/s of disk reads", sentence)
    assert used is not None, sentence
    if strict:
        assert 93 < float(used[1]) < 107, "both together"
        for name in ("one", "two"):
            answers = trial["metrics"][f"users-{name}.throughput"]["value"]
            assert answers * EACH_MIB * (1 << 20) < 0.9 * RATE, "neither has it alone"
    left = [path for group in groups.values() for path in group["paths"].values() if Path(path).exists()]
    assert left == []


@LINKED
@pytest.mark.parametrize("phase_s", [0.4, pytest.param(3.0, marks=pytest.mark.timing)])
def test_limits_lowered_under_load_hold(world: World, phase_s: float) -> None:
    """The kernel's limits are always checked; the use only if the machine leaves the servers their cores."""
    strict = phase_s == 3.0
    seen = measure(world, write_study(world.root / "limited", phase_s), used=strict)
    assert {(one.workers, one.held.option) for one in seen} == {
        (workers, held.option) for workers in WORKERS for held in HELD
    }
    for one in seen:
        assert one.is_set_and_back, one
        assert not strict or one.holds(1.7), one


@LINKED
@pytest.mark.parametrize(
    "moment",
    [Moment("all", 1, 0.2), Moment("controller", 2, 0.1), Moment("agent", 3, 0.3), Moment("keeper", 0, 1.5)],
)
def test_kill_9_leaves_nothing(world: World, moment: Moment) -> None:
    undone, left = play(world, write_study(world.root / "limited", 0.6, together=True), moment)
    assert left == []
    assert moment.victim != "all" or undone > 0, "nobody else could do it"

"""A lab without a run: up, status, reset, down. Nothing is left whichever process is killed, its lease
ends by itself, and one load runs at a time."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import signal
from typing import Any

import pytest
from tests.servers import accepts

from svload.host.machine import fabric
from svload.host.machine.lock import lock_path

from .world import World

pytestmark = pytest.mark.truth
STUDY = ("001-svload", "--profile", "demo")


def up(world: World, lease: str = "60s") -> dict[str, Any]:
    return dict(world.json("lab", "up", *STUDY, "--for", lease))


def answers(url: str) -> bool:
    return accepts(int(url.rpartition(":")[2]))


@pytest.mark.smoke
def test_a_lab_is_up_is_seen_is_reset_and_goes_down(world: World):
    lab = up(world)
    assert set(lab["endpoints"]) == {
        f"{scheme}://{name}" for scheme in ("http", "https") for name in ("backend", "cache")
    }
    assert answers(lab["endpoints"]["http://backend"])
    status = world.json("lab", "status")
    assert [one["id"] for one in status["labs"]] == [lab["id"]]
    assert lab["id"] in world.svload("lab", "status").stdout
    proof = world.succeed("lab", "reset")
    assert "'requests': 0" in proof.stdout
    world.succeed("lab", "down")
    assert world.left() == []
    assert not answers(lab["endpoints"]["http://backend"])
    after = world.svload("lab", "status")
    assert "no lab is running" in after.stdout
    assert world.svload("lab", "reset").returncode == 2
    assert "no lab is running" in world.svload("lab", "down").stdout


def test_every_url_of_every_account_is_listed_by_the_store_itself(world: World):
    to = world.root / "urls.csv"
    ended = world.succeed("lab", "urls", *STUDY, "--to", str(to))
    assert ended.stdout == f"2,000 URLs in {to}\n"
    rows = list(csv.DictReader(to.open()))
    assert len({row["url"] for row in rows}) == 2000
    assert all(row["url"] == f"http://backend{row['path']}" for row in rows)
    assert {row["size_bytes"] for row in rows} == {"4096"}
    assert world.left() == []


def written(world: World, service: dict[str, Any], **more: Any) -> str:
    """Write a study with one service."""
    users = {"executor": "constant-vus", "vus": 1, "request": "GET http://web/"}
    study = {
        "name": "one",
        "lab": {"web": service},
        "traffic": {"users": users},
        "measure": {"duration": "1s"},
    }
    return world.study(study | more)


def test_a_store_behind_a_link_is_listed(world: World, needs: Any):
    needs("root")
    if why := fabric.lacking(latency=False):
        pytest.skip(why)
    store = {"kit": "truth", "role": "store", "link": {"rate": "1 GB/s"}}
    things = {"in": "web", "containers": 1, "count": 3, "size": "100 B"}
    to = world.root / "urls.csv"
    world.succeed("lab", "urls", written(world, store, data={"things": things}), "--to", str(to))
    assert len(to.read_text().splitlines()) == 1 + 3


@pytest.mark.parametrize("victim", ["svload.run.keeper", "svload.host.agent", "svload.truth"])
def test_whoever_is_killed_nothing_is_left(world: World, victim: str):
    lab = up(world)
    pids = world.processes(victim)
    assert pids
    os.kill(pids[-1], signal.SIGKILL)
    assert world.silent() == [], victim
    status = world.json("lab", "status")
    assert (status["labs"], status["agents"]) == ([], [])
    assert world.labs() == []
    assert not answers(lab["endpoints"]["http://cache"])
    assert list((world.root / "state" / "kept").glob("*")) == [], "a dead keeper's folder is removed"


def test_a_lease_ends_by_itself(world: World):
    """It is long enough for a busy machine to bring the lab up within it."""
    lab = up(world, "12s")
    assert world.silent() == []
    assert not answers(lab["endpoints"]["http://cache"])
    assert world.json("lab", "status")["labs"] == []
    assert world.labs() == []


def test_a_second_load_waits_and_says_so(world: World, truth: dict[str, Any]):
    url = f"http://127.0.0.1:{truth['http_port']}/info"
    load = ("load", url, "--vus", "1", "--duration", "0.5s", "--json")
    lock = lock_path()
    lock.touch()
    with lock.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = world.svload(*load, "--no-wait")
        assert refused.returncode == 3
        assert "Another svload load is running" in refused.stderr
        waits = lambda lines: any("waiting: another load runs" in line for line in lines)  # noqa: E731
        with world.start(*load) as command:
            assert command.wait_for(waits)
            command.process.send_signal(signal.SIGINT)
            assert command.end() == 130, "who waits can be stopped"
        with world.start(*load) as command:
            assert command.wait_for(waits)
            assert command.process.poll() is None
            assert world.processes("svload.drive.generator") == [], "nothing is started meanwhile"
            fcntl.flock(held, fcntl.LOCK_UN)
            command.end()
            assert json.loads("\n".join(command.printed))["requests"] > 0

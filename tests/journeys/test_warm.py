"""`svload warm`: a load in the warm process behaves as without one, and nothing is left of it afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import wait_until

from svload.cli import warm_client
from svload.host.process import warm

from .world import World

pytestmark = pytest.mark.truth


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Make a world with a warm process for all tests here; at the end nothing of it is left."""
    world = World(tmp_path_factory.mktemp("warm"), anew=True)
    world.succeed("warm", "--for", "10m", "--json")
    yield world
    assert world.svload("warm", "--end").stdout == "the warm process has ended\n"
    assert world.left() == []


def is_waiting(world: World) -> bool:
    return (world.root / "state" / "warm" / warm.SOCKET).exists()


def both(world: World, *words: str) -> tuple[Any, Any]:
    """Return the command's results in the warm process, and without it."""
    wait_until(lambda: is_waiting(world))
    here = world.svload(*words)
    assert not is_waiting(world), "the warm process took it"
    return here, World(world.root / "cold", anew=True).svload(*words)


def test_a_load_comes_to_the_same(warmed: World, truth: dict[str, Any]) -> None:
    url = f"http://127.0.0.1:{truth['http_port']}/info"
    words = ("-n", "40", "-c", "2", "--json", "--quiet", "--threshold", "errors<1%")
    here, cold = both(warmed, "load", url, *words)
    assert (here.stderr, cold.stderr) == ("", "")
    found, wanted = json.loads(here.stdout), json.loads(cold.stdout)
    assert found.keys() == wanted.keys()
    assert (found["url"], found["ok"], found["load"]) == (wanted["url"], 40, wanted["load"])
    assert warmed.svload("lab", "status").stdout.count("svload warm --end") == 1


@pytest.mark.parametrize(
    "words", ["-c x", "-c 2 --rate", "--rate 0", "--cacert nowhere.pem", "-n 5 -c 1 --timeout 1s --quiet"]
)
def test_a_mistake_is_reported_the_same(warmed: World, words: str) -> None:
    here, cold = both(warmed, "load", "http://127.0.0.1:9/", *words.split())
    assert (here.returncode, here.stdout, here.stderr) == (cold.returncode, cold.stdout, cold.stderr)
    assert here.returncode in (2, 3)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_the_end_of_a_command_ends_its_load(
    warmed: World, truth: dict[str, Any], number: signal.Signals, code: int
) -> None:
    wait_until(lambda: is_waiting(warmed))
    before = set(warmed.labs())
    with warmed.start("load", f"http://127.0.0.1:{truth['http_port']}/info", "-d", "60s") as command:
        assert command.wait_for(lambda lines: any("/s" in line for line in lines))
        assert not is_waiting(warmed)
        generator = set(warmed.processes("svload.drive.generator"))
        command.process.send_signal(number)
        assert command.end() == code
    assert ("svload: Interrupted" in command.said) == (code == 130)
    wait_until(lambda: not generator & set(warmed.processes("svload.drive.generator")))
    wait_until(lambda: is_waiting(warmed))
    assert not before & set(warmed.labs()), "the next spare has a lab of its own"


def test_others_are_left_alone(warmed: World, monkeypatch: pytest.MonkeyPatch, truth: dict[str, Any]) -> None:
    """With another version or another setting nothing is taken, and the waiting spare continues to wait."""
    wait_until(lambda: is_waiting(warmed))
    monkeypatch.setenv("SVLOAD_STATE", str(warmed.root / "state"))
    words = ["svload", "load", f"http://127.0.0.1:{truth['http_port']}/info"]
    for change in ({"version": "0.0.0"}, {"nice": 19}):
        there = {**warm.place(), **change}
        monkeypatch.setattr(warm_client, "place", lambda there=there: there)
        assert warm_client.forward(words) is None
    assert is_waiting(warmed)
    assert len(warmed.processes("svload.cli.warm_keeper")) == 2, "the keeper and its spare"


def test_another_users_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))
    warm.warm_dir().mkdir(mode=0o700)
    assert warm.is_own_folder()
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: 12345)
        assert not warm.is_own_folder()
    warm.warm_dir().chmod(0o755)
    assert not warm.is_own_folder()


def test_a_socket_that_nobody_serves_is_no_hindrance(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(world.root / "state"))
    warm.warm_dir().mkdir(mode=0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(warm.warm_dir() / warm.SOCKET))
    assert warm_client.forward(["svload", "load", "http://127.0.0.1:9/"]) is None
    assert warm.warm_state() is None
    assert not warm.end_warm()


def test_its_lease_ends_it(world: World) -> None:
    """The lease ends once all has been loaded: everything started is gone, and no later load finds it."""
    done = world.svload("warm", "--for", "0.1s")
    assert done.returncode == 3
    assert "did not come up" in done.stderr
    assert world.left() == []

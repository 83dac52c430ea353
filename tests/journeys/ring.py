"""A run with part of a service stopped during the load: outcomes of reads, and the generators' memory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.bounds import HANG_S

from .kills import journal
from .stalls import pause, standing_still
from .world import Command, World, complete, only_run

STUDY = Path(__file__).parents[2] / "studies/004-swift-locust"
LOOK_S = 0.1


def run_with_a_stop(
    world: World,
    study: Path,
    profile: str,
    config: str,
    from_s: float,
    to_s: float,
    bound_s: float = HANG_S,
    then: Callable[[Command], None] = lambda command: None,
) -> Path:
    """Run a study, with the processes that have this configuration file stopped from one moment of the
    load to another, at which `then` is called."""
    with world.start("run", str(study), "--profile", profile, "--out", str(world.runs)) as command:
        _await(command, lambda: offset_s(world) >= from_s, bound_s)
        with standing_still(world.processes(config)):
            _await(command, lambda: offset_s(world) >= to_s, bound_s)
        then(command)
        command.process.wait(bound_s)
    complete(only_run(world), command.said)
    return only_run(world)


def offset_s(world: World) -> float:
    """Return the time of the load, as the run's trial last reported; negative before it."""
    entries = (one for file in world.runs.rglob("events.jsonl") for one in journal(file))
    return max((float(one["data"]["offset_s"]) for one in entries if one["kind"] == "progress"), default=-1.0)


def seconds_until_whole(world: World, command: Command, since_s: float, bound_s: float) -> float | None:
    """Return the time from `since_s` (seconds of the epoch) until each older object is on every device of
    the ring; None: not before the command ended, or within the bound."""
    devices = devices_of(world)
    while (waited_s := time.time() - since_s) < bound_s and command.process.poll() is None:
        if not lacking_copies(devices, since_s):
            return waited_s
        pause(LOOK_S)
    return None


def devices_of(world: World) -> list[Path]:
    """Return where the run's object servers store, by the folder of their configuration."""
    [pid, *_] = world.processes("/object-1-server.conf")
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    config = Path(next(word for word in words if word.endswith("/object-1-server.conf")))
    servers = sorted(config.parent.glob("object-*-server.conf"))
    return [config.parent / "devices" / f"o{number}" for number in range(1, len(servers) + 1)]


def lacking_copies(devices: list[Path], before_s: float) -> set[str]:
    """Return objects, by the hash of their name, whose last change before that moment is not on every device.

    Swift keeps an object as objects/PARTITION/SUFFIX/HASH/TIMESTAMP.data, a deleted one as TIMESTAMP.ts.
    """
    held = [_newest(device) for device in devices]
    newest: dict[str, str] = {}
    for one in held:
        for name, stamp in one.items():
            newest[name] = max(stamp, newest.get(name, ""))
    old = {name: stamp for name, stamp in newest.items() if float(stamp.partition("_")[0]) < before_s}
    return {name for name, stamp in old.items() if any(one.get(name) != stamp for one in held)}


def _newest(device: Path) -> dict[str, str]:
    """Return by hash the timestamp of the newest state that a device has of an object."""
    found: dict[str, str] = {}
    for folder, _, files in os.walk(device / "objects"):
        stamps = [file.rpartition(".")[0] for file in files if file.endswith((".data", ".ts"))]
        if stamps:
            found[Path(folder).name] = max(stamps)
    return found


def requests(world: World, run: Path) -> list[dict[str, Any]]:
    """Return the outcomes of uploads and reads, from the study's own query."""
    return list(world.json("query", str(run), (STUDY / "queries/verified.sql").read_text()))


def peak_rss_bytes(world: World, command: Command) -> int:
    """Return the largest memory that any generator of a command had until it ended (VmHWM)."""
    most = 0

    def look() -> bool:
        nonlocal most
        for pid in world.processes("svload.drive.generator"):
            with suppress(OSError):
                found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
                most = max(most, int(found[1]) * 1024 if found else 0)
        return command.process.poll() is not None

    _await(command, look, HANG_S, ends=True)
    return most


def _await(command: Command, condition: Any, bound_s: float, *, ends: bool = False) -> None:
    for _ in range(int(bound_s / LOOK_S)):
        if condition():
            return
        assert ends or command.process.poll() is None, command.lines[-10:]
        pause(LOOK_S)
    raise AssertionError(f"did not come within {bound_s} s: {command.lines[-10:]}")

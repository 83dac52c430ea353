"""Other users of the machine are found and named; the server under load, which svload did not start, does
not count as a stranger."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from .world import World, checks_of, complete, only_run

pytestmark = pytest.mark.truth
BURN = "while True: pass"


@pytest.fixture
def burners() -> Iterator[list[int]]:
    """Start one process per core that only computes."""
    count = len(os.sched_getaffinity(0))
    processes = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    yield [process.pid for process in processes]
    for process in processes:
        process.kill()
        process.wait()


def judged(world: World, port: int) -> tuple[dict[str, Any], list[str]]:
    """Return (the check of other processes' CPU, those that the monitor named) of two seconds of load on a
    server that runs already."""
    url = f"http://127.0.0.1:{port}/info"
    ended = world.svload("load", url, "--vus", "8", "--duration", "2s", "--out", str(world.runs))
    run = only_run(world)
    checks = checks_of(complete(run, ended.stderr)["trials"][0])
    sql = "select distinct entity from monitors where monitor = 'others' and entity <> ''"
    named = json.loads(world.svload("query", run.name, sql, "--json", "--out", str(world.runs)).stdout)
    return checks["others-cpu"], [row["entity"] for row in named]


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.timing)])
def test_a_disturbing_program_is_named(
    world: World, truth: dict[str, int], burners: list[int], strict: bool
) -> None:
    """If there are others too, ours may not be among those named."""
    check, named = judged(world, truth["http_port"])
    assert check["grade"] == "WEAK", check
    assert named
    assert not strict or any(one.endswith(f" {pid}") for one in named for pid in burners), named
    assert check["remedy"]
    assert not any(one.endswith(f" {truth['pid']}") for one in named), "the server under load is no stranger"


def test_the_load_itself_is_no_stranger(world: World, truth: dict[str, int]) -> None:
    check, named = judged(world, truth["http_port"])
    assert check["measured"], check
    assert not any(one.endswith(f" {truth['pid']}") for one in named)
    assert not any(one.split(" ")[0] in ("svload-0", "witness-0") for one in named)


def test_a_run_warns_and_may_wait(world: World, truth: dict[str, int], burners: list[int]) -> None:
    """The wait is bounded: the machine stays busy, and the run starts anyway."""
    url = f"http://127.0.0.1:{truth['http_port']}/info"
    world.succeed("init", url, "mine")
    short = ("--replicates", "1", "--duration", "0.2s", "--out", str(world.runs))
    warned = world.svload("run", "mine", *short).stderr.splitlines()
    (found,) = (number for number, line in enumerate(warned) if line.startswith("This machine is busy"))
    assert "other processes use" in warned[found]
    assert found < next(number for number, line in enumerate(warned) if "preparing the lab" in line)
    waited = world.svload("load", url, "--duration", "0.5s", "--wait-quiet", "2s")
    assert "waiting for a quiet machine" in waited.stderr
    assert "was not quiet within 2 s; the run starts anyway" in waited.stderr

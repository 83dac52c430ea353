"""Other users of the machine are found and named; the server under load, which svload did not start, does
not count as a stranger."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

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


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.timing)])
def test_a_disturbing_program_is_named(
    world: World, truth: dict[str, int], burners: list[int], strict: bool
) -> None:
    """If there are others too, ours may not be among those named. The wait is bounded: the machine stays
    busy, and the load starts anyway."""
    load = ("load", f"http://127.0.0.1:{truth['http_port']}/info", "--vus", "8", "--duration", "2s")
    ended = world.svload(*load, "--wait-quiet", "1s", "--out", str(world.runs))
    assert "was not quiet within 1 s; the run starts anyway" in ended.stderr
    [trial] = complete(only_run(world), ended.stderr)["trials"]
    check = checks_of(trial)["others-cpu"]
    assert check["grade"] == "WEAK" and check["remedy"], check
    rows = world.query("select distinct entity from monitors where monitor = 'others' and entity <> ''")
    named = [row["entity"] for row in rows]
    assert named
    assert not strict or any(one.endswith(f" {pid}") for one in named for pid in burners), named
    assert not any(one.endswith(f" {truth['pid']}") for one in named), "the server under load is no stranger"


STUDY = """\
name: mine
lab: {server: {at: "http://127.0.0.1:PORT"}}
traffic: {users: {executor: constant-vus, vus: 1, request: GET http://server/info}}
measure: {duration: 0.2s, replicates: 1}
"""


def test_a_run_warns(world: World, truth: dict[str, int], burners: list[int]) -> None:
    study = world.study(STUDY.replace("PORT", str(truth["http_port"])))
    warned = world.svload("run", study, "--out", str(world.runs)).stderr.splitlines()
    (found,) = (number for number, line in enumerate(warned) if line.startswith("This machine is busy"))
    assert "other processes use" in warned[found]
    assert found < next(number for number, line in enumerate(warned) if "preparing the lab" in line)

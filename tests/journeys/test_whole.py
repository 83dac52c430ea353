"""A run counts as complete only if all of it exists: killed at any write, its plan or folder deleted,
continued by two processes at once."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import shutil
import signal
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from . import killer
from .loaded import run_loaded
from .world import SVLOAD, World, complete, findings, only_run, sealed

pytestmark = pytest.mark.truth
STUDY = """\
name: small
lab: {store: {kit: truth, role: store, service_time: 1 ms}}
data: {objects: {in: store, containers: 2, count: 20, size: 1 KiB}}
feeders: {object: {from: objects, take: random}}
factors: {path: {cold: {mark: a}, hot: {mark: b}}}
requests: {fetch: {get: "http://store${object.path}", headers: {X-Mark: "${path.mark}"}}}
traffic: {users: {executor: constant-vus, vus: 2, request: fetch}}
measure: {duration: 0.2s, replicates: 1}
"""
TRIALS = 2
SAMPLE = 5
"""Kill points per test; SVLOAD_EVERY_WRITE=1/1 takes all of them, 3/8 the third eighth."""


@pytest.fixture
def study(world: World) -> str:
    return world.study(STUDY)


def drained(descriptor: int) -> bool:
    with suppress(OSError):
        while os.read(descriptor, 4096):
            pass
    return True


def killed(world: World, at: int, *args: str) -> list[str]:
    """Return the writes of a command until it is killed at number `at` (0: to its end)."""
    found = world.root / "writes"
    ended = run_loaded(args, world.env | {killer.AT: str(at), killer.TOLD: str(found)}, world.root, HANG_S)
    writes = found.read_text().splitlines()
    reached = 0 < at <= len(writes)  # their number varies a little between runs
    assert (ended.returncode == -signal.SIGKILL) == reached, (ended.stderr[-1500:], writes[-3:])
    return writes


def check_whole(world: World, run: Path, moment: str) -> None:
    """Check that, once resumed, all trials exist, every seal holds, and nothing half written is left."""
    before = sealed(run)
    said = world.json("resume", str(run))
    assert (said["sealed"], said["planned"], said["complete"]) == (TRIALS, TRIALS, True), moment
    assert before.items() <= sealed(run).items(), moment
    assert len(list(run.glob("trials/*/seal.json"))) == TRIALS == len(list(run.glob("trials/*"))), moment
    checked = world.svload("verify", str(run))
    assert (checked.returncode, checked.stderr) == (0, ""), moment
    assert findings(run)["complete"], moment
    assert (world.runs / "latest").resolve() == run.resolve(), moment
    left = [*run.rglob(".*"), *world.runs.glob(".*")]
    assert left == [], (moment, left)


def play(world: World, study: str, finished: Path, at: int, command: str) -> str:
    """Kill once, and clean up; return what was hit. `finished`: the folder of runs with a whole one."""
    shutil.rmtree(world.runs)
    if command == "report":
        shutil.copytree(finished, world.runs, symlinks=True)
        args = ("report", str(only_run(world)))
    else:
        world.runs.mkdir()
        args = ("run", study, "--out", str(world.runs))
    moment = f"{command}: {killed(world, at, *args)[-1]}"
    runs = [path for path in world.runs.iterdir() if path.is_dir() and not path.is_symlink()]
    if not any((run / "study.lock.json").exists() for run in runs):
        for run in runs:
            assert world.svload("resume", str(run)).returncode == 2, moment
            assert not any(run.glob("trials/*")), moment
        assert not (world.runs / "latest").exists(), moment
        return "nothing had begun"
    check_whole(world, runs[0], moment)
    assert world.silent() == [], moment
    check_labs(world, moment)
    return "whole"


def check_labs(world: World, moment: str) -> None:
    """Check that no lab is left that is too old to be one that begins."""
    for lab in world.labs():
        assert not (lab / "owner.json").exists(), moment
        os.utime(lab, (0, 0))
    if world.labs():
        world.svload("lab", "status")
    assert world.labs() == [], moment


@pytest.mark.parametrize("command", ["run", "report"])
def test_killed_at_any_write_a_run_is_resumed_and_whole(world: World, study: str, command: str):
    writes = killed(world, 0, "run", study, "--out", str(world.runs))
    finished = Path(shutil.copytree(world.runs, world.root / "finished", symlinks=True))
    if command == "report":
        writes = killed(world, 0, "report", str(only_run(world)))
    assert len(writes) > (10 if command == "report" else 60), writes
    points = list(range(1, len(writes) + 1))
    if part := os.environ.get("SVLOAD_EVERY_WRITE"):
        first, step = map(int, part.split("/"))
        points = points[first - 1 :: step]
    else:
        plans = [n for n, line in enumerate(writes, 1) if "rename" in line and "000.json" in line]
        points = sorted({*plans[:1], *random.Random(22).sample(points, SAMPLE if command == "run" else 2)})
    done = [play(world, study, finished, at, command) for at in points]
    print(f"{command}: {len(done)} kills, {done.count('whole')} whole, the others before anything had begun")
    assert done.count("whole") >= len(done) // 2


def test_a_run_without_its_plan_and_its_trials_is_damaged(world: World, study: str):
    world.run(study)
    run = only_run(world)
    shutil.rmtree(run / "plan")
    ended = world.svload("resume", str(run))
    assert (ended.returncode, "000.json is damaged" in ended.stderr) == (2, True), ended.stderr
    shutil.rmtree(run / "trials")
    (run / "trials").mkdir()
    ended = world.svload("resume", "--out", str(world.runs))  # without a name: it is unfinished
    assert (ended.returncode, "saw it sealed and it is missing" in ended.stderr) == (2, True), ended.stderr


def test_a_run_whose_folder_goes_ends_with_a_clear_error(world: World, study: str):
    with world.start("run", study, "--out", str(world.runs)) as command:
        assert command.wait_for(lambda lines: any(line.startswith("[1/") for line in lines))
        while only := [path for path in world.runs.iterdir() if not path.is_symlink()]:
            shutil.rmtree(only[0], ignore_errors=True)
        assert command.end() == 3, command.lines
    assert "was removed or moved during the run" in command.lines[-1]
    assert not (world.runs / "latest").exists()


def test_two_that_go_on_with_one_run_do_not_meet(world: World, study: str):
    with world.start("run", study, "--out", str(world.runs), "--duration", "1s") as command:
        assert command.wait_for(lambda lines: bool([*world.runs.glob("*/trials/*/events.jsonl")]))
        second = world.svload("resume", str(only_run(world)))
        assert second.returncode == 3
        assert "Another svload is working on" in second.stderr
        command.end()
    complete(only_run(world), command.said)
    assert len(list(only_run(world).glob("trials/*/seal.json"))) == TRIALS
    assert not list(only_run(world).glob("attempts/*"))


def test_a_terminal_that_hangs_up_interrupts(world: World, study: str):
    """The window is closed: SIGHUP to the foreground group, and stderr refuses every byte from then on."""
    leader, terminal = pty.openpty()
    process = subprocess.Popen(
        [*SVLOAD, "run", study, "--out", str(world.runs), "--duration", "5s"],
        env=world.env, cwd=world.root, stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(terminal)
    try:
        os.set_blocking(leader, False)
        wait_until(lambda: drained(leader) and [*world.runs.glob("*/trials/*/events.jsonl")])
        os.close(leader)
        assert process.wait(HANG_S) == 130
    finally:
        process.kill()

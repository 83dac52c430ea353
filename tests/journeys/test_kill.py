"""kill -9 anywhere, resume: sealed trials are byte-identical, the plan is complete, nothing is left."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from .world import Command, World, only_run, sealed

VICTIMS = ("controller", "svload.host.agent", "svload.drive.generator", "svload.truth")
STUDY = (
    "001-svload",
    "--profile",
    "demo",
    "--only",
    "TC0,TC2,TC7,TC9,TC11",
    "--replicates",
    "4",
    "--duration",
    "0.6s",
)
TRIGGERS = (
    "bringing the servers up",
    "filling the stores",
    "VALID",
    "WEAK",
    "judging every trial",
    "writing the report",
)


def _moments(seed: int, count: int) -> list[tuple[str, str, float]]:
    """(victim, line to wait for, seconds after it): every victim in turn, moments drawn over the whole run."""
    draw = random.Random(seed)
    moments = []
    for number in range(count):
        trigger = draw.choice(TRIGGERS) if number % 3 else "VALID"
        moments.append((VICTIMS[number % len(VICTIMS)], trigger, draw.uniform(0.0, 0.9)))
    return moments


def _strike(world: World, command: Command, victim: str) -> bool:
    """kill -9 the victim; False if there is none at this moment."""
    pids = [command.process.pid] if victim == "controller" else world.processes(victim)
    for pid in pids[-1:]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
    return bool(pids)


def _kills(world: World, seed: int, count: int) -> int:
    """Play the moments; how many struck. After each the sealed trials must be as before."""
    struck = 0
    for victim, trigger, delay_s in _moments(seed, count):
        started = any(world.runs.iterdir())
        args = ("resume", str(only_run(world))) if started else ("run", *STUDY, "--out", str(world.runs))
        before = sealed(only_run(world)) if started else {}
        with world.start(*args) as command:
            seen = len(command.lines)
            command.wait_for(
                lambda lines, seen=seen, trigger=trigger: any(trigger in line for line in lines[seen:])
            )
            until = time.monotonic() + delay_s
            while time.monotonic() < until and command.process.poll() is None:
                time.sleep(0.005)
            struck += _strike(world, command, victim)
            if victim in VICTIMS[:2]:
                command.end()
        assert world.silent(15) == []
        after = sealed(only_run(world))
        assert {name: after.get(name) for name in before} == before
    return struck


@pytest.mark.truth_long
@pytest.mark.timeout(900)
def test_twenty_kills_lose_nothing(world: World):
    struck = _kills(world, seed=20, count=20)
    assert struck >= 15
    run = only_run(world)
    before = sealed(run)
    ended = world.svload("resume", str(run))
    assert ended.returncode == 0, ended.stderr[-2000:]
    after = sealed(run)
    assert {name: after[name] for name in before} == before
    assert len(list(run.glob("trials/*/seal.json"))) == 20
    assert world.silent() == []
    assert world.labs() == []
    checked = world.svload("verify", str(run))
    assert checked.returncode == 0, checked.stderr
    attempts = list((run / "attempts").iterdir())
    assert attempts, "kills leave attempts, which are kept"


@pytest.mark.truth
@pytest.mark.timeout(300)
def test_ctrl_c_is_silent_at_once_and_resume_goes_on(world: World):
    study = ("001-svload", "--profile", "demo", "--only", "TC1,TC3", "--replicates", "2", "--duration", "1s")
    with world.start("run", *study, "--out", str(world.runs)) as command:
        assert command.wait_for(lambda lines: any("VALID" in line or "WEAK" in line for line in lines))
        command.process.send_signal(signal.SIGINT)
        pressed = time.monotonic()
        assert command.end() == 130
        assert world.silent(max(0.0, 5 - (time.monotonic() - pressed))) == []
        assert any("svload resume" in line for line in command.lines)
    run = only_run(world)
    before = sealed(run)
    assert before
    ended = world.svload("resume", str(run))
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert {name: digest for name, digest in sealed(run).items() if name in before} == before

"""kill -9 at moments drawn over a run's phases: what to wait for, whom to hit, and what must hold after each."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .world import Command, World, only_run, sealed

VICTIMS = {"controller": "", "agent": "svload.host.agent", "generator": "svload.drive.generator"}
ENDED = {"warm": ("", "reset", "warm"), "load": ("count",), "seal": ("settle", "write", "seal")}
"""Phase of a trial → what its journal last said while it lasts (some last microseconds:
then the next trial's is taken)."""
SAID = {
    "bring-up": "bringing the servers up",
    "analysis": "judging every trial",
    "report": "writing the report",
}
ALONE = ("analysis", "report")
"""Phases in which the controller is all there is."""


@dataclass(frozen=True)
class Moment:
    """`delay_s` after `phase` has begun for the (`skip` + 1)th time in this execution, `victim` is killed."""

    victim: str
    phase: str
    skip: int
    delay_s: float


def draw_moments(seed: int, count: int, load_s: float, victims: Sequence[str]) -> list[Moment]:
    """Every victim in turn over bring-up, warm-up, load and seal; the last fifth over analysis
    and report, on a complete plan."""
    draw = random.Random(seed)
    alone = count // 5
    lengths_s = {"bring-up": 1.0, "warm": 0.2, "load": load_s, "seal": 0.05}
    moments = []
    for number in range(count - alone):
        phase = list(lengths_s)[number // len(victims) % len(lengths_s)]
        skip = draw.choice((0, 0, 1)) if phase != "bring-up" else 0
        moments.append(Moment(victims[number % len(victims)], phase, skip, draw.uniform(0, lengths_s[phase])))
    draw.shuffle(moments)
    return moments + [
        Moment("controller", ALONE[number % 2], 0, draw.uniform(0, 0.3)) for number in range(alone)
    ]


def reached(world: World, command: Command, moment: Moment) -> bool:
    """Whether the moment's phase has begun: by what the command says, or by the open trial's own journal."""
    if moment.phase in SAID:
        return any(SAID[moment.phase] in line for line in command.lines)
    runs = [path for path in world.runs.iterdir() if path.is_dir() and not path.is_symlink()]
    begun = sum(1 for line in command.lines if line.startswith("["))
    return begun >= moment.skip and any(
        _last_phase(folder / "events.jsonl") in ENDED[moment.phase]
        for run in runs
        for folder in (run / "trials").glob("*")
        if not (folder / "seal.json").exists()
    )


def _last_phase(events: Path) -> str:
    try:
        lines = events.read_text().splitlines()
    except OSError:
        return ""
    ended = ""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("kind") == "trial-phase":
            ended = str(event["data"]["name"])
    return ended


def strike(world: World, command: Command, moment: Moment, names: Mapping[str, str]) -> bool:
    """kill -9 the victim, as soon as there is one; False if the command ended first."""
    until = time.monotonic() + 20
    while command.process.poll() is None and time.monotonic() < until:
        pids = (
            [command.process.pid] if moment.victim == "controller" else world.processes(names[moment.victim])
        )
        for pid in pids[-1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return True
        time.sleep(0.005)
    return False


def play(world: World, moments: Sequence[Moment], study: Sequence[str], names: Mapping[str, str]) -> None:
    """Run and resume, one kill each. After each: everything is gone, and what was
    sealed is as it was, byte for byte."""
    for moment in moments:
        started = any(world.runs.iterdir())
        if moment.phase in ALONE:
            finish(world)
        args = ("resume", str(only_run(world))) if started else ("run", *study, "--out", str(world.runs))
        before = sealed(only_run(world)) if started else {}
        with world.start(*args) as command:
            found = command.wait_for(
                lambda lines, command=command, moment=moment: reached(world, command, moment)
            )
            assert found, (moment, command.lines[-5:])
            until = time.monotonic() + moment.delay_s
            while time.monotonic() < until and command.process.poll() is None:
                time.sleep(0.002)
            assert strike(world, command, moment, names) or moment.phase in ALONE, (
                moment,
                command.lines[-5:],
            )
            if moment.victim in ("controller", "agent"):
                command.end(30)
            else:
                said = len(command.lines)
                command.wait_for(lambda lines, said=said: len(lines) > said, 60)
        left = world.silent(15)
        assert left == [], (moment, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left])
        after = sealed(only_run(world))
        assert {name: after.get(name) for name in before} == before, moment


def finish(world: World) -> None:
    """Resume until the plan is complete."""
    ended = world.svload("resume", str(only_run(world)))
    assert ended.returncode in (0, 4), ended.stderr[-2000:]


def check_end(world: World, trials: int) -> None:
    """Resumed: the plan is complete, sealed trials are as they were, nothing is left, and every seal holds."""
    run = only_run(world)
    before = sealed(run)
    finish(world)
    after = sealed(run)
    assert {name: after[name] for name in before} == before
    assert len(list(run.glob("trials/*/seal.json"))) == trials == len(list(run.glob("trials/*")))
    assert world.silent() == []
    assert world.labs() == []
    checked = world.svload("verify", str(run))
    assert checked.returncode == 0, checked.stderr
    assert json.loads((run / "derived" / "findings.json").read_text())["complete"]
    assert list((run / "attempts").iterdir()), "kills leave attempts, which are kept"

"""kill -9 at moments drawn over a run's phases: when, which process, and what must hold afterwards."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import wait_until

from .stalls import pause
from .world import Command, World, complete, only_run, sealed

VICTIMS = {"controller": "", "agent": "svload.host.agent", "generator": "svload.drive.generator"}
ENDED = {"warm": ("", "reset", "warm"), "load": ("count",), "seal": ("settle", "write", "seal")}
"""Phase of a trial → its journal's last entry during the phase (some last microseconds: then the next
trial's is used)."""
SAID = {"bring-up": "preparing the lab", "analysis": "judging every trial", "report": "writing the report"}
ATTEMPTS = 5
"""Attempts, because a run may be over before the moment comes: a phase of microseconds is not seen in
each."""
ALONE = ("analysis", "report")
"""Phases in which only the controller runs."""


@dataclass(frozen=True)
class Moment:
    """`victim` is killed `delay_s` after `phase` has begun for the (`skip` + 1)th time in this execution."""

    victim: str
    phase: str
    skip: int
    delay_s: float


def draw_moments(seed: int, count: int, load_s: float, victims: Sequence[str]) -> list[Moment]:
    """Draw moments for each victim in turn over bring-up, warm-up, load and seal; the last fifth over
    analysis and report, on a complete plan."""
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
    """Return whether the moment's phase has begun, by the command's output or the open trial's journal."""
    if moment.phase in SAID:
        return any(SAID[moment.phase] in line for line in command.lines)
    begun = sum(1 for line in command.lines if line.startswith("["))
    open_trials = [path for path in world.runs.glob("*-*/trials/*") if not (path / "seal.json").exists()]
    ended = ENDED[moment.phase]
    return begun >= moment.skip and any(_last_phase(path / "events.jsonl") in ended for path in open_trials)


def journal(file: Path) -> Iterator[dict[str, Any]]:
    """Yield a journal's entries, without those that a kill has cut; nothing if there is no file."""
    with suppress(OSError):
        for line in file.read_text().splitlines():
            with suppress(ValueError):
                yield json.loads(line)


def _last_phase(events: Path) -> str:
    phases = [one for one in journal(events) if one.get("kind") == "trial-phase"]
    return str(phases[-1]["data"]["name"]) if phases else ""


def strike(world: World, command: Command, moment: Moment, names: Mapping[str, str]) -> bool:
    """Kill the victim by kill -9 as soon as it exists; return False if the command ended first."""
    struck: list[int] = []

    def over() -> bool:
        if command.process.poll() is None:
            pids = world.processes(names[moment.victim])
            for pid in [command.process.pid] if moment.victim == "controller" else pids[-1:]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    struck.append(pid)
        return bool(struck) or command.process.poll() is not None

    wait_until(over)
    return bool(struck)


def play(world: World, moments: Sequence[Moment], study: Sequence[str], names: Mapping[str, str]) -> None:
    """Run and resume, with one kill each. After each all is gone, and what was sealed is byte-identical."""
    for moment in moments:
        hits = (_kill(world, moment, study, names) for _ in range(ATTEMPTS))
        assert any(hits), f"{moment}: every run was over before it"


def _kill(world: World, moment: Moment, study: Sequence[str], names: Mapping[str, str]) -> bool:
    """Kill once in the world's run, or in a new one if that is complete; False if the run was over first."""
    if moment.phase not in ALONE and any(world.runs.iterdir()) and _is_complete(only_run(world)):
        shutil.rmtree(world.runs)
        world.runs.mkdir()
    started = any(world.runs.iterdir())
    if moment.phase in ALONE:
        finish(world)
    args = ("resume", str(only_run(world))) if started else ("run", *study, "--out", str(world.runs))
    before = sealed(only_run(world)) if started else {}
    with world.start(*args) as command:
        found = command.wait_for(lambda lines: reached(world, command, moment))
        pause(moment.delay_s if found else 0.0)
        struck = found and strike(world, command, moment, names)
        said = len(command.lines)
        if moment.victim in ("controller", "agent"):
            command.end()
        elif struck:
            command.wait_for(lambda lines: len(lines) > said)
        if not struck:
            assert any(world.runs.iterdir()), command.said
            complete(only_run(world), command.said)
    left = world.silent()
    assert left == [], (moment, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left])
    assert before.items() <= sealed(only_run(world)).items(), moment
    return struck or moment.phase in ALONE


def _is_complete(run: Path) -> bool:
    planned = sum(len(json.loads(plan.read_text())["trials"]) for plan in (run / "plan").glob("*.json"))
    return 0 < planned == len(list(run.glob("trials/*/seal.json")))


def finish(world: World) -> None:
    """Resume until the plan is complete."""
    complete(only_run(world), world.svload("resume", str(only_run(world))).stderr)


def check_end(world: World, trials: int) -> None:
    """Check the resumed run: the plan is complete and its batches and sealed trials are unchanged, nothing
    is left, and every seal holds."""
    run = only_run(world)
    before, plan = sealed(run), {path: path.read_bytes() for path in (run / "plan").iterdir()}
    finish(world)
    assert {path: path.read_bytes() for path in plan} == plan
    assert before.items() <= sealed(run).items()
    assert len(list(run.glob("trials/*/seal.json"))) == trials == len(list(run.glob("trials/*")))
    assert world.left() == []
    world.succeed("verify", str(run))

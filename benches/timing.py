"""When requests leave: pacing judged by the receiver's stamps, and the first request after `svload load` is typed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benches.figures import Pacing, pacing
from benches.measure import CLIENT_CORE, SERVER_CORE, Failed, run
from benches.peers import Job, SvloadCommand, SvloadThinking, Tool
from benches.servers import Recorder, log_stamps, truth
from benches.works import CONNECTIONS, Say

RATE_RPS = 500.0
FLOOR_MS, CONTROL_FACTOR = 0.25, 1.2
COLD_LIMIT_S = 0.8
BOTH_CORES = (SERVER_CORE, CLIENT_CORE)
"""Nothing else runs while a command is timed from the keyboard: nobody types `taskset`."""
CONTROL = "epoll_pwait2 loop (C)"


@dataclass
class PacingOutcome:
    """Gap errors by tool, one entry a round; the control's stamps are its own wake-ups."""

    seconds: int
    rounds: dict[str, list[Pacing]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)

    def p99_ms(self, tool: str) -> float | None:
        """The median over rounds."""
        found = [one.p99_ms for one in self.rounds.get(tool, [])]
        return median(found) if found else None

    def stdev_ms(self, tool: str) -> float | None:
        """The median over rounds."""
        found = [one.stdev_ms for one in self.rounds.get(tool, [])]
        return median(found) if found else None

    @property
    def limit_ms(self) -> float | None:
        """max(0.25 ms, 1.2 × the control's p99)."""
        control = self.p99_ms(CONTROL)
        return None if control is None else max(FLOOR_MS, CONTROL_FACTOR * control)

    @property
    def passed(self) -> bool:
        """svload's p99 gap error is within the limit."""
        ours, limit = self.p99_ms("svload"), self.limit_ms
        return ours is not None and limit is not None and ours <= limit and "svload" not in self.failures


def measure_pacing(
    tools: Sequence[Tool],
    pacer: Path | None,
    folder: Path,
    rounds: int,
    seconds: int,
    order: random.Random,
    say: Say,
) -> PacingOutcome:
    """500 evenly spaced requests a second to the truth server by each tool that can, the control among them, in random order."""
    outcome = PacingOutcome(seconds)
    with truth(folder) as (server, admin_port):
        job = Job(
            "http",
            server.http_port,
            "/v1/a/c/o",
            1024,
            CONNECTIONS,
            seconds,
            rate_rps=RATE_RPS,
            folder=folder,
        )
        names: list[Tool | None] = [
            tool for tool in tools if tool.can(job) and not isinstance(tool, SvloadCommand | SvloadThinking)
        ]
        if pacer is not None:
            names.append(None)
        for number in range(rounds):
            order.shuffle(names)
            for tool in names:
                name = CONTROL if tool is None else tool.name
                out = folder / "pacing.out"
                command = [str(pacer), f"{RATE_RPS:g}", str(seconds)] if tool is None else tool.command(job)
                try:
                    log_stamps(admin_port)
                    run(
                        command,
                        out,
                        seconds + 30.0,
                        server.pids,
                        None if tool is None else tool.environment(),
                    )
                    stamps = (
                        json.loads(out.read_text())["woke_ns"] if tool is None else log_stamps(admin_port)
                    )
                    if len(stamps) < 0.95 * RATE_RPS * seconds:
                        raise Failed(f"{len(stamps)} of {RATE_RPS * seconds:.0f} requests came")
                    outcome.rounds.setdefault(name, []).append(pacing(stamps, RATE_RPS))
                except (Failed, ValueError) as why:
                    outcome.failures.setdefault(name, []).append(f"round {number + 1}: {why}")
            say(f"pacing: round {number + 1} of {rounds}")
    return outcome


@dataclass
class FirstOutcome:
    """Seconds from the start of the command to its first request of the load at the server, one entry a try."""

    tries_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """The slowest try counts."""
        return bool(self.tries_s) and not self.failures and max(self.tries_s) <= COLD_LIMIT_S


def measure_first(folder: Path, tries: int, say: Say) -> FirstOutcome:
    """`svload load URL` typed `tries` times with no agent on the machine; requests that only look for the server don't count."""
    outcome = FirstOutcome()
    tool = SvloadCommand()
    for _ in range(tries):
        recorder = Recorder()
        marked = f"/first-{time.monotonic_ns()}"
        job = Job("http", recorder.port, marked, 1024, 1, 1, folder=folder)
        begun_ns = time.monotonic_ns()
        try:
            cost = run(
                tool.command(job), folder / "first.out", 60, frozenset(), tool.environment(), BOTH_CORES
            )
            came = [
                at for at, head in recorder.heads if marked.encode() in head and b"User-Agent: svload" in head
            ]
            if cost.exit not in (0, 4) or not came:
                raise Failed(f"exit {cost.exit}, {len(came)} requests came")
            outcome.tries_s.append((min(came) - begun_ns) / 1e9)
        except Failed as why:
            outcome.failures.append(str(why))
        finally:
            recorder.close()
    say("first request: done")
    return outcome

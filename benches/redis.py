"""Redis: the engine beside redis-benchmark, the same commands on the same connections, one at a time and pipelined."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benches.figures import Ratio, Run, Slope, paired_ratio, slope
from benches.measure import Failed, run
from benches.peers import SAMPLES_INTERVAL_NS, Svload
from benches.report import interval
from benches.servers import free_ports, running, until_up
from benches.works import CONNECTIONS, Bench

DEPTHS = (1, 16)
"""Commands that leave together."""
LIMIT = 1.5
"""The most that svload's CPU a command may be of redis-benchmark's, which records a time
a pipeline and checks nothing."""
KEY, VALUE_BYTES = "key:__rand_int__", 64
PER_SECOND = {1: 40_000, 16: 200_000}
"""Commands in a second of the bench's spans: what is fixed is the work, so that both do the same."""
PEER = "redis-benchmark"
PROGRAMS = ("redis-server", PEER)


@dataclass
class RedisOutcome:
    """Slopes by depth, tool and round: CPU of one command more."""

    slopes: dict[int, dict[str, dict[int, Slope]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def ratio(self, depth: int) -> Ratio:
        """svload over redis-benchmark, process CPU, paired by round."""
        tools = self.slopes.get(depth, {})
        ours, theirs = (
            {number: one.process_us for number, one in tools.get(name, {}).items()}
            for name in (Svload.name, PEER)
        )
        return paired_ratio(ours, theirs)

    @property
    def passed(self) -> bool:
        """Every run counted, and the point ratio is within the limit at each depth."""
        return not self.failures and all(self.ratio(depth).value <= LIMIT for depth in DEPTHS)

    def block(self) -> list[str]:
        """A line for each depth and tool."""
        lines = [
            f"Redis: GET of {VALUE_BYTES} B, {CONNECTIONS} connections",
            f"  {'tool':<19} {'pipeline':>8} {'process µs':>10} {'commands/s':>10}   ÷ {PEER} (95 %)",
        ]
        for depth in DEPTHS:
            for name, rounds in sorted(self.slopes.get(depth, {}).items()):
                if rounds:
                    cpu_us = median(one.process_us for one in rounds.values())
                    rate = median(one.rate_rps for one in rounds.values())
                    told = interval(self.ratio(depth)) if name == Svload.name else ""
                    lines.append(f"  {name:<19} {depth:>8} {cpu_us:>10.2f} {rate:>10.0f}   {told}")
        return lines + [f"  ! {failure}" for failure in self.failures]

    def figure(self) -> str:
        """Each depth's ratio against the limit."""
        found = ", ".join(f"{depth}: {interval(self.ratio(depth))}" for depth in DEPTHS)
        return f"≤ {LIMIT:.2f} × {PEER} by pipeline {found}"


def lacking() -> list[str]:
    """Programs that this machine does not have."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def measure_redis(bench: Bench) -> RedisOutcome:
    """Both tools in random order, a short and a long run of each side by side, as the works are measured."""
    outcome = RedisOutcome()
    spans = [bench.effort.short_s, bench.effort.long_s]
    with _redis(bench.folder) as server:
        for depth in DEPTHS:
            found = outcome.slopes.setdefault(depth, {Svload.name: {}, PEER: {}})
            for number in range(bench.effort.rounds):
                for name in bench.order.sample([Svload.name, PEER], 2):
                    try:
                        runs = {
                            span: _counted(bench, server, name, depth, span * PER_SECOND[depth])
                            for span in bench.order.sample(spans, 2)
                        }
                        found[name][number] = slope(runs[spans[0]], runs[spans[1]])
                    except (Failed, ValueError) as why:
                        outcome.failures.append(f"{name}, pipeline {depth}, round {number + 1}: {why}")
                bench.say(f"redis: pipeline {depth}, round {number + 1} of {bench.effort.rounds}")
    return outcome


@dataclass
class _Server:
    port: int
    pids: frozenset[int]

    def gets(self) -> int:
        """GETs it has been asked."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"INFO commandstats\r\nQUIT\r\n")
            told = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        calls = [
            line.partition("calls=")[2].partition(",")[0]
            for line in told.splitlines()
            if line.startswith("cmdstat_get:")
        ]
        return int(calls[0]) if calls else 0


@contextlib.contextmanager
def _redis(folder: Path) -> Iterator[_Server]:
    (port,) = free_ports(1)
    command = [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder),
    ]  # fmt: skip
    with running(command, folder / "redis.out") as child:
        until_up(child, [port], folder / "redis.out")
        words = [
            "redis-benchmark",
            "-p",
            str(port),
            "-q",
            "-n",
            "1",
            "-c",
            "1",
            "-d",
            str(VALUE_BYTES),
            "-t",
            "set",
        ]
        subprocess.run(words, check=True, capture_output=True, timeout=30)
        yield _Server(port, frozenset({child.pid}))


def _counted(bench: Bench, server: _Server, name: str, depth: int, commands: int) -> Run:
    out = bench.folder / f"{name}.out"
    if name == PEER:
        command = [
            PEER, "-p", str(server.port), "-q", "-t", "get", "-n", str(commands), "-c", str(CONNECTIONS), "-P", str(depth),
        ]  # fmt: skip
    else:
        spec = bench.folder / "redis.share.json"
        spec.write_text(json.dumps(redis_share(server.port, depth, commands)), encoding="utf-8")
        command = [sys.executable, "-m", "benches.share", str(spec), str(bench.folder / "redis.tables")]
    before = server.gets()
    cost = run(command, out, 120, server.pids, Svload().environment())
    asked = server.gets() - before
    if cost.exit != 0:
        raise Failed(
            f"it ended with {cost.exit}: {out.with_suffix('.err').read_text(errors='replace').strip()[-200:]}"
        )
    if abs(asked - commands) > CONNECTIONS * depth:
        raise Failed(f"{commands} commands were to be asked, the server counts {asked}")
    if name != PEER:
        (group,) = json.loads(out.read_text())["groups"]
        if group["ok"] * depth != commands:
            raise Failed(
                f"{group['ok']} pipelines of {depth} were ok, {commands} commands were asked: {group['errors']}"
            )
    return Run(asked, cost.process_s, cost.core_s, cost.wall_s)


def redis_share(port: int, depth: int, commands: int) -> dict[str, Any]:
    """So many GETs as one share for the engine, by svload's own types and cutting."""
    from benches.peers import share_of_group
    from svload.model.executors import SharedIterations
    from svload.model.traffic import Group, Redis, Request, Text

    get: Sequence[tuple[Text, ...]] = ((Text(text="GET"),), (Text(text=KEY),))
    request = Request(
        name="get",
        method="TCP",
        scheme="tcp",
        host="127.0.0.1",
        path=(),
        redis=Redis(commands=(tuple(get),) * depth),
    )
    executor = SharedIterations(vus=CONNECTIONS, iterations=commands // depth, start="together")
    group = Group(name="load", executor=executor, request=request, record="histogram")
    return share_of_group(group, "tcp", port, 100) | {"interval_ns": SAMPLES_INTERVAL_NS}

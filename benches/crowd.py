"""Many slow users: 10,000 connections that ask once a second, evenly spread; their memory and CPU."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from statistics import median

from benches.figures import Run, slope
from benches.measure import Failed, run
from benches.peers import Job, SvloadQuantum, SvloadThinking
from benches.servers import Server, nginx
from benches.works import Bench

FEW, MANY, RATE_RPS = 100, 10_000, 10_000.0
MEMORY_LIMIT_KIB = 6.0
QUANTUM_LIMIT = 0.12
"""Share of a core with `pacing_quantum: 1ms`."""
RAMP_SLACK = 0.9
"""The first second spreads the starts, and the cycle is think time plus response: the rate asked is an upper bound."""


@dataclass
class CrowdOutcome:
    """One entry a round: KiB of resident memory a connection, CPU µs a request, CPU µs a wake-up of the
    control, CPU µs a request in quanta."""

    memory_kib: list[float] = field(default_factory=list)
    ours_us: list[float] = field(default_factory=list)
    control_us: list[float] = field(default_factory=list)
    quantum_us: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def _cpu_limit_us(self) -> float:
        return 1.5 * median(self.control_us) + 5.0

    @property
    def passed(self) -> bool:
        """≤ 6 KiB a connection (worst round), ≤ 1.5 × the control's CPU + 5 µs a request and ≤ 12 %
        of a core in quanta (medians)."""
        if self.failures or not self._measured:
            return False
        return (
            max(self.memory_kib) <= MEMORY_LIMIT_KIB
            and median(self.ours_us) <= self._cpu_limit_us
            and self._quantum_share <= QUANTUM_LIMIT
        )

    @property
    def _measured(self) -> bool:
        return all((self.memory_kib, self.ours_us, self.control_us, self.quantum_us))

    @property
    def _quantum_share(self) -> float:
        return median(self.quantum_us) * RATE_RPS / 1e6

    def block(self) -> list[str]:
        lines = [
            f"{MANY:,} connections at 1 req/s each, evenly spread, 1 KiB from nginx (plain; kernel socket "
            f"memory not in it)"
        ]
        for title, found, unit in (
            ("memory a connection", self.memory_kib, "KiB"),
            ("svload, CPU a request", self.ours_us, "µs"),
            ("epoll_pwait2 loop, CPU a wake-up", self.control_us, "µs"),
            ("svload, pacing_quantum: 1ms", self.quantum_us, "µs"),
        ):
            if found:
                lines.append(f"  {title:<34} {median(found):>8.2f} {unit}")
        return lines + [f"  ! {why}" for why in self.failures]

    def figure(self) -> str:
        """Memory and CPU against their limits."""
        if not self._measured:
            return "not measured"
        return (
            f"{max(self.memory_kib):.2f} KiB a connection, at most {MEMORY_LIMIT_KIB:g}; "
            f"{median(self.ours_us):.2f} µs a request, at most {self._cpu_limit_us:.2f}; "
            f"{self._quantum_share:.1%} of a core with pacing_quantum: 1ms, at most {QUANTUM_LIMIT:.0%}"
        )


def measure_crowd(bench: Bench) -> CrowdOutcome:
    """Memory as a slope between 100 and 10,000 connections at one rate; CPU as a slope
    between a short and a long run."""
    outcome = CrowdOutcome()
    with nginx(bench.folder / "nginx") as server:
        short_s, long_s = 2, 2 + bench.effort.long_s
        job = Job(
            "http", server.http_port, "/1k.bin", 1024, MANY, short_s, rate_rps=RATE_RPS, folder=bench.folder
        )
        for _ in range(min(bench.effort.rounds, 5)):
            try:
                few_bytes, _ = _one(bench, server, replace(job, connections=FEW, seconds=long_s))
                _, short = _one(bench, server, job)
                many_bytes, long = _one(bench, server, replace(job, seconds=long_s))
                outcome.memory_kib.append((many_bytes - few_bytes) / (MANY - FEW) / 1024)
                outcome.ours_us.append(slope(short, long).process_us)
                grid = replace(job, quantum_ns=SvloadQuantum.QUANTUM_NS)
                ends = (_one(bench, server, replace(grid, seconds=span))[1] for span in (short_s, long_s))
                outcome.quantum_us.append(slope(*ends).process_us)
                outcome.control_us.append(slope(_wakes(bench, short_s), _wakes(bench, long_s)).process_us)
            except (Failed, ValueError) as why:
                outcome.failures.append(str(why))
    bench.say("crowd: done")
    return outcome


def _one(bench: Bench, server: Server, job: Job) -> tuple[int, Run]:
    tool, out = SvloadThinking(), bench.folder / "crowd.out"
    before = server.requests()
    cost = run(tool.command(job), out, job.seconds + 60.0, server.pids, tool.environment())
    requests = server.requests() - before
    told = tool.read(job, out)
    least = RAMP_SLACK * RATE_RPS * (job.seconds - 1)
    if told.bad or told.requests < least or abs(told.requests - requests) > 0.005 * requests:
        raise Failed(
            f"{job.connections} connections: {told.requests} requests ({told.bad} bad), at least {math.ceil(least)} "
            f"were due; the server counts {requests}"
        )
    summary = json.loads(out.read_text())
    opened = summary["groups"][0]["connections_opened"]
    if opened != job.connections:
        raise Failed(f"{opened} connections were opened, {job.connections} are right")
    resident_bytes = int(summary["load_rss_bytes"])
    return resident_bytes, Run(requests, cost.process_s, cost.core_s, cost.wall_s)


def _wakes(bench: Bench, seconds: int) -> Run:
    out = bench.folder / "pacer.out"
    cost = run([str(bench.program("pacer")), f"{RATE_RPS:g}", str(seconds)], out, seconds + 30.0, frozenset())
    return Run(round(RATE_RPS * seconds), cost.process_s, cost.core_s, cost.wall_s)

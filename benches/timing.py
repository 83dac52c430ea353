"""When requests leave: pacing by the receiver's stamps, generator lag at a high rate,
the first request of a command."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from benches.figures import Pacing, pacing
from benches.measure import CLIENT_CORE, SERVER_CORE, Failed, pinned, run
from benches.peers import Job, Svload, SvloadCommand, SvloadQuantum, SvloadThinking, Tool
from benches.servers import Recorder, log_stamps, nginx, truth
from benches.works import CONNECTIONS, Bench

CONTROL = "epoll_pwait2 loop (C)"
BOTH_CORES = (SERVER_CORE, CLIENT_CORE)
"""Nothing else runs while a command is timed from the keyboard: nobody types `taskset`."""
COLD_LIMIT_S, WARM_LIMIT_S = 0.8, 0.3
SPARE_BOUND_S = 30.0


@dataclass
class PacingOutcome:
    """Gap errors by tool, one entry a round; the control's stamps are its own wake-ups."""

    RATE_RPS = 500.0
    seconds: int
    rounds: dict[str, list[Pacing]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)

    def p99_ms(self, tool: str) -> float:
        """The median over rounds; inf without any."""
        found = [one.p99_ms for one in self.rounds.get(tool, [])]
        return median(found) if found else math.inf

    @property
    def limit_ms(self) -> float:
        """max(0.25 ms, 1.2 × the control's p99)."""
        control = self.p99_ms(CONTROL)
        return max(0.25, 1.2 * control) if math.isfinite(control) else 0.25

    @property
    def passed(self) -> bool:
        """svload's p99 gap error is within the limit."""
        return self.p99_ms("svload") <= self.limit_ms and "svload" not in self.failures

    def block(self) -> list[str]:
        """A line a tool, the best first."""
        lines = [
            f"Pacing at {self.RATE_RPS:.0f} req/s, {self.seconds} s a round: error of the gaps as the "
            f"receiver stamped them",
            f"  {'tool':<22} {'stdev ms':>9} {'p99 ms':>8}",
        ]
        for name in sorted(self.rounds, key=self.p99_ms):
            stdev_ms = median(one.stdev_ms for one in self.rounds[name])
            lines.append(f"  {name:<22} {stdev_ms:>9.3f} {self.p99_ms(name):>8.3f}")
        return lines + [f"  ! {name}: {why}" for name, all_of in self.failures.items() for why in all_of]

    def figure(self) -> str:
        """p99 against its limit."""
        return f"p99 gap error {self.p99_ms('svload'):.3f} ms, at most {self.limit_ms:.3f} ms"


def measure_pacing(bench: Bench) -> PacingOutcome:
    """500 evenly spaced requests a second to the truth server by each tool that can, the
    control among them, in random order."""
    rate_rps, seconds = PacingOutcome.RATE_RPS, 2 * bench.effort.long_s
    outcome = PacingOutcome(seconds)
    with truth(bench.folder) as (server, admin_port):
        job = Job(
            "http", server.http_port, "/v1/a/c/o", 1024, CONNECTIONS, seconds, rate_rps=rate_rps,
            folder=bench.folder,
        )  # fmt: skip
        others = (SvloadCommand, SvloadThinking, SvloadQuantum)
        tools = [tool for tool in bench.tools if tool.can(job) and not isinstance(tool, others)]
        plan: list[Tool | None] = [*tools, None]
        for number in range(min(bench.effort.rounds, 5)):
            bench.order.shuffle(plan)
            for tool in plan:
                name = tool.name if tool else CONTROL
                try:
                    if tool is None:
                        stamps = _woke_ns(bench, rate_rps, seconds)
                    else:
                        log_stamps(admin_port)
                        out = bench.folder / "pacing.out"
                        run(tool.command(job), out, seconds + 30.0, server.pids, tool.environment())
                        stamps = log_stamps(admin_port)
                    if len(stamps) < 0.95 * rate_rps * seconds:
                        raise Failed(f"{len(stamps)} of {rate_rps * seconds:.0f} requests came")
                    outcome.rounds.setdefault(name, []).append(pacing(stamps, rate_rps))
                except (Failed, ValueError) as why:
                    outcome.failures.setdefault(name, []).append(f"round {number + 1}: {why}")
            bench.say(f"pacing: round {number + 1}")
    return outcome


def _woke_ns(bench: Bench, rate_rps: float, seconds: int) -> list[int]:
    out = bench.folder / "pacer.out"
    run([str(bench.program("pacer")), f"{rate_rps:g}", str(seconds)], out, seconds + 30.0, frozenset())
    stamps: list[int] = json.loads(out.read_text())["woke_ns"]
    return stamps


@dataclass
class LagOutcome:
    """Lateness in µs, (p50, p99) a round: the engine's own generator lag, and the control's wake-ups."""

    RATE_RPS = 20_000.0
    SPIN_NS = 60_000
    SPINNING_LIMIT_US = 5.0
    ours_us: list[tuple[float, float]] = field(default_factory=list)
    spinning_us: list[tuple[float, float]] = field(default_factory=list)
    control_us: list[tuple[float, float]] = field(default_factory=list)
    spun_us: dict[int, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def _limits_us(self) -> tuple[float, float]:
        p50, p99 = _medians(self.control_us)
        return p50 + 10.0, max(200.0, 1.2 * p99)

    @property
    def passed(self) -> bool:
        """p50 ≤ control + 10 µs and p99 ≤ max(200 µs, 1.2 × control); with `spin: 60us` p50 ≤ 5 µs."""
        if self.failures or not self._measured:
            return False
        on_time = _medians(self.spinning_us)[0] <= self.SPINNING_LIMIT_US
        return on_time and all(
            mine <= most for mine, most in zip(_medians(self.ours_us), self._limits_us(), strict=True)
        )

    @property
    def _measured(self) -> bool:
        return all((self.ours_us, self.spinning_us, self.control_us))

    def block(self) -> list[str]:
        """Ours, with and without `spin`, and the control's."""
        lines = [
            f"Generator lag at {self.RATE_RPS:.0f} req/s, 1 KiB from nginx",
            f"  {'':<22} {'p50 µs':>8} {'p99 µs':>8}",
        ]
        rows = (
            ("svload", self.ours_us, 0),
            ("svload, spin: 60us", self.spinning_us, self.SPIN_NS),
            (CONTROL, self.control_us, None),
        )
        for name, found, spin_ns in rows:
            if found:
                p50, p99 = _medians(found)
                spun = self.spun_us.get(spin_ns) if spin_ns is not None else None
                told = f"   ({median(spun):.1f} µs a request spun)" if spun else ""
                lines.append(f"  {name:<22} {p50:>8.1f} {p99:>8.1f}{told}")
        return lines + [f"  ! {why}" for why in self.failures]

    def figure(self) -> str:
        """Both against their limits."""
        if not self._measured:
            return "not measured"
        (p50, p99), (most50, most99) = _medians(self.ours_us), self._limits_us()
        return (
            f"p50 {p50:.1f} µs, at most {most50:.1f}; p99 {p99:.1f} µs, at most {most99:.1f}; "
            f"with spin: 60us p50 {_medians(self.spinning_us)[0]:.1f} µs, at most {self.SPINNING_LIMIT_US:g}"
        )


def _medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def measure_lag(bench: Bench) -> LagOutcome:
    """The engine's lag histogram of an open loop beside the lateness of a loop that only
    wakes, both on the client core."""
    outcome, seconds = LagOutcome(), bench.effort.long_s
    tool = Svload()
    with nginx(bench.folder / "nginx") as server:
        job = Job(
            "http", server.http_port, "/1k.bin", 1024, CONNECTIONS, seconds, rate_rps=outcome.RATE_RPS,
            folder=bench.folder,
        )  # fmt: skip
        for _ in range(min(bench.effort.rounds, 5)):
            plan = [0, outcome.SPIN_NS, None]
            bench.order.shuffle(plan)
            for spin_ns in plan:
                try:
                    if spin_ns is None:
                        woke = _woke_ns(bench, outcome.RATE_RPS, seconds)
                        gap_ns = 1e9 / outcome.RATE_RPS
                        late = sorted(at - int(number * gap_ns) for number, at in enumerate(woke))
                        outcome.control_us.append((_rank(late, 0.5) / 1e3, _rank(late, 0.99) / 1e3))
                        continue
                    out = bench.folder / "lag.out"
                    one = replace(job, spin_ns=spin_ns)
                    run(tool.command(one), out, seconds + 30.0, server.pids, tool.environment())
                    told = tool.read(one, out)
                    if told.bad or told.requests < 0.99 * outcome.RATE_RPS * seconds:
                        raise Failed(f"{told.requests} requests, {told.bad} of them bad")
                    found = outcome.spinning_us if spin_ns else outcome.ours_us
                    found.append(_lag_us(bench.folder / "share.tables"))
                    spun_ns = sum(thread["spin_ns"] for thread in json.loads(out.read_text())["threads"])
                    outcome.spun_us.setdefault(spin_ns, []).append(spun_ns / told.requests / 1e3)
                except Failed as why:
                    outcome.failures.append(str(why))
    bench.say("lag: done")
    return outcome


def _rank(ordered: Sequence[int], p: float) -> int:
    return ordered[max(math.ceil(p * len(ordered)) - 1, 0)]


def _lag_us(tables: Path) -> tuple[float, float]:
    """p50 and p99 of the generator lag (metric 3 of engine/docs/results.md), nearest rank on the merged histogram."""
    from svload.model.columns import bucket_bounds
    from svload.store.raw import read_tables

    table = read_tables(tables)["histograms"]
    metrics, buckets, counts = (
        memoryview(table[name][1]).cast("B") for name in ("metric", "bucket", "count")
    )
    merged: dict[int, int] = {}
    for index, (bucket, count) in enumerate(zip(buckets.cast("I"), counts.cast("Q"), strict=True)):
        if metrics[index] == 3:
            merged[bucket] = merged.get(bucket, 0) + count
    total, found, below = sum(merged.values()), [], 0
    wanted = [0.5, 0.99]
    for bucket in sorted(merged):
        below += merged[bucket]
        while wanted and below >= wanted[0] * total:
            low, high = bucket_bounds(bucket)
            found.append((low + high) / 2 / 1e3)
            wanted.pop(0)
    if len(found) != 2:
        raise Failed("the engine recorded no generator lag")
    return found[0], found[1]


@dataclass
class FirstOutcome:
    """Seconds from the start of the command to its first request of the load at the server, one entry a try."""

    before: str
    limit_s: float
    tries_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """The slowest try counts."""
        return bool(self.tries_s) and not self.failures and max(self.tries_s) <= self.limit_s

    def block(self) -> list[str]:
        tries = " ".join(f"{one:.2f}" for one in self.tries_s)
        lines = [f"First request after `svload load` is typed, {self.before}: {tries} s"]
        return lines + [f"  ! {why}" for why in self.failures]

    def figure(self) -> str:
        """The slowest try against the limit."""
        return f"slowest {max(self.tries_s, default=math.inf):.2f} s, at most {self.limit_s} s"


def measure_first(bench: Bench) -> FirstOutcome:
    """`svload load URL` typed with no agent on the machine; requests that only look for the server don't count."""
    outcome = FirstOutcome("no agent before", COLD_LIMIT_S)
    _type_loads(bench, outcome, lambda: None)
    bench.say("first request: done")
    return outcome


def measure_warm(bench: Bench) -> FirstOutcome:
    """The same after `svload warm`, typed when the spare that it keeps waits."""
    from svload.host.process.warm import SOCKET, warm_dir

    def wait_for_spare() -> None:
        until = time.monotonic() + SPARE_BOUND_S
        while not (warm_dir() / SOCKET).exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(1.0)  # as a user would who reads what came before; other work of its start is over

    outcome = FirstOutcome("after `svload warm`", WARM_LIMIT_S)
    try:
        _svload_warm("--for", "10m")
        _type_loads(bench, outcome, wait_for_spare)
    except subprocess.CalledProcessError as why:
        outcome.failures.append(f"svload warm: {why.stderr}")
    finally:
        _svload_warm("--end")
    bench.say("first request, warm: done")
    return outcome


def _svload_warm(*words: str) -> None:
    """From the same place as the loads."""
    tool = SvloadCommand()
    subprocess.run(
        [str(tool.program()), "warm", *words], preexec_fn=pinned(*BOTH_CORES), capture_output=True, text=True,
        check=True, timeout=60, env={**os.environ, **tool.environment()},
    )  # fmt: skip


def _type_loads(bench: Bench, outcome: FirstOutcome, ready: Callable[[], None]) -> None:
    tool = SvloadCommand()
    for _ in range(bench.effort.rounds):
        ready()
        recorder = Recorder()
        marked = f"/first-{time.monotonic_ns()}"
        job = Job("http", recorder.port, marked, 1024, 1, 1, folder=bench.folder)
        begun_ns = time.monotonic_ns()
        try:
            cost = run(
                tool.command(job), bench.folder / "first.out", 60, frozenset(), tool.environment(), BOTH_CORES
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

"""Measurements other than costs at saturation: pacing, lag, first requests, and 10,000 connections."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benches.figures import gap_error_ms, slope
from benches.measure import CLIENT_CORE, SERVER_CORE, Cost, Failed, noted, pinned, run
from benches.peers import QUANTUM_NS, SVLOAD, THINKING, Job, Tool
from benches.servers import Server, nginx, recorded, truth
from benches.works import Bench, Special
from svload.analysis.quantiles import ranked_counts
from svload.store.raw import read_tables

CONTROL = "epoll_pwait2 loop (C)"
_PROGRAM = str(Path(sys.executable).with_name("svload"))
SVLOAD_COMMAND = ("env", "SVLOAD_LOCK=/dev/shm/svload-bench.lock", _PROGRAM)
"""Its own lock lets it run although the bench holds the machine's."""
BOTH_CORES = (SERVER_CORE, CLIENT_CORE)
"""Used while a command is timed as typed: nothing else runs then, and users don't type `taskset`."""
MOST_ROUNDS = 5


def _woke_ns(bench: Bench, rate_rps: float, seconds: int) -> tuple[list[int], Cost]:
    """Return when a loop that only waits woke, and its cost."""
    out = bench.folder / "pacer.out"
    cost = run([str(bench.program("pacer")), f"{rate_rps:g}", str(seconds)], out, seconds + 30.0)
    return json.loads(out.read_text())["woke_ns"], replace(cost, requests=round(rate_rps * seconds))


def _job(bench: Bench, server: Server, seconds: int, rate_rps: float, **more: Any) -> Job:
    return Job(port=server.port, seconds=seconds, rate_rps=rate_rps, folder=bench.folder, **more)


def measure_pacing(bench: Bench) -> Special:
    """Send 500 evenly spaced requests a second to the truth server by each tool that can, and by the
    control, in random order. The p99 gap error by the receiver's stamps is at most max(0.25 ms, 1.2 × the
    control's); the control's stamps are its own wake-ups."""
    rate_rps, seconds = 500.0, 2 * bench.effort.long_s
    found: dict[str, list[float]] = defaultdict(list)
    failures: list[str] = []
    of_others: list[str] = []
    with truth(bench.folder) as (server, read_stamps):
        job = _job(bench, server, seconds, rate_rps, path="/v1/a/c/o")
        able = [tool for tool in bench.tools if tool.can(job) and (not tool.ours or tool.name == SVLOAD.name)]
        tools: dict[str, Tool | None] = {CONTROL: None, **{tool.name: tool for tool in able}}
        for number, name in bench.rounds("pacing", list(tools), MOST_ROUNDS):
            with noted(failures if name == SVLOAD.name else of_others, f"{name}: round {number + 1}: "):
                if (tool := tools[name]) is None:
                    stamps, _ = _woke_ns(bench, rate_rps, seconds)
                else:
                    read_stamps()
                    bench.run(tool, job, server)
                    stamps = read_stamps()
                if len(stamps) < 0.95 * rate_rps * seconds:
                    raise Failed(f"{len(stamps)} of {rate_rps * seconds:.0f} requests came")
                found[name].append(gap_error_ms(stamps, rate_rps))
    p99_ms = {name: median(several) for name, several in found.items()}
    lines = [f"Pacing at {rate_rps:.0f} req/s, {seconds} s a round: p99 error of the gaps as received, ms"]
    lines += [f"  {name:<22} {p99_ms[name]:>8.3f}" for name in sorted(p99_ms, key=p99_ms.__getitem__)]
    lines += [f"  ! {why}" for why in of_others]
    most_ms = max(0.25, 1.2 * p99_ms.get(CONTROL, 0.0))
    limit = ("p99 gap error {:.3f} ms, at most {:.3f} ms", p99_ms.get(SVLOAD.name, math.inf), most_ms)
    return Special.of(lines, failures, limit)


LAG_RPS, SPIN_NS, SPINNING_LIMIT_US = 20_000.0, 60_000, 5.0
SPINNING = "svload, spin: 60us"


def measure_lag(bench: Bench) -> Special:
    """Compare the engine's own lag histogram at 20,000 requests/s with the lateness of a loop that only
    wakes: p50 ≤ control + 10 µs and p99 ≤ max(200 µs, 1.2 × control); with `spin: 60us` p50 ≤ 5 µs."""
    seconds, names = bench.effort.long_s, (SVLOAD.name, SPINNING, CONTROL)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    failures: list[str] = []
    with nginx(bench.folder / "nginx") as server:
        job = _job(bench, server, seconds, LAG_RPS)
        for _, name in bench.rounds("lag", names, MOST_ROUNDS):
            with noted(failures):
                if name == CONTROL:
                    woke, _ = _woke_ns(bench, LAG_RPS, seconds)
                    late_us = np.array(woke) / 1e3 - np.arange(len(woke)) * 1e6 / LAG_RPS
                    found[name].append((*np.quantile(late_us, (0.5, 0.99)).tolist(), 0.0))
                    continue
                spinning = replace(job, spin_ns=SPIN_NS if name == SPINNING else 0)
                _, counted = bench.run(SVLOAD, spinning, server)
                if counted.requests < 0.99 * LAG_RPS * seconds:
                    raise Failed(f"only {counted.requests} requests")
                spun_ns = sum(thread["spin_ns"] for thread in counted.summary["threads"])
                found[name].append((*_lag_us(bench.folder), spun_ns / counted.requests / 1e3))
    lines = [f"Generator lag at {LAG_RPS:.0f} req/s, 1 KiB from nginx: p50 and p99 in µs"]
    middle = {name: np.median(several, axis=0) for name, several in found.items() if several}
    for name, (p50, p99, spun) in middle.items():
        spent = "" if name == CONTROL else f"   ({spun:.1f} µs a request spun)"
        lines.append(f"  {name:<22} {p50:>8.1f} {p99:>8.1f}{spent}")
    if len(middle) < len(names):
        return Special.of(lines, failures)
    ours, spinning_us, control = (middle[name] for name in names)
    return Special.of(
        lines,
        failures,
        ("p50 {:.1f} µs, at most {:.1f}", ours[0], control[0] + 10.0),
        ("p99 {:.1f} µs, at most {:.1f}", ours[1], max(200.0, 1.2 * control[1])),
        ("with spin: 60us p50 {:.1f} µs, at most {:g}", spinning_us[0], SPINNING_LIMIT_US),
    )


def _lag_us(folder: Path) -> tuple[float, float]:
    """Return p50 and p99 of the generator lag (metric 3 of engine/docs/results.md) in all histograms."""
    tables = read_tables(folder / "share.tables")
    table = {name: cells for name, (_, cells) in tables["histograms"].items()}
    lag = np.frombuffer(table["metric"], np.uint8) == 3
    buckets, counts = np.frombuffer(table["bucket"], np.uint32), np.frombuffer(table["count"], np.uint64)
    ranked = ranked_counts(np.bincount(buckets[lag], weights=counts[lag]))
    p50_ns, p99_ns = (ranked.quantile(p) for p in (0.5, 0.99))
    if p50_ns is None or p99_ns is None:
        raise Failed("no lag was recorded")
    return p50_ns / 1e3, p99_ns / 1e3


COLD_LIMIT_S, WARM_LIMIT_S = 0.8, 0.3
SPARE_BOUND_S = 30.0


def measure_first(bench: Bench) -> Special:
    """Time `svload load URL` with no agent on the machine; requests that probe the server don't count."""
    return _type_loads(bench, "no agent before", COLD_LIMIT_S, lambda: None)


def measure_warm(bench: Bench) -> Special:
    """Time it after `svload warm`, when the spare that it keeps is ready."""
    from svload.host.process.warm import SOCKET, warm_dir

    def wait_for_spare() -> None:
        until = time.monotonic() + SPARE_BOUND_S
        while not (warm_dir() / SOCKET).exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(1.0)  # like a user who reads the earlier output; other work at its start has ended

    try:
        _svload_warm("--for", "10m")
        return _type_loads(bench, "after `svload warm`", WARM_LIMIT_S, wait_for_spare)
    except subprocess.CalledProcessError as why:
        return Special.of(["First request after `svload warm`"], [f"svload warm: {why.stderr}"])
    finally:
        _svload_warm("--end")


def _svload_warm(*words: str) -> None:
    """Run `svload warm` on the same cores and in the same environment as the loads."""
    subprocess.run(
        [*SVLOAD_COMMAND, "warm", *words], preexec_fn=pinned(*BOTH_CORES), capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip


def _type_loads(bench: Bench, before: str, limit_s: float, ready: Callable[[], None]) -> Special:
    """Measure the seconds from the command's start to its first load request; the slowest try counts."""
    tries_s: list[float] = []
    failures: list[str] = []
    for _, name in bench.rounds(f"first request, {before}", ["first"]):
        ready()
        with recorded() as (port, heads), noted(failures):
            begun_ns = time.monotonic_ns()
            marked = f"/{name}-{begun_ns}"
            words = (f"http://127.0.0.1:{port}{marked}", "--vus", "1", "--duration", "1s", "--json")
            command = [*SVLOAD_COMMAND, "load", *words]
            run(command, bench.folder / f"{name}.out", 60, cores=BOTH_CORES, codes=(0, 4))
            came = [at for at, head in heads if marked.encode() in head and b"User-Agent: svload" in head]
            if not came:
                raise Failed("no request came")
            tries_s.append((min(came) - begun_ns) / 1e9)
    tries = " ".join(f"{one:.2f}" for one in tries_s)
    title = f"First request after `svload load` is typed, {before}: {tries} s"
    limit = ("slowest {:.2f} s, at most {} s", max(tries_s, default=math.inf), limit_s)
    return Special.of([title], failures, limit)


FEW, MANY, CROWD_RPS = 100, 10_000, 10_000.0
MEMORY_LIMIT_KIB, QUANTUM_LIMIT = 6.0, 0.12
"""A connection's memory, and the share of a core with `pacing_quantum: 1ms`."""
RAMP_SLACK = 0.9
"""The first second spreads the starts, and a cycle is think time plus response, which bounds the rate."""
CROWD = {
    "memory": "memory a connection, KiB",
    "ours": "svload, µs of CPU a request",
    "control": "epoll_pwait2 loop, µs of CPU a wake-up",
    "quantum": "svload, pacing_quantum: 1ms, µs",
}


def measure_crowd(bench: Bench) -> Special:
    """Load by 10,000 users with one request per second each: memory as a slope between 100 and 10,000
    connections at one rate, CPU as a slope between a short and a long run. At most 6 KiB per connection
    (worst round), 1.5 × the control's CPU + 5 µs per request, and 12 % of a core in quanta (medians)."""
    found: dict[str, list[float]] = {name: [] for name in CROWD}
    failures: list[str] = []
    spans_s = (2, 2 + bench.effort.long_s)
    with nginx(bench.folder / "nginx") as server:
        job = _job(bench, server, spans_s[1], CROWD_RPS, connections=MANY)
        ran = partial(_crowd, bench, server)
        for _ in bench.rounds("crowd", [""], MOST_ROUNDS):
            with noted(failures):
                few_bytes, _ = ran(replace(job, connections=FEW))
                (_, short), (many_bytes, long) = (ran(replace(job, seconds=span)) for span in spans_s)
                found["memory"].append((many_bytes - few_bytes) / (MANY - FEW) / 1024)
                found["ours"].append(slope(short, long).process_us)
                grid = replace(job, quantum_ns=QUANTUM_NS)
                found["quantum"].append(
                    slope(*(ran(replace(grid, seconds=s))[1] for s in spans_s)).process_us
                )
                found["control"].append(
                    slope(*(_woke_ns(bench, CROWD_RPS, s)[1] for s in spans_s)).process_us
                )
    lines = [f"{MANY:,} connections at 1 req/s each, 1 KiB from nginx (plain; without kernel socket memory)"]
    lines += [f"  {title:<40} {median(found[name]):>8.2f}" for name, title in CROWD.items() if found[name]]
    if not found["control"]:
        return Special.of(lines, failures)
    most_us, share = 1.5 * median(found["control"]) + 5.0, median(found["quantum"]) * CROWD_RPS / 1e6
    return Special.of(
        lines,
        failures,
        ("{:.2f} KiB a connection, at most {:g}", max(found["memory"]), MEMORY_LIMIT_KIB),
        ("{:.2f} µs a request, at most {:.2f}", median(found["ours"]), most_us),
        ("{:.1%} of a core with pacing_quantum: 1ms, at most {:.0%}", share, QUANTUM_LIMIT),
    )


def _crowd(bench: Bench, server: Server, job: Job) -> tuple[int, Cost]:
    """Return resident bytes and cost of one run of users who think."""
    cost, found = bench.counted(THINKING, job, server)
    least = RAMP_SLACK * CROWD_RPS * (job.seconds - 1)
    off = abs(found.requests - cost.requests)
    if found.requests < least or off > 0.005 * cost.requests:
        both = f"{found.requests} requests of at least {least:.0f}; the server counts {cost.requests}"
        raise Failed(f"{job.connections} connections: {both}")
    opened = found.summary["groups"][0]["connections_opened"]
    if opened != job.connections:
        raise Failed(f"{opened} connections were opened, {job.connections} are right")
    return int(found.summary["load_rss_bytes"]), cost


SPECIALS: dict[str, Callable[[Bench], Special]] = {
    "pacing": measure_pacing,
    "lag": measure_lag,
    "crowd": measure_crowd,
    "first": measure_first,
    "warm": measure_warm,
}

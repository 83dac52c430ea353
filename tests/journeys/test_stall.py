"""A server that stalls, held against the truth of its own schedule; and generators that are stopped or slowed, found out by the verdict."""

from __future__ import annotations

import heapq
import json
import math
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from .world import Command, World, findings, only_run

pytestmark = pytest.mark.truth_long

MS, S = 1_000_000, 1_000_000_000
SERVICE_NS, WORKERS = MS, 64
EVERY_NS, FOR_NS = 5 * S, S


def ask(url: str, method: str = "GET", body: bytes | None = None) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=10) as answer:
        return bytes(answer.read())


def server(serve_truth: Callable[..., dict[str, Any]], **config: Any) -> tuple[str, str]:
    """A known-truth server with one object: (the object's URL, the admin's)."""
    ready = serve_truth(workers=WORKERS, service_time={"constant_ns": SERVICE_NS}, spin_ns=60_000, **config)
    admin = f"http://127.0.0.1:{ready['admin_port']}"
    url = f"http://127.0.0.1:{ready['http_port']}/v1/a/c/o"
    ask(url.rsplit("/", 1)[0], "PUT", b"")
    ask(url, "PUT", b"x" * 1024)
    return url, admin


def responses(due_ns: Sequence[int], places: int, stall_from_ns: int) -> list[int]:
    """What each arrival's response time is: `places` wait their turn at `WORKERS` workers, and no answer leaves in a stall.

    Both queues are first come, first served. Times in ns on one axis; a stall begins at `stall_from_ns` + k·`EVERY_NS`.
    """
    free_places, free_workers = [0] * places, [0] * WORKERS
    found = []
    for due in due_ns:
        begun = max(due, heapq.heappop(free_places))
        worked = max(begun, heapq.heappop(free_workers)) + SERVICE_NS
        heapq.heappush(free_workers, worked)
        phase = (worked - stall_from_ns) % EVERY_NS
        left = worked + (FOR_NS - phase if phase < FOR_NS else 0)
        heapq.heappush(free_places, left)
        found.append(left - due)
    return found


def quantile(values: Sequence[int], p: float) -> float:
    """Nearest rank, in ms."""
    return sorted(values)[math.ceil(p * len(values)) - 1] / MS


@pytest.mark.parametrize("max_vus", [64, 500])
def test_percentiles_of_a_stalling_server_are_those_of_its_schedule(
    world: World, serve_truth: Callable[..., dict[str, Any]], max_vus: int
) -> None:
    url, admin = server(serve_truth, stall={"every_ns": EVERY_NS, "for_ns": FOR_NS})
    ended = world.svload(
        "load", url, "--rate", "500", "--max-vus", str(max_vus), "--duration", "20s", "--json", "--out", str(world.runs)
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["instrument"]["grade"] == "VALID", said["instrument"]
    assert (said["due"], said["failed"], said["dropped"], said["waiting"]) == (said["ok"], 0, 0, 0)
    run = only_run(world)
    (trial,) = sorted(run.glob("trials/*/summary.json"))
    summary = json.loads(trial.read_text())
    epoch_ns = json.loads(ask(f"{admin}/config"))["stall_epoch_ns"]
    due = sorted(pq.read_table(trial.parent / "samples.parquet", columns=["due_ns"])["due_ns"].to_pylist())
    assert len(due) == said["due"] == pytest.approx(10_000, abs=1)
    true = responses(due, max_vus, epoch_ns - summary["start_at_ns"])
    cut_ns = findings(run)["trials"][0]["cut_ns"]
    (low_ns, end_ns), interval_ns = summary["window_ns"], summary["interval_ns"]
    begin_ns = math.ceil((low_ns + cut_ns) / interval_ns) * interval_ns
    kept = [response for at, response in zip(due, true, strict=True) if begin_ns <= at < end_ns]
    assert len(kept) > 5_000
    told = said["response_ms"]
    assert told["p50"] == pytest.approx(quantile(kept, 0.5), rel=0.05, abs=0.2), told
    for p in (0.9, 0.99):
        assert told[f"p{100 * p:g}"] == pytest.approx(quantile(kept, p), rel=0.05), told


@contextmanager
def loading(world: World, admin: str, *args: str) -> Iterator[tuple[Command, list[int]]]:
    """A load under way, 2,000 requests on: the command and its generators' pids."""
    before = json.loads(ask(f"{admin}/counters"))["requests"]
    with world.start("load", *args, "--out", str(world.runs)) as command:
        counted = lambda _: json.loads(ask(f"{admin}/counters"))["requests"] > before + 2_000  # noqa: E731
        assert command.wait_for(counted, 60)
        generators = world.processes("svload.drive.generator")
        assert generators
        yield command, generators


def verdict(run: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The one trial's findings, and its checks by name."""
    trial = findings(run)["trials"][0]
    return trial, {check["check"]: check for check in trial["verdict"]["checks"]}


def test_a_generator_stopped_for_two_seconds_is_told(
    world: World, serve_truth: Callable[..., dict[str, Any]]
) -> None:
    url, admin = server(serve_truth)
    with loading(world, admin, url, "--rate", "500", "--duration", "20s") as (command, generators):
        for generator in generators:
            os.kill(generator, signal.SIGSTOP)
        # The stop itself takes this long: nothing is waited for.
        threading.Event().wait(2)
        for generator in generators:
            os.kill(generator, signal.SIGCONT)
        assert command.end() == 4
    trial, checks = verdict(only_run(world))
    assert trial["verdict"]["instrument"] == "REFUSED"
    assert checks["generator-harm"]["grade"] == "REFUSED", checks["generator-harm"]
    # A tenth of all arrivals were due in the stop, and waited up to 2 s for the generator to go on.
    assert 1.5 < trial["metrics"]["load.response.p99"]["value"] < 2.5
    assert trial["metrics"]["load.generator_lag.max"]["value"] > 1.5


def test_a_slowed_generator_in_a_closed_loop_is_found_out(
    world: World, serve_truth: Callable[..., dict[str, Any]]
) -> None:
    """Who is stopped while it waits reads late: its generator lag stays small, its read lag does not."""
    url, admin = server(serve_truth)
    with loading(world, admin, url, "--vus", "16", "--duration", "10s") as (command, generators):
        until = time.monotonic() + 30
        while (
            command.process.poll() is None
            and time.monotonic() < until
            and world.processes("svload.drive.generator")
        ):
            for signal_number in (signal.SIGSTOP, signal.SIGCONT):
                for generator in generators:
                    with_patience(generator, signal_number)
                threading.Event().wait(0.02)
        assert command.end() in (0, 4)
    trial, checks = verdict(only_run(world))
    assert trial["verdict"]["instrument"] in ("WEAK", "REFUSED")
    assert checks["generator-harm"]["grade"] in ("WEAK", "REFUSED"), checks["generator-harm"]
    assert "read stamp" in checks["generator-harm"]["sentence"]


def with_patience(pid: int, number: signal.Signals) -> None:
    """Sends a signal to who may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return

"""Common parts of the journeys of stalls and stops: a server that stalls by the clock, the true response
times by its log, and a load to disturb."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.bounds import HANG_S

from svload.host import split_cores

from .world import Command, World, checks_of, findings, only_run

MS, S = 1_000_000, 1_000_000_000
_LOG_ROWS = 50_000


def ask(url: str, method: str = "GET", body: bytes | None = None) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=HANG_S) as answer:
        return bytes(answer.read())


def server(
    serve_truth: Callable[..., dict[str, Any]], *, apart: bool = False, **config: Any
) -> tuple[str, str]:
    """Run a known-truth server with one object; yield (the object's URL, the admin's). `apart`: on the
    cores that the load leaves to servers."""
    ready = serve_truth(workers=64, service_time={"constant_ns": MS}, spin_ns=60_000, **config)
    if apart:
        for thread in Path(f"/proc/{ready['pid']}/task").iterdir():
            os.sched_setaffinity(int(thread.name), split_cores(os.sched_getaffinity(0)).servers)
    admin = f"http://127.0.0.1:{ready['admin_port']}"
    url = f"http://127.0.0.1:{ready['http_port']}/v1/a/c/o"
    ask(url.rsplit("/", 1)[0], "PUT", b"")
    ask(url, "PUT", b"x" * 1024)
    return url, admin


@contextmanager
def loading(world: World, admin: str, after: int, *args: str) -> Iterator[tuple[Command, list[int]]]:
    """Start a load and wait for this many requests; yield the command and its generators' pids."""
    before = json.loads(ask(f"{admin}/counters"))["requests"]
    with world.start("load", *args, "--out", str(world.runs)) as command:
        counted = lambda _: json.loads(ask(f"{admin}/counters"))["requests"] > before + after  # noqa: E731
        assert command.wait_for(counted)
        generators = world.processes("svload.drive.generator")
        assert generators
        yield command, generators


@contextmanager
def standing_still(pids: Sequence[int]) -> Iterator[None]:
    """Stop these processes until the block ends; some may have ended meanwhile."""
    assert pids, "nobody to stop"
    try:
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            _signal(pid, signal.SIGCONT)


def stop(generators: Sequence[int], for_s: float) -> None:
    """Stop the processes for this long, then continue them."""
    with standing_still(generators):
        pause(for_s)


def pause(for_s: float) -> None:
    """Sleep: this is the duration of what is planted, not a wait for anything."""
    threading.Event().wait(for_s)


def _signal(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def verdict(run: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the one trial's findings, and its checks by name."""
    trial = findings(run)["trials"][0]
    return trial, checks_of(trial)


@dataclass(frozen=True)
class Kept:
    """The requests of the only run: their due offsets in order, and the bounds of the kept window, ns from
    the load's start at `start_ns`."""

    due_ns: list[int]
    begin_ns: int
    end_ns: int
    start_ns: int

    def of(self, responses_ns: Sequence[int]) -> list[int]:
        """Return the responses of the requests due in the kept window."""
        pairs = zip(self.due_ns, responses_ns, strict=True)
        return [response for due, response in pairs if self.begin_ns <= due < self.end_ns]


def only(world: World) -> Kept:
    """Return the requests of the world's only run."""
    run = only_run(world)
    (file,) = sorted(run.glob("trials/*/summary.json"))
    summary = json.loads(file.read_text())
    due = sorted(pq.read_table(file.parent / "samples.parquet", columns=["due_ns"])["due_ns"].to_pylist())
    cut_ns = findings(run)["trials"][0]["cut_ns"]
    (low_ns, end_ns), interval_ns = summary["window_ns"], summary["interval_ns"]
    begin_ns = math.ceil((low_ns + cut_ns) / interval_ns) * interval_ns
    return Kept(due, begin_ns, end_ns // interval_ns * interval_ns, summary["start_at_ns"])


def answered(admin: str, since_ns: int) -> list[int]:
    """Return when the server wrote each answer since then, in order (its log; CLOCK_MONOTONIC, ns)."""
    found: list[int] = []
    for page in range(1_000):
        lines = ask(f"{admin}/log?from={page * _LOG_ROWS}&limit={_LOG_ROWS}").splitlines()
        rows = [json.loads(line) for line in lines]
        found += [row[2] for row in rows if row[1] >= since_ns and row[2] >= 0]
        if len(lines) < _LOG_ROWS:
            break
    return sorted(found)


def quantile(values: Sequence[int], p: float) -> float:
    """Return the quantile by nearest rank, in ms."""
    return sorted(values)[math.ceil(p * len(values)) - 1] / MS

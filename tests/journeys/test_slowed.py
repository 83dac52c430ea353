"""A generator that is slowed in a closed loop is found out by the verdict."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .world import Command, World, findings, only_run

pytestmark = pytest.mark.truth_long

SERVICE_NS, WORKERS = 1_000_000, 64


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


@contextmanager
def loading(world: World, admin: str, after: int, *args: str) -> Iterator[tuple[Command, list[int]]]:
    """A load under way, so many requests on: the command and its generators' pids."""
    before = json.loads(ask(f"{admin}/counters"))["requests"]
    with world.start("load", *args, "--out", str(world.runs)) as command:
        counted = lambda _: json.loads(ask(f"{admin}/counters"))["requests"] > before + after  # noqa: E731
        assert command.wait_for(counted, 60)
        generators = world.processes("svload.drive.generator")
        assert generators
        yield command, generators


def verdict(run: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The one trial's findings, and its checks by name."""
    trial = findings(run)["trials"][0]
    return trial, {check["check"]: check for check in trial["verdict"]["checks"]}


def test_a_slowed_generator_in_a_closed_loop_is_found_out(
    world: World, serve_truth: Callable[..., dict[str, Any]]
) -> None:
    """Who is stopped while it waits reads late: its generator lag stays small, its read lag does not."""
    url, admin = server(serve_truth)
    with loading(world, admin, 2_000, url, "--vus", "16", "--duration", "10s") as (command, generators):
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
    lag, response = (trial["metrics"][f"load.{name}.p50"]["value"] for name in ("generator_lag", "response"))
    assert lag < 0.5 * response, "what is told is the late read, not the late start"


def with_patience(pid: int, number: signal.Signals) -> None:
    """Sends a signal to who may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return

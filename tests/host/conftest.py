"""Fixtures with real agents and child processes, which wait for conditions instead of sleeping."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from svload.host import Agent, start_agent
from svload.host.agent.journal import Journal
from svload.host.machine import linux
from svload.model.messages import Spawn

SPEAKER = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    if "prepare" in said: print(json.dumps({"ready": True, "got": said["prepare"]}), flush=True)
    elif "start_at_ns" in said: print(json.dumps({"progress": said}), flush=True)
    elif "fail" in said: print(json.dumps({"error": said["fail"]}), flush=True)
    elif "die" in said: sys.stderr.write("no more"); sys.exit(7)
    elif "stop" in said: print(json.dumps({"done": {}}), flush=True)
"""


@contextmanager
def ignoring(*numbers: signal.Signals) -> Iterator[None]:
    """Make this process ignore the signals, which its children inherit."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture(params=["isolated", "plain"], scope="module")
def isolate(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "isolated")


@pytest.fixture(scope="module")
def shared_agent(tmp_path_factory: pytest.TempPathFactory, isolate: bool) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("deep" * 20) / "labs" / "lab"
    with ignoring(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # as under nohup, or behind a shell's &
        started = start_agent(folder, "a test", isolate=isolate)
    yield started
    started.close()
    assert not folder.exists()


@pytest.fixture
def agent(shared_agent: Agent) -> Iterator[Agent]:
    """Return a running agent without children (earlier ones have ended)."""
    yield shared_agent
    shared_agent.stop(None, now=True)


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., Spawn]:
    """Return order(name, role, *argv, **more) → a Spawn with its own log; without argv, it prints."""

    def make(child: str, role: str = "server", *argv: str, **more: object) -> Spawn:
        words = argv or (sys.executable, "-c", SPEAKER)
        log = str(tmp_path / "log" / f"{child}.log")
        return Spawn.read({"child": child, "role": role, "argv": words, "log": log, **more})

    return make


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Journal]:
    """Return the undo journal of a lab in `lab`."""
    (tmp_path / "lab").mkdir()
    made = Journal(tmp_path / "lab")
    yield made
    made.close()


def alive(result: dict[str, int]) -> bool:
    """Return whether the process of a spawn's result still runs."""
    return linux.is_alive(result["pid"], result["start_ticks"])

"""What the kits' tests share: a lab of services (`lab_of`), and a host that only starts and stops processes, since
the agent has its own tests."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.host import Agent, start_agent
from svload.lab import Lab
from svload.model.errors import fail
from svload.model.messages import Action, Lease, Spawn, WriteFile
from svload.model.study import ServiceSpec


class PlainHost:
    """The `Host` protocol by subprocess; `close` ends what is left."""

    def __init__(self) -> None:
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.orders: dict[str, Spawn] = {}

    def prepare(self, actions: Sequence[Action], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        return [self._do(action) for action in actions]

    def _do(self, action: Action) -> dict[str, Any]:
        if isinstance(action, WriteFile):
            path = Path(action.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(action.text)
            path.chmod(action.mode)
            return {}
        assert isinstance(action, Spawn), action
        limits = action.limits

        def enter() -> None:
            os.setsid()
            if limits.nofile is not None:
                hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits.nofile, hard), hard))

        with open(action.log, "ab") as log:
            try:
                child = subprocess.Popen(
                    action.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=action.cwd,
                    env={**os.environ, **action.env}, preexec_fn=enter,
                )  # fmt: skip
            except OSError as why:
                raise fail("agent-refused", reason=f"{action.child} could not be started: {why}") from why
        if action.role == "tool":
            try:
                code = child.wait(action.timeout_s)
            except subprocess.TimeoutExpired as why:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise fail("agent-refused", reason=f"{action.child} did not end") from why
            return {"exit": code, "tail": ""}
        self.children[action.child] = child
        self.orders[action.child] = action
        ticks = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        return {"pid": child.pid, "start_ticks": ticks}

    def stop(self, children: Sequence[str], grace_s: float = 5.0, now: bool = False) -> dict[str, int]:
        chosen = {name: self.children.pop(name) for name in children if name in self.children}
        for name, child in chosen.items():
            self._signal(
                child, signal.SIGKILL if now else getattr(signal, f"SIG{self.orders[name].stop_signal}")
            )
        exits = {}
        for name, child in chosen.items():
            try:
                exits[name] = child.wait(grace_s)
            except subprocess.TimeoutExpired:
                exits[name] = -1
            self._signal(child, signal.SIGKILL)
            child.wait(HANG_S)
        return exits

    def exited(self, child: str) -> int | None:
        return self.children[child].poll()

    def close(self) -> None:
        self.stop(list(self.children), now=True)

    @staticmethod
    def _signal(child: subprocess.Popen[bytes], number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)


@pytest.fixture
def host() -> Iterator[PlainHost]:
    made = PlainHost()
    yield made
    made.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """A real agent with a folder of its own."""
    with start_agent(tmp_path / "agent", Lease(), "tests of the lab") as made:
        yield made


@pytest.fixture
def lab_of(tmp_path: Path, host: Any) -> Any:
    """lab_of(spec(…), …) → a lab of real servers, taken down after the test."""
    labs: list[Lab] = []

    def make(*specs: ServiceSpec, trusted: bool = False) -> Lab:
        labs.append(
            Lab(specs, host, tmp_path / "work", tmp_path / "cache", study_dir=tmp_path, trusted=trusted)
        )
        return labs[-1]

    yield make
    for lab in labs:
        lab.down()


def spec(name: str, kit: str, **options: Any) -> ServiceSpec:
    """A service, as a study would have it."""
    return ServiceSpec(name=name, kit=kit, options=options)


def settled(lab: Lab, service: str, wanted: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """The service's counters since `before`, read again until `wanted` is reached."""
    deadline = time.monotonic() + HANG_S
    while True:
        values = lab.counters()[service].values
        found = {key: values[key] - before[key] for key in wanted}
        if found == wanted or time.monotonic() > deadline:
            return found


def gone(lab_pids: list[int]) -> bool:
    """Whether all these processes have ended."""
    return not any(Path(f"/proc/{pid}").exists() for pid in lab_pids)

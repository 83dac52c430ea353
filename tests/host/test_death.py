"""After any process of svload is killed, all its child processes end and all changes are undone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import child, completed, wait_until

from svload.host import list_labs
from svload.host.machine import linux

pytestmark = pytest.mark.truth
ROOT = Path(__file__).resolve().parents[2]
SETTING = "/proc/sys/net/ipv4/tcp_fin_timeout"
FINISH = (
    "import sys; from pathlib import Path; from svload.host import finish_leftovers; "
    "print(*finish_leftovers(Path(sys.argv[1])), sep='\\n')"
)


@dataclass
class Stage:
    """A lab of a controller that may be killed, observed from outside."""

    state: Path
    controller: subprocess.Popen[bytes]
    said: dict[str, Any]
    network: int
    setting_before: str

    def alive(self) -> list[int]:
        return [pid for pid, ticks in self.said["children"] if linux.is_alive(pid, ticks)]

    def inside(self, *argv: str) -> str:
        """Run in the controller's network namespace, which this keeps alive."""
        if os.geteuid() == 0:
            argv = ("nsenter", f"--net=/proc/self/fd/{self.network}", *argv)
        return completed(argv, pass_fds=(self.network,), check=True).stdout

    def setting(self) -> str:
        return self.inside("cat", SETTING).strip()

    def leftover_cgroups(self) -> list[str]:
        return [path for path in self.said["cgroups"] if os.path.exists(path)]

    def kill(self, *names: str) -> None:
        for name in names:
            os.kill(self.controller.pid if name == "controller" else self.said[name], signal.SIGKILL)

    def finish_leftovers(self) -> str:
        return self.inside(sys.executable, "-c", FINISH, str(self.state))

    def everything_is_gone(self) -> bool:
        if self.alive() or self.leftover_cgroups() or (self.state / "temporary").exists():
            return False
        return os.geteuid() != 0 or self.setting() == self.setting_before


@pytest.fixture
def stage(tmp_path: Path, isolate: bool) -> Iterator[Callable[..., Stage]]:
    stages: list[Stage] = []

    def begin() -> Stage:
        before = Path(SETTING).read_text().strip()
        folder = tmp_path / "labs" / "lab"
        how = "isolated" if isolate else "plain"
        argv = [sys.executable, "-m", "tests.host.controller", str(folder), how]
        process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = process.stdout.readline()
        assert line, "the controller did not come up"
        network = os.open(f"/proc/{process.pid}/ns/net", os.O_RDONLY)
        stage = Stage(tmp_path, process, json.loads(line), network, before)
        stages.append(stage)
        assert len(stage.alive()) == 4
        if os.geteuid() == 0:
            assert stage.setting() == "37" != before
            assert stage.leftover_cgroups()
        return stage

    yield begin
    for stage in stages:
        for pid in stage.alive():
            os.kill(pid, signal.SIGKILL)
        stage.controller.kill()
        stage.controller.wait(HANG_S)
        stage.finish_leftovers()
        os.close(stage.network)


@pytest.mark.parametrize("victim", ["agent", "keeper"])
def test_agent_or_keeper_killed(stage: Callable[..., Stage], victim: str) -> None:
    lab = stage()
    lab.kill(victim)
    wait_until(lab.everything_is_gone, HANG_S)
    assert lab.setting() == lab.setting_before


def test_controller_killed_the_load_is_silent_at_once(stage: Callable[..., Stage]) -> None:
    """The generator ignores SIGTERM and does not read; the server's grace period is not its own."""
    lab = stage()
    (generator, ticks), (server, server_ticks), *_ = lab.said["children"]
    lab.kill("controller")
    wait_until(lambda: not linux.is_alive(generator, ticks), HANG_S)
    assert linux.is_alive(server, server_ticks)
    wait_until(lab.everything_is_gone, HANG_S)
    wait_until(lambda: not list_labs(lab.state))


def test_whoever_comes_next_waits_for_the_agent_of_a_killed_controller(stage: Callable[..., Stage]) -> None:
    lab = stage()
    lab.kill("controller")
    assert lab.finish_leftovers().strip() == ""
    assert lab.everything_is_gone()
    assert list_labs(lab.state) == []


def test_killed_agent_and_keeper_are_cleaned_up_after(stage: Callable[..., Stage], isolate: bool) -> None:
    lab = stage()
    assert [(found.id, found.alive) for found in list_labs(lab.state)] == [("lab", True)]
    assert lab.finish_leftovers().strip() == ""
    assert len(lab.alive()) == 4
    lab.kill("keeper", "agent")
    wait_until(lambda: not list_labs(lab.state)[0].alive)
    if lab.said["isolated"]:
        wait_until(lambda: not lab.alive(), HANG_S)
    said = lab.finish_leftovers()
    assert not lab.alive() or not isolate
    assert not lab.leftover_cgroups()
    assert list_labs(lab.state) == []
    if os.geteuid() == 0:
        assert lab.setting() == lab.setting_before
        assert "put net.ipv4.tcp_fin_timeout back to" in said
    assert lab.finish_leftovers().strip() == ""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "ended", "left"])
def test_an_unowned_agent_ends_with_its_starter(end: signal.Signals | None, tmp_path: Path) -> None:
    """A command is killed while its agent comes up: the agent ends at once, not half a minute later."""
    folder = tmp_path / "lab"
    code = (
        "import select, sys; from pathlib import Path; from svload.host import launch_agent\n"
        "starting = launch_agent(Path(sys.argv[1]), 'nobody')\n"
        "select.select([starting._ready], [], []); print('up', flush=True); sys.stdin.readline()"
    )
    with child(code, folder) as (starter, line):
        assert line == "up"
        with (folder / "agent.log").open() as log:
            if end is None:
                starter.stdin.close()
            else:
                starter.send_signal(end)
            starter.wait(HANG_S)
            wait_until(lambda: not folder.exists(), HANG_S)
            assert "the process that started it ended before it had an owner" in log.read()

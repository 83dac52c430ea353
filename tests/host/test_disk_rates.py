"""Disk rates in the kernel's own control groups: enforced, read back, changed in place, removed after a
kill -9."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from svload.host import Agent, start_agent
from svload.host.agent.groups import disk_of
from svload.host.process import disk_rates
from svload.model.errors import SvloadError
from svload.model.messages import GroupLimits, MakeGroup, Spawn

pytestmark = pytest.mark.truth
MEGABYTE = 1_000_000


@pytest.fixture
def order(agent: Agent, tmp_path: Path, needs: Callable[..., None]) -> MakeGroup:
    needs("root")
    if disk_of(str(tmp_path)) is None:
        pytest.skip("the test's files are on no disk")
    limits = GroupLimits(disk_read_bytes_per_s=20 * MEGABYTE, disk_write_bytes_per_s=10 * MEGABYTE)
    return MakeGroup(name="s", limits=limits, folders=(str(tmp_path),))


def test_they_are_read_back_and_changed_in_place(agent: Agent, order: MakeGroup) -> None:
    [made] = agent.prepare([order])
    assert made["found"] == {"disk_read_bytes_per_s": 20 * MEGABYTE, "disk_write_bytes_per_s": 10 * MEGABYTE}
    slower = MakeGroup(name="s", limits=GroupLimits(disk_read_bytes_per_s=MEGABYTE), folders=order.folders)
    assert agent.prepare([slower])[0]["found"]["disk_read_bytes_per_s"] == MEGABYTE


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.timing)])
def test_direct_writes_are_held(agent: Agent, order: MakeGroup, tmp_path: Path, strict: bool) -> None:
    """Strict: the writes take as long as the rate implies."""
    [made] = agent.prepare([order])
    write = ("dd", "if=/dev/zero", f"of={tmp_path}/big", "bs=1000448", "count=15", "oflag=direct")
    log = str(tmp_path / "log")
    tool = Spawn(child="s.dd", role="tool", argv=write, log=log, group="s", timeout_s=HANG_S)
    began = time.monotonic()
    assert agent.prepare([tool])[0]["exit"] == 0
    assert not strict or 1.2 < time.monotonic() - began < 2
    assert disk_rates.moved_bytes(made["paths"], "write") == pytest.approx(15 * 1000448, rel=0.1)


def test_files_on_no_disk_are_refused(agent: Agent, order: MakeGroup) -> None:
    with pytest.raises(SvloadError, match="no disk is known under /proc"):
        agent.prepare([MakeGroup(name="t", limits=order.limits, folders=("/proc",))])


def test_nothing_is_left_when_the_agent_is_killed(order: MakeGroup, tmp_path: Path) -> None:
    with start_agent(tmp_path / "lab", "test") as own:
        [made] = own.prepare([order])
        assert all(Path(path).is_dir() for path in made["paths"].values())
        os.kill(own.pid, signal.SIGKILL)
        wait_until(lambda: not [path for path in made["paths"].values() if Path(path).exists()])

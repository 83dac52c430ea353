"""Limits of a running group, changed in place: read back, restored on request, and by the journal when no
process is left to ask."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import wait_until

from svload.host import Agent
from svload.host.agent import journal
from svload.host.agent.groups import Groups
from svload.host.agent.journal import Journal
from svload.host.process import cgroups
from svload.model.errors import SvloadError
from svload.model.messages import DropGroup, GroupLimits, MakeGroup, SetLimits, Spawn

CONTROLLERS = ("cpu", "cpuacct", "memory", "pids", "blkio")
OPEN_TO = ("cpus", "memory_bytes", "pids")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a machine whose control groups are ordinary folders."""
    for name in CONTROLLERS:
        (tmp_path / "machine" / name).mkdir(parents=True)
    mounts = {name: (str(tmp_path / "machine" / name), "/") for name in CONTROLLERS}
    monkeypatch.setattr(cgroups, "_mounts", lambda: mounts)
    monkeypatch.setattr(cgroups, "_groups", lambda path: {})
    return tmp_path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Journal]:
    (tmp_path / "lab").mkdir()
    made = Journal(tmp_path / "lab")
    yield made
    made.close()


def open_entries(folder: Path) -> list[dict[str, Any]]:
    entries = journal.read_entries(folder / "lab")
    return [one for one in entries if one["kind"] == "limits" and not one["done"]]


def test_journal_keeps_the_first_values_until_restored(folders: Path, log: Journal) -> None:
    groups = Groups("mark", log)
    groups.make(MakeGroup(name="web", limits=GroupLimits(cpus=1.0), open_to=OPEN_TO))
    first = groups.set_limits(SetLimits(name="web", limits=GroupLimits(cpus=0.2)))
    assert (first["before"], first["found"]) == ({"cpus": 1.0}, {"cpus": 0.2})
    groups.set_limits(SetLimits(name="web", limits=GroupLimits(cpus=0.5, pids=40)))
    [entry] = open_entries(folders)
    assert entry["before"] == {"cpus": 1.0, "pids": None}
    groups.set_limits(SetLimits(name="web", limits=GroupLimits(cpus=1.0)))
    assert len(open_entries(folders)) == 1, "one of them is still changed"
    back = groups.set_limits(SetLimits(name="web", limits=GroupLimits(), lifted=("pids",)))
    assert back["found"] == {"cpus": 1.0}
    assert open_entries(folders) == []


def test_what_is_left_changed_is_put_back_by_the_journal_alone(folders: Path, log: Journal) -> None:
    groups = Groups("mark", log)
    paths = groups.make(MakeGroup(name="web", limits=GroupLimits(cpus=1.0), open_to=OPEN_TO))["paths"]
    groups.set_limits(SetLimits(name="web", limits=GroupLimits(cpus=0.2, memory_bytes=1 << 20)))
    [entry] = open_entries(folders)
    assert journal._UNDOERS["limits"](entry) == "put the limits of web back"
    assert cgroups.read_back(paths) == {"cpus": 1.0}
    for path in paths.values():
        for file in Path(path).iterdir():
            file.unlink()
        os.rmdir(path)
    assert journal._UNDOERS["limits"](entry) is None, "they went with the group"


def test_a_refused_change_leaves_the_limits_and_no_open_entry(folders: Path, log: Journal) -> None:
    groups = Groups("mark", log)
    paths = groups.make(MakeGroup(name="web", limits=GroupLimits(cpus=1.0)))["paths"]
    with pytest.raises(SvloadError, match="made without pids"):
        groups.set_limits(SetLimits(name="web", limits=GroupLimits(cpus=0.1, pids=4)))
    with pytest.raises(SvloadError, match="no group"):
        groups.set_limits(SetLimits(name="wob", limits=GroupLimits(cpus=0.1)))
    assert cgroups.read_back(paths) == {"cpus": 1.0}
    assert open_entries(folders) == []


READ = "disk_read_bytes_per_s"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the one disk that every file is on."""
    monkeypatch.setattr("svload.host.agent.groups.disk_of", lambda folder: "254:0")
    return "254:0"


def test_a_disk_rate_is_given_later_and_taken_off(folders: Path, log: Journal, disk: str) -> None:
    groups = Groups("mark", log)
    order = MakeGroup(name="web", limits=GroupLimits(cpus=1.0), open_to=(READ,), folders=("/srv",))
    paths = groups.make(order)["paths"]
    slower = GroupLimits(disk_read_bytes_per_s=5_000_000, cpus=0.5)
    found = groups.set_limits(SetLimits(name="web", limits=slower))
    assert found["found"] == {"cpus": 0.5, READ: 5_000_000}
    assert [entry["before"] for entry in open_entries(folders)] == [{"cpus": 1.0, READ: None}]
    groups.set_limits(SetLimits(name="web", limits=GroupLimits(cpus=1.0), lifted=(READ,)))
    # the last rate written for reads; the kernel drops lines whose rate is 0
    assert Path(paths["blkio"], "blkio.throttle.read_bps_device").read_text().split() == [disk, "0"]


def test_version_1_members_live_in_the_machines_folder(folders: Path, log: Journal, disk: str) -> None:
    """There, a group's rate does not apply to groups below it."""
    groups, rate = Groups("mark", log), GroupLimits(disk_read_bytes_per_s=1)
    limits = GroupLimits(disk_read_bytes_per_s=20_000_000, memory_bytes=1 << 30)
    machine = groups.make(MakeGroup(name="vm", limits=limits, folders=("/srv",)))["paths"]
    member = groups.make(MakeGroup(name="web", limits=GroupLimits(cpus=0.5), within="vm"))["paths"]
    assert set(member) == {"cpu", "cpuacct", "memory"}
    assert set(groups.folders("web")) == {*member.values(), machine["blkio"]}
    part = groups.make(MakeGroup(name="web.part", limits=GroupLimits(), within="web"))["paths"]
    assert machine["blkio"] in groups.folders("web.part")
    assert "blkio" not in part
    with pytest.raises(SvloadError, match="holds no rate of disks within another"):
        groups.make(MakeGroup(name="db", limits=rate, within="vm", folders=("/srv",)))


def test_members_with_a_disk_rate_end_as_one(folders: Path, log: Journal, disk: str) -> None:
    groups, rate = Groups("mark", log), GroupLimits(disk_read_bytes_per_s=20_000_000)
    groups.make(MakeGroup(name="vm", limits=rate, folders=("/srv",)))
    assert set(groups.make(MakeGroup(name="web", limits=GroupLimits(), within="vm"))["paths"]) == {"pids"}


@pytest.mark.truth
def test_a_running_process_is_held_back_from_then_on_and_let_go(agent: Agent, order: Callable[..., Spawn], needs: Callable[..., None], tmp_path: Path) -> None:  # fmt: skip
    needs("root")
    spin = order("s.spin", "server", sys.executable, "-c", "while True: pass", group="s")
    made, _ = agent.prepare([MakeGroup(name="s", limits=GroupLimits(), open_to=OPEN_TO), spin])
    paths = made["paths"]
    assert cgroups.throttled_s(paths) == 0.0
    [found] = agent.prepare([SetLimits(name="s", limits=GroupLimits(cpus=0.2, pids=50))])
    assert found["found"] == {"cpus": 0.2, "pids": 50}
    assert cgroups.read_back(paths) == found["found"]
    wait_until(lambda: (cgroups.throttled_s(paths) or 0.0) > 0.2)
    [back] = agent.prepare([SetLimits(name="s", limits=GroupLimits(), lifted=("cpus", "pids"))])
    assert back["found"] == {}
    agent.stop(["s.spin"], now=True)
    agent.prepare([DropGroup(name="s")])
    assert not any(os.path.isdir(path) for path in paths.values())

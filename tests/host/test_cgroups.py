"""Control groups of both versions in ordinary folders; the kernel's own where a rate or a quota must act."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.evolve import evolve
from tests.servers import wait_until

from svload.host import Agent
from svload.host.agent import journal
from svload.host.agent.groups import Groups, disk_of
from svload.host.agent.journal import Journal
from svload.host.process import cgroups, disk_rates
from svload.model.errors import SvloadError
from svload.model.messages import DropGroup, GroupLimits, MakeGroup, SetLimits, Spawn

Offer = Callable[..., Path]
BOTH = GroupLimits(cpus=1.5, memory_bytes=256 << 20)


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Return offer("/own", "cpu", "memory"): make a machine's folder; `opens`: controllers of version 2."""

    def made(own: str, *controllers: str, opens: str = "", below: str = "") -> Path:
        machine = tmp_path / below
        for name in controllers:
            (machine / name / own.lstrip("/")).mkdir(parents=True)
        if opens:
            (machine / "unified/cgroup.controllers").write_text(f"{opens}\n")
        mounts = {name: (str(machine / name), "/") for name in controllers}
        monkeypatch.setattr(cgroups, "_mounts", lambda: mounts)
        monkeypatch.setattr(cgroups, "_groups", lambda path: dict.fromkeys(controllers, own))
        return machine

    return made


def test_version_1_stays_below_our_own_group(offer: Offer) -> None:
    machine = offer("/user/me", "cpu", "cpuacct", "memory")
    paths = cgroups.plan("lab", "cache", BOTH)
    controllers = ("cpu", "cpuacct", "memory")
    assert paths == {name: f"{machine}/{name}/user/me/svload/lab/cache" for name in controllers}
    assert not Path(paths["cpu"]).exists()
    cgroups.create(paths, BOTH)
    assert cgroups.read_back(paths) == {"cpus": 1.5, "memory_bytes": 256 << 20}
    # only what is limited is made, and a member also lies below what it is within: in the group that counts
    # the machine's memory even without its own limit
    assert set(cgroups.plan("lab", "x", GroupLimits(cpus=0.5))) == {"cpu", "cpuacct"}
    above = cgroups.plan("lab", "vm", GroupLimits(memory_bytes=1 << 30))
    assert set(above) == {"memory"}
    assert cgroups.plan("lab", "vm/db", GroupLimits(), tuple(above)) == {"memory": f"{above['memory']}/db"}
    assert set(cgroups.plan("lab", "vm/db", GroupLimits(cpus=1.0), tuple(above))) == {*controllers}


@pytest.mark.parametrize(("quotas", "allowed"), [(("-1", "-1"), None), (("-1", "60000"), 0.6), (("200000", "-1"), 2), (("100000", "150000"), 1)])  # fmt: skip
def test_version_1_obeys_outer_groups(offer: Offer, quotas: tuple[str, str], allowed: float | None) -> None:
    machine = offer("/user/me", "cpu", "cpuacct", "memory")
    for folder, quota in zip(("user", "user/me"), quotas, strict=True):
        (machine / "cpu" / folder / "cpu.cfs_quota_us").write_text(quota)
        (machine / "cpu" / folder / "cpu.cfs_period_us").write_text("100000")
    assert cgroups.cores_allowed() == allowed
    paths = cgroups.plan("lab", "cache", BOTH)
    if allowed is None or allowed >= 1.5:
        cgroups.create(paths, BOTH)
    else:
        with pytest.raises(cgroups.CgroupError, match=f"may use {allowed:g} cores here, and it asks for 1.5"):
            cgroups.create(paths, BOTH)


def test_version_2_opens_controllers_down_to_the_lab(offer: Offer) -> None:
    machine = offer("/user.slice", "unified", opens="cpuset cpu io memory pids")
    limits = GroupLimits(cpus=0.25, memory_bytes=64 << 20, pids=9)
    paths = cgroups.plan("lab", "x", limits)
    assert paths == {"unified": f"{machine}/unified/svload/lab/x"}
    cgroups.create(paths, limits)
    for parent in ("unified", "unified/svload", "unified/svload/lab"):
        assert (machine / parent / "cgroup.subtree_control").exists()
    assert Path(paths["unified"], "cpu.max").read_text() == "25000 100000"
    assert cgroups.read_back(paths) == {"cpus": 0.25, "memory_bytes": 64 << 20, "pids": 9}
    member = cgroups.plan("lab", "x/db", GroupLimits(), tuple(paths))
    cgroups.create(member, GroupLimits())
    assert member == {"unified": f"{machine}/unified/svload/lab/x/db"}
    assert (machine / "unified/svload/lab/x/cgroup.subtree_control").exists()


def test_hybrid_machines_without_a_cpu_controller_are_refused(offer: Offer) -> None:
    offer("/", "unified", "memory", opens="hugetlb")
    with pytest.raises(cgroups.CgroupError, match="no cgroup for cpu"):
        cgroups.plan("lab", "x", BOTH)


def test_removing_empties_the_parents_and_may_be_repeated(offer: Offer) -> None:
    """A member that goes leaves the machine it was within: other members need its limits."""
    machine = offer("/", "memory")
    limits = GroupLimits(memory_bytes=1)
    paths, other = (cgroups.plan("lab", name, limits) for name in "xy")
    member = cgroups.plan("lab", "y/db", GroupLimits(), tuple(other))
    for path in (paths["memory"], member["memory"]):
        os.makedirs(path)
    assert cgroups.remove(paths)
    assert cgroups.remove(member)
    assert (machine / "memory/svload/lab/y").is_dir()
    assert cgroups.remove(other)
    assert not (machine / "memory/svload").exists()
    assert (machine / "memory").exists()
    assert not cgroups.remove(paths)


def test_a_lab_that_ends_meanwhile_does_not_hinder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir, top = os.mkdir, tmp_path / "svload"
    ends = iter((top,))

    def make(path: str, mode: int = 0o777) -> None:
        if Path(path).parent == top and (ended := next(ends, None)):
            ended.rmdir()
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", make)
    cgroups.make({"pids": str(top / "lab" / "web")})
    assert (top / "lab" / "web").is_dir()


@pytest.mark.parametrize("swap", [True, False])
def test_limited_memory_is_not_swap_instead(offer: Offer, swap: bool) -> None:
    offer("/", "unified", opens="memory")
    limits = GroupLimits(memory_bytes=1 << 20)
    paths = cgroups.plan("lab", "x", limits)
    file = Path(paths["unified"], "memory.swap.max")
    file.parent.mkdir(parents=True)
    if swap:
        file.write_text("max")
    cgroups.create(paths, limits)
    assert (file.read_text() if file.exists() else None) == ("0" if swap else None)


def test_a_limit_that_was_never_set_is_absent(tmp_path: Path) -> None:
    (tmp_path / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    for name in ("memory.max", "pids.max"):
        (tmp_path / name).write_text("max\n")
    assert cgroups.read_back({"memory": str(tmp_path)}) == cgroups.read_back({"unified": str(tmp_path)}) == {}


def test_kills_and_cpu_are_counted_in_both_versions(tmp_path: Path) -> None:
    old = {name: str(tmp_path) for name in ("memory", "cpuacct")}
    new = {"unified": str(tmp_path)}
    assert cgroups.oom_kills(old) is None
    of_old, of_new = cgroups.CpuTime(old), cgroups.CpuTime(new)
    assert of_old.seconds() is of_new.seconds() is None
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 31\noom 4\noom_kill 3\n")
    (tmp_path / "cpuacct.usage").write_text("1500000000\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert (cgroups.oom_kills(old), cgroups.oom_kills(new)) == (2, 3)
    assert (of_old.seconds(), of_new.seconds()) == (1.5, 2.5)
    (tmp_path / "cpuacct.usage").write_text("1600000000\n")
    assert of_old.seconds() == 1.6, "each time it is read again"
    of_old.close()
    of_new.close()


def test_limits_change_in_place_and_are_taken_off_in_both_versions(offer: Offer) -> None:
    every = ("cpus", "memory_bytes", "pids")
    offer("/", "cpu", "cpuacct", "memory", "pids")
    old = cgroups.plan("lab", "x", GroupLimits(), (), every)
    assert set(old) == {"cpu", "cpuacct", "memory", "pids"}
    offer("/", "unified", opens="cpu memory pids", below="two")
    new = cgroups.plan("lab", "x", GroupLimits(), (), every)
    assert set(new) == {"unified"}
    limits = GroupLimits(cpus=0.2, memory_bytes=64 << 20, pids=9)
    for paths in (old, new):
        cgroups.create(paths, GroupLimits())
        assert cgroups.read_back(paths) == {}
        cgroups.change(paths, limits)
        assert cgroups.read_back(paths) == {"cpus": 0.2, "memory_bytes": 64 << 20, "pids": 9}
        cgroups.put_back(paths, {"cpus": 1.5, "pids": None})
        assert cgroups.read_back(paths) == {"cpus": 1.5, "memory_bytes": 64 << 20}
    assert Path(old["pids"], "pids.max").read_text() == "max"
    assert Path(new["unified"], "cpu.max").read_text() == "150000 100000"
    cgroups.change(old, GroupLimits(), ("cpus",))
    assert Path(old["cpu"], "cpu.cfs_quota_us").read_text() == "-1"


RATES = GroupLimits(disk_read_bytes_per_s=20_000_000, disk_write_bytes_per_s=10_000_000)
HELD = {"disk_read_bytes_per_s": 20_000_000, "disk_write_bytes_per_s": 10_000_000}


def test_disks_are_limited_by_io_of_version_2(offer: Offer) -> None:
    offer("/", "unified", opens="cpu io memory pids")
    assert not cgroups.writes_escape()
    paths = cgroups.plan("lab", "x", RATES)
    cgroups.create(paths, RATES, ["254:0"])
    assert Path(paths["unified"], "io.max").read_text() == "254:0 rbps=20000000 wbps=10000000"
    Path(paths["unified"], "io.max").write_text("254:0 rbps=20000000 wbps=10000000 riops=max wiops=max\n")
    assert cgroups.read_back(paths) == HELD
    assert disk_rates.moved_bytes(paths, "read") is None
    stat = "254:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n8:0 rbytes=4096 wbytes=512\n"
    Path(paths["unified"], "io.stat").write_text(stat)
    assert [disk_rates.moved_bytes(paths, way) for way in disk_rates.WAYS] == [4096, 512]
    Path(paths["unified"], "io.max").write_text("254:0 rbps=5 wbps=max riops=max wiops=max\n")
    assert cgroups.read_back(paths) == {"disk_read_bytes_per_s": 5}, "the other way stays free"


def test_files_without_a_disk_have_none(tmp_path: Path) -> None:
    assert disk_of("/proc") is None
    found = disk_of(str(tmp_path / "absent" / "folder"))
    assert found == disk_of(str(tmp_path))


# limits of a group in use: read back, restored on request, and by the journal when no process is left to ask


OPEN_TO = ("cpus", "memory_bytes", "pids")


class Held:
    """Groups of version 1 in ordinary folders; one disk has all files."""

    def __init__(self, log: Journal, lab: Path) -> None:
        self.groups, self._lab = Groups("mark", log), lab

    def make(
        self, name: str, within: str | None = None, open_to: tuple[str, ...] = (), **limits: float
    ) -> Any:
        """Make a group; return its folders."""
        folders = ("/srv",) if any(kind.startswith("disk") for kind in (*limits, *open_to)) else ()
        own = {"within": within, "open_to": open_to, "folders": folders}
        return self.groups.make(MakeGroup(name=name, limits=GroupLimits(**limits), **own))["paths"]

    def change(self, name: str = "web", lifted: tuple[str, ...] = (), **limits: float) -> dict[str, Any]:
        return self.groups.set_limits(SetLimits(name=name, limits=GroupLimits(**limits), lifted=lifted))

    def open_entries(self) -> list[dict[str, Any]]:
        entries = journal.read_entries(self._lab)
        return [one for one in entries if one["kind"] == "limits" and not one["done"]]


@pytest.fixture
def held(offer: Offer, log: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    offer("/", "cpu", "cpuacct", "memory", "pids", "blkio")
    monkeypatch.setattr("svload.host.agent.groups.disk_of", lambda folder: "254:0")
    return Held(log, tmp_path / "lab")


def test_journal_keeps_the_first_values_until_restored(held: Held) -> None:
    held.make("web", cpus=1.0, open_to=OPEN_TO)
    first = held.change(cpus=0.2)
    assert (first["before"], first["found"]) == ({"cpus": 1.0}, {"cpus": 0.2})
    held.change(cpus=0.5, pids=40)
    [entry] = held.open_entries()
    assert entry["before"] == {"cpus": 1.0, "pids": None}
    held.change(cpus=1.0)
    assert len(held.open_entries()) == 1, "one of them is still changed"
    assert held.change(lifted=("pids",))["found"] == {"cpus": 1.0}
    assert held.open_entries() == []


def test_what_is_left_changed_is_put_back_by_the_journal_alone(held: Held) -> None:
    paths = held.make("web", cpus=1.0, open_to=OPEN_TO)
    held.change(cpus=0.2, memory_bytes=1 << 20)
    [entry] = held.open_entries()
    assert journal._UNDOERS["limits"](entry) == "put the limits of web back"
    assert cgroups.read_back(paths) == {"cpus": 1.0}
    for path in paths.values():
        shutil.rmtree(path)
    assert journal._UNDOERS["limits"](entry) is None, "they went with the group"


def test_a_refused_change_leaves_the_limits_and_no_open_entry(held: Held) -> None:
    paths = held.make("web", cpus=1.0)
    with pytest.raises(SvloadError, match="made without pids"):
        held.change(cpus=0.1, pids=4)
    with pytest.raises(SvloadError, match="no group"):
        held.change("wob", cpus=0.1)
    assert cgroups.read_back(paths) == {"cpus": 1.0}
    assert held.open_entries() == []


def test_a_disk_rate_is_given_later_and_taken_off(held: Held) -> None:
    read = "disk_read_bytes_per_s"
    paths = held.make("web", cpus=1.0, open_to=(read,))
    assert held.change(disk_read_bytes_per_s=5_000_000, cpus=0.5)["found"] == {"cpus": 0.5, read: 5_000_000}
    assert [entry["before"] for entry in held.open_entries()] == [{"cpus": 1.0, read: None}]
    held.change(cpus=1.0, lifted=(read,))
    # the last rate written for reads; the kernel drops lines whose rate is 0
    assert Path(paths["blkio"], "blkio.throttle.read_bps_device").read_text().split() == ["254:0", "0"]


def test_version_1_members_live_in_the_machines_folder(held: Held) -> None:
    """There, a group's rate does not apply to groups below it."""
    machine = held.make("vm", disk_read_bytes_per_s=20_000_000, memory_bytes=1 << 30)
    member = held.make("web", "vm", cpus=0.5)
    assert set(member) == {"cpu", "cpuacct", "memory"}
    assert set(held.groups.folders("web")) == {*member.values(), machine["blkio"]}
    part = held.make("web.part", "web")
    assert machine["blkio"] in held.groups.folders("web.part")
    assert "blkio" not in part
    with pytest.raises(SvloadError, match="can't nest disk rates"):
        held.make("db", "vm", disk_read_bytes_per_s=1)
    held.make("disk", disk_read_bytes_per_s=20_000_000)
    assert set(held.make("other", "disk")) == {"pids"}, "its members end as one"


@pytest.mark.truth
def test_a_running_process_is_held_and_let_go(agent: Agent, order: Callable[..., Spawn], needs: Any) -> None:
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


@pytest.fixture
def rates(tmp_path: Path, needs: Callable[..., None]) -> MakeGroup:
    needs("root")
    if disk_of(str(tmp_path)) is None:
        pytest.skip("the test's files are on no disk")
    return MakeGroup(name="s", limits=RATES, folders=(str(tmp_path),))


@pytest.mark.truth
def test_rates_are_read_back_and_changed_in_place(agent: Agent, rates: MakeGroup) -> None:
    [made] = agent.prepare([rates])
    assert made["found"] == HELD
    slower = evolve(rates, limits=GroupLimits(disk_read_bytes_per_s=1_000_000))
    assert agent.prepare([slower])[0]["found"]["disk_read_bytes_per_s"] == 1_000_000
    with pytest.raises(SvloadError, match="no disk is known under /proc"):
        agent.prepare([evolve(rates, name="t", folders=("/proc",))])


@pytest.mark.truth
@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.timing)])
def test_direct_writes_are_held(agent: Agent, rates: MakeGroup, tmp_path: Path, strict: bool) -> None:
    """Strict: the writes take as long as the rate implies."""
    [made] = agent.prepare([rates])
    write = ("dd", "if=/dev/zero", f"of={tmp_path}/big", "bs=1000448", "count=15", "oflag=direct")
    log = str(tmp_path / "log")
    tool = Spawn(child="s.dd", role="tool", argv=write, log=log, group="s", timeout_s=HANG_S)
    began = time.monotonic()
    assert agent.prepare([tool])[0]["exit"] == 0
    assert not strict or 1.2 < time.monotonic() - began < 2
    assert disk_rates.moved_bytes(made["paths"], "write") == pytest.approx(15 * 1000448, rel=0.1)

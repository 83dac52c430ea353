"""Control groups of both versions, simulated by ordinary folders; test_agent uses the kernel's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from svload.host.agent.groups import disk_of
from svload.host.process import cgroups, disk_rates
from svload.model.messages import GroupLimits

Offer = Callable[..., Path]
BOTH = GroupLimits(cpus=1.5, memory_bytes=256 << 20)


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """`offer("/own", "cpu", "memory")`: make a machine's folder with only these controllers; `opens`: by
    version 2."""

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
    assert Path(paths["cpu"], "cpu.cfs_quota_us").read_text() == "150000"
    assert Path(paths["cpu"], "cpu.cfs_period_us").read_text() == "100000"
    assert Path(paths["memory"], "memory.limit_in_bytes").read_text() == str(256 << 20)
    assert cgroups.read_back(paths) == {"cpus": 1.5, "memory_bytes": 256 << 20}


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


def test_only_what_is_limited_is_made(offer: Offer) -> None:
    offer("/", "cpu", "cpuacct", "memory")
    assert set(cgroups.plan("lab", "x", GroupLimits(memory_bytes=1 << 20))) == {"memory"}
    assert set(cgroups.plan("lab", "x", GroupLimits(cpus=0.5))) == {"cpu", "cpuacct"}


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


def test_hybrid_machines_without_a_cpu_controller_are_refused(offer: Offer) -> None:
    offer("/", "unified", "memory", opens="hugetlb")
    with pytest.raises(cgroups.CgroupError, match="no cgroup for cpu"):
        cgroups.plan("lab", "x", BOTH)


def test_removing_empties_the_parents_and_may_be_repeated(offer: Offer) -> None:
    machine = offer("/", "memory")
    paths = cgroups.plan("lab", "x", GroupLimits(memory_bytes=1))
    other = cgroups.plan("lab", "y", GroupLimits(memory_bytes=1))
    for path in (*paths.values(), *other.values()):
        os.makedirs(path)
    assert cgroups.remove(paths)
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


def test_the_time_a_quota_held_back_is_read_in_both_versions(offer: Offer) -> None:
    machine = offer("/a", "cpu", "unified")
    paths = {name: f"{machine}/{name}/a" for name in ("cpu", "unified")}
    assert cgroups.throttled_s(paths) is None
    (machine / "cpu/a/cpu.stat").write_text("nr_periods 7\nnr_throttled 2\nthrottled_time 1500000000\n")
    (machine / "unified/a/cpu.stat").write_text("usage_usec 9\nnr_throttled 2\nthrottled_usec 250000\n")
    assert cgroups.throttled_s(paths) == 1.5
    assert cgroups.throttled_s({"unified": paths["unified"]}) == 0.25


def test_a_member_lies_below_what_it_is_within_in_every_hierarchy_that_this_one_uses(offer: Offer) -> None:
    """A member without its own limit must still be in the group that counts the machine's memory."""
    offer("/", "cpu", "cpuacct", "memory", "pids")
    above = cgroups.plan("lab", "vm", GroupLimits(memory_bytes=1 << 30))
    assert cgroups.plan("lab", "vm/db", GroupLimits(), tuple(above)) == {"memory": f"{above['memory']}/db"}
    both = cgroups.plan("lab", "vm/db", GroupLimits(cpus=1.0, pids=5), tuple(above))
    assert set(both) == {"cpu", "cpuacct", "pids", "memory"}


def test_with_version_2_controllers_pass_through_the_machine_to_its_members(offer: Offer) -> None:
    machine = offer("/", "unified", opens="cpu memory pids")
    above = cgroups.plan("lab", "vm", GroupLimits(memory_bytes=1 << 30))
    cgroups.create(above, GroupLimits(memory_bytes=1 << 30))
    paths = cgroups.plan("lab", "vm/db", GroupLimits(), tuple(above))
    cgroups.create(paths, GroupLimits())
    assert paths == {"unified": f"{machine}/unified/svload/lab/vm/db"}
    assert (machine / "unified/svload/lab/vm/cgroup.subtree_control").exists()


def test_a_member_that_goes_leaves_the_machine_it_was_within(offer: Offer) -> None:
    """Otherwise the limits would be lost for the others, and for the member when it comes up again."""
    machine = offer("/", "memory")
    above = cgroups.plan("lab", "vm", GroupLimits(memory_bytes=1))
    member = cgroups.plan("lab", "vm/db", GroupLimits(), tuple(above))
    os.makedirs(member["memory"])
    assert cgroups.remove(member)
    assert Path(above["memory"]).is_dir()
    assert cgroups.remove(above)
    assert not (machine / "memory/svload").exists()


@pytest.mark.parametrize("swap", [True, False])
def test_limited_memory_is_not_swap_instead(offer: Offer, swap: bool) -> None:
    offer("/", "unified", opens="memory")
    limits = GroupLimits(memory_bytes=1 << 20)
    paths = cgroups.plan("lab", "x", limits)
    folder = Path(paths["unified"])
    folder.mkdir(parents=True)
    if swap:
        (folder / "memory.swap.max").write_text("max")
    cgroups.create(paths, limits)
    assert (folder / "memory.swap.max").exists() == swap
    assert not swap or (folder / "memory.swap.max").read_text() == "0"


def test_a_limit_that_was_never_set_is_absent(offer: Offer) -> None:
    machine = offer("/", "memory", "unified")
    (machine / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    (machine / "unified/memory.max").write_text("max\n")
    (machine / "unified/pids.max").write_text("max\n")
    assert cgroups.read_back({"memory": str(machine / "memory")}) == {}
    assert cgroups.read_back({"unified": str(machine / "unified")}) == {}


def test_kills_and_cpu_are_counted_in_both_versions(tmp_path: Path) -> None:
    old, new = {"memory": str(tmp_path), "cpuacct": str(tmp_path)}, {"unified": str(tmp_path)}
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
    assert of_old.seconds() == 1.6, "it is read anew"
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


def test_disks_are_limited_by_blkio_of_version_1(offer: Offer) -> None:
    offer("/", "blkio", "unified")
    assert cgroups.writes_escape()
    paths = cgroups.plan("lab", "x", RATES)
    assert set(paths) == {"blkio"}
    cgroups.create(paths, RATES, ["254:0"])
    assert Path(paths["blkio"], "blkio.throttle.read_bps_device").read_text() == "254:0 20000000"
    assert Path(paths["blkio"], "blkio.throttle.write_bps_device").read_text() == "254:0 10000000"
    assert cgroups.read_back(paths) == HELD
    found = "254:0 Read 4096\n254:0 Write 512\n8:0 Read 4096\nTotal 8704\n"
    Path(paths["blkio"], "blkio.throttle.io_service_bytes").write_text(found)
    assert [disk_rates.moved_bytes(paths, way) for way in disk_rates.WAYS] == [4096, 512]


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


def test_one_way_alone_leaves_the_other_free(offer: Offer) -> None:
    offer("/", "unified", opens="io")
    limits = GroupLimits(disk_read_bytes_per_s=5)
    paths = cgroups.plan("lab", "x", limits)
    cgroups.create(paths, limits, ["254:0"])
    Path(paths["unified"], "io.max").write_text("254:0 rbps=5 wbps=max riops=max wiops=max\n")
    assert cgroups.read_back(paths) == {"disk_read_bytes_per_s": 5}
    with pytest.raises(cgroups.CgroupError, match="no cgroup for memory"):
        cgroups.plan("lab", "x", GroupLimits(memory_bytes=1))


def test_files_without_a_disk_have_none(tmp_path: Path) -> None:
    assert disk_of("/proc") is None
    found = disk_of(str(tmp_path / "absent" / "folder"))
    assert found == disk_of(str(tmp_path))

"""Control groups of both versions, played by ordinary folders; the kernel's own are met in test_agent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from svload.host import cgroups


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that offers nothing yet: `offer` what it shall have."""
    monkeypatch.setattr(cgroups, "_mounts", dict)
    monkeypatch.setattr(cgroups, "_groups", lambda path: {})
    return tmp_path


def offer(monkeypatch: pytest.MonkeyPatch, machine: Path, own: str, *controllers: str) -> None:
    for name in controllers:
        (machine / name / own.lstrip("/")).mkdir(parents=True)
    monkeypatch.setattr(
        cgroups, "_mounts", lambda: {name: (str(machine / name), "/") for name in controllers}
    )
    monkeypatch.setattr(cgroups, "_groups", lambda path: dict.fromkeys(controllers, own))


def test_version_1_stays_below_our_own_group(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, machine, "/user/me", "cpu", "cpuacct", "memory")
    paths = cgroups.plan("lab", "cache.varnish", 1.5, 256 << 20)
    assert paths == {
        name: f"{machine}/{name}/user/me/svload/lab/cache.varnish" for name in ("cpu", "cpuacct", "memory")
    }
    assert not Path(paths["cpu"]).exists()
    cgroups.create(paths, 1.5, 256 << 20)
    assert Path(paths["cpu"], "cpu.cfs_quota_us").read_text() == "150000"
    assert Path(paths["cpu"], "cpu.cfs_period_us").read_text() == "100000"
    assert Path(paths["memory"], "memory.limit_in_bytes").read_text() == str(256 << 20)
    assert cgroups.read_back(paths) == {"cpus": 1.5, "memory_bytes": 256 << 20}


def test_only_what_is_limited_is_made(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, machine, "/", "cpu", "cpuacct", "memory")
    assert set(cgroups.plan("lab", "x", None, 1 << 20)) == {"memory"}
    assert set(cgroups.plan("lab", "x", 0.5, None)) == {"cpu", "cpuacct"}


def test_version_2_opens_controllers_down_to_the_lab(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, machine, "/user.slice", "unified")
    (machine / "unified/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    paths = cgroups.plan("lab", "x", 0.25, 64 << 20)
    assert paths == {"unified": f"{machine}/unified/svload/lab/x"}
    cgroups.create(paths, 0.25, 64 << 20)
    for parent in ("unified", "unified/svload", "unified/svload/lab"):
        assert (machine / parent / "cgroup.subtree_control").exists()
    assert Path(paths["unified"], "cpu.max").read_text() == "25000 100000"
    assert cgroups.read_back(paths) == {"cpus": 0.25, "memory_bytes": 64 << 20}


def test_hybrid_machines_without_a_cpu_controller_are_refused(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, machine, "/", "unified", "memory")
    (machine / "unified/cgroup.controllers").write_text("hugetlb\n")
    with pytest.raises(cgroups.CgroupError, match="no cgroup for cpu"):
        cgroups.plan("lab", "x", 0.5, 1 << 20)


def test_no_limit_has_no_read_back(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, machine, "/", "cpu", "cpuacct")
    paths = cgroups.plan("lab", "x", 1.0, None)
    cgroups.create(paths, 1.0, None)
    Path(paths["cpu"], "cpu.cfs_quota_us").write_text("-1")
    assert cgroups.read_back(paths) == {}


def test_removing_empties_the_parents_and_may_be_repeated(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, machine, "/", "memory")
    paths = cgroups.plan("lab", "x", None, 1 << 20)
    other = cgroups.plan("lab", "y", None, 1 << 20)
    for path in (*paths.values(), *other.values()):
        os.makedirs(path)
    assert cgroups.remove(paths)
    assert (machine / "memory/svload/lab/y").is_dir()
    assert cgroups.remove(other)
    assert not (machine / "memory/svload").exists()
    assert (machine / "memory").exists()
    assert not cgroups.remove(paths)


def test_the_time_a_quota_held_back_is_read_in_both_versions(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, machine, "/a", "cpu", "unified")
    paths = cgroups.of_process(1)
    assert paths == {name: f"{machine}/{name}/a" for name in ("cpu", "unified")}
    assert cgroups.throttled_s(paths) is None
    (machine / "cpu/a/cpu.stat").write_text("nr_periods 7\nnr_throttled 2\nthrottled_time 1500000000\n")
    (machine / "unified/a/cpu.stat").write_text("usage_usec 9\nnr_throttled 2\nthrottled_usec 250000\n")
    assert cgroups.throttled_s(paths) == 1.5
    assert cgroups.throttled_s({"unified": paths["unified"]}) == 0.25

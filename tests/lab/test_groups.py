"""One control group per service holds all its processes; limits that could not act are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import program, wait_until
from tests.watch.watched import by_entity

from svload.lab.lab import Lab
from svload.lab.setup import find_mistakes
from svload.model.study import ServiceSpec
from svload.watch.monitors.process import ProcessMonitor

from .conftest import folders, procs

Make = Callable[..., Lab]
FORKING = program(
    before="""
    while os.fork() == 0:  # a worker of its own session, as servers have them
        os.setsid()
        time.sleep(600)
    """
)


def spec(name: str = "api", kit: str = "command", **options: Any) -> ServiceSpec:
    run = {"run": f"{sys.executable} server.py ${{port}}", "ready": "GET /"} if kit == "command" else {}
    return ServiceSpec(name=name, kit=kit, options=run | options)


@pytest.fixture
def make(tmp_path: Path, up: Make, needs: Callable[..., None]) -> Make:
    needs("root")
    (tmp_path / "server.py").write_text(FORKING)
    return up


@pytest.mark.pure
@pytest.mark.parametrize(
    ("options", "place", "text"),
    [
        ({"within": "vm", "cpus": 3}, ("lab", "api", "cpus"), "has less"),
        ({"within": "vm", "memory": "2 GiB"}, ("lab", "api", "memory"), "has less"),
        ({"within": "vm", "disk_rate": {"read": "30 MB/s"}}, ("lab", "api", "disk_rate"), "has less"),
        ({"within": "vn"}, ("lab", "api", "within"), "machine"),
        ({"on_death": "finding"}, ("lab", "api", "on_death"), "only the death of a limited service"),
        ({"on_death": "finding", "nofile": 100}, ("lab", "api", "on_death"), "only the death"),
        ({"pids": 0}, ("lab", "api", "pids"), ""),
    ],
)
def test_what_could_not_act_is_refused(options: dict[str, Any], place: tuple[str, ...], text: str) -> None:
    vm = spec("vm", "machine", cpus=2, memory="1 GiB", disk_rate={"read": "20 MB/s", "write": "50 MB/s"})
    [mistake] = find_mistakes([vm, spec(**options)])
    assert mistake.path == place
    assert text in str(mistake.details)


@pytest.mark.pure
def test_a_machine_without_limits_is_refused_and_one_with_them_is_not() -> None:
    [mistake] = find_mistakes([spec("vm", "machine")])
    assert mistake.path == ("lab", "vm")
    for own in ({"cpus": 2}, {"memory": "1 GiB", "on_death": "finding"}, {"pids": 50}, {}):
        assert find_mistakes([spec("vm", "machine", cpus=2, memory="1 GiB"), spec(within="vm", **own)]) == []


@pytest.mark.truth
def test_a_service_is_held_as_one_children_included(make: Make) -> None:
    lab = make(spec(cpus=0.5, memory="64 MiB", pids=40))
    facts = lab.facts()["api"]
    [group] = facts.groups
    held = {setting.name: (setting.asked, setting.found) for setting in group.settings}
    assert held == {"cpus": ("0.5", "0.5"), "memory_bytes": (str(64 << 20),) * 2, "pids": ("40", "40")}
    [leader] = facts.processes
    for path in group.paths.values():
        assert leader.pid in procs(path)
        assert len(procs(path)) == 2, "the worker that left its session too"
    assert {one.name for one in facts.settings} == {"cpus", "memory_bytes", "pids"}


@pytest.mark.truth
def test_services_within_a_machine_share_it_and_come_and_go_alone(make: Make) -> None:
    vm = spec("vm", "machine", memory="1 GiB")
    other = spec("b", within="vm", pids=40)
    lab = make(vm, spec("a", within="vm"), other)
    facts = lab.facts()
    assert [group.name for group in facts["a"].groups] == ["a", "vm"]
    [shared] = {tuple(facts[name].groups[-1].paths.items()) for name in ("a", "b")}
    assert {limit.name for limit in facts["a"].groups[1].settings} == {"memory_bytes"}
    limited = spec("a", within="vm", cpus=0.5)
    assert lab.apply([vm, limited, other]) == ["a"]
    assert [group.cpus for group in lab.facts()["a"].groups] == [0.5, None]
    assert Path(dict(shared)["memory" if "memory" in dict(shared) else "unified"]).exists()
    changed = lab.apply([spec("vm", "machine", memory="2 GiB"), limited, other])
    assert changed == ["vm", "a", "b"], "who is within it goes with it"


@pytest.mark.truth
def test_each_replica_has_a_group_within_the_machines(make: Make) -> None:
    vm = spec("vm", "machine", memory="1 GiB")
    lab = make(vm, spec(within="vm", cpus=0.5, replicas=2))
    facts = lab.facts()["api"]
    groups = {group.name: group for group in facts.groups}
    assert {name: group.cpus for name, group in groups.items()} == {"api[1]": 0.5, "vm": None, "api[2]": 0.5}
    first, second = facts.processes
    for path in groups["api[1]"].paths.values():
        assert first.pid in procs(path)
        assert second.pid not in procs(path)
    assert [one.found for one in facts.settings if one.name == "cpus"] == ["1"], "the quota of all of them"


@pytest.mark.parametrize("limits", [{"pids": 50}, {"memory": "200MB", "cpus": 0.5}])
def test_no_folder_stays_of_a_service_with_limits_that_its_machine_has_not(make: Make, limits: Any) -> None:
    """With version 1 each limit has its own hierarchy, in which the machine's folder lies between."""
    members = [spec(name, within="vm", **limits) for name in ("api", "other")]
    lab = make(spec("vm", "machine", cpus=1.0), *members)
    paths = {path for one in lab.facts().values() for path in folders(one)}
    above = {parent for path in paths for parent in (path, *path.parents)}
    own = {one for one in above if any(parent.name == "svload" for parent in one.parents)}
    assert all(folder.is_dir() for folder in own)
    lab.down()
    assert [folder for folder in own if folder.exists()] == []


BURNT_S = 0.6
BURNER = f"""\
import os, signal, socket, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)   # children are forgotten as they end, with their CPU time
for _ in range(3):
    if os.fork() == 0:
        while time.process_time() < {BURNT_S / 3}:
            pass
        os._exit(0)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        server.accept()
"""


@pytest.mark.parametrize(("limit", "sees_all"), [({"memory": "256 MiB"}, True), ({}, False)])
def test_children_nobody_waits_for(up: Any, tmp_path: Path, needs: Any, limit: Any, sees_all: bool) -> None:
    """They count where there is a group."""
    needs("root")
    (tmp_path / "burner.py").write_text(BURNER)
    run = f"{sys.executable} -S burner.py ${{port}}"
    facts = up(spec("web", run=run, tcp=True, ready="tcp", **limit)).facts()["web"]
    monitor = ProcessMonitor("web", facts.model_dump(mode="json"))

    def read(metric: str) -> float:
        ProcessMonitor.table.renew()
        return by_entity(monitor)["", metric]

    wait_until(lambda: read("processes") == 1)
    assert (read("cpu_seconds_total") >= BURNT_S) is sees_all

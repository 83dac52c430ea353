"""Limits of processes, groups, sockets and interfaces, and their use."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.servers import child, completed, wait_until
from tests.watch.test_others import machine
from tests.watch.watched import at_port, by_entity, processes, values

from svload.host.machine.qdiscs import qdiscs
from svload.host.machine.sock_diag import listening_sockets, open_connections
from svload.watch import proc
from svload.watch.monitors.listeners import SocketTable
from svload.watch.monitors.process import CoreTable, ProcessMonitor
from svload.watch.monitors.qdisc import QdiscMonitor
from svload.watch.monitors.quota import QuotaMonitor, read_group
from svload.watch.monitors.sockets import SocketsMonitor
from svload.watch.monitors.switches import SwitchesMonitor

HOLDER = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = [open("/dev/null") for _ in range(int(sys.argv[1]))]
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def holder(stack: ExitStack, files: int, *cores: int) -> int:
    """Return the pid of a process that may open 64 files and holds this many, on these cores."""
    process, _ = stack.enter_context(child(HOLDER, files))
    if cores:
        os.sched_setaffinity(process.pid, cores)
    return process.pid


def test_descriptors_stand_against_the_limit_of_the_process_that_is_nearest(places: ExitStack) -> None:
    both = processes(one=holder(places, 50), two=holder(places, 2))
    found = by_entity(ProcessMonitor("web", both))
    assert found["", "fds_limit"] == 64
    assert 53 <= found["", "fds_fullest"] <= 56
    assert found["", "fds"] == found["one", "fds"] + found["two", "fds"]


@pytest.mark.parametrize("pinned", [True, False])
def test_a_pinned_services_core(places: ExitStack, monkeypatch: pytest.MonkeyPatch, pinned: bool) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core alone can't be a part of the machine's")
    monitor = ProcessMonitor("web", processes(one=holder(places, 2, *cores[-1:] * pinned)))
    calm = dict.fromkeys(range(os.cpu_count() or 1), 5.0)
    times = iter([calm, calm | {cores[-1]: 5.5}])
    monkeypatch.setattr(CoreTable, "busy", lambda self: next(times))
    clock = itertools.count(1.0)
    monkeypatch.setattr("svload.watch.monitors.process.time.monotonic", lambda: next(clock))
    assert values(monitor)["cores_allowed"] == (1 if pinned else len(cores))
    assert ("hot_core_ratio" in values(monitor)) is pinned


def test_a_core_that_was_read_once_for_two_readings_is_not_busier(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one, 40 ms later, gets what the first one read."""
    calm = {0: 5.0, 1: 5.0}
    monitor = ProcessMonitor("web", {"processes": []})
    times, clock = iter([calm, calm, {0: 5.2, 1: 5.0}]), iter([1.0, 1.04, 1.2])
    monkeypatch.setattr(CoreTable, "busy", lambda self: next(times))
    monkeypatch.setattr("svload.watch.monitors.process.time.monotonic", lambda: next(clock))
    (found,) = [one for _ in range(3) for one in monitor._hot_core(frozenset({0}))]
    assert found.value == pytest.approx(1.0)


def test_bounds_of_texts(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tx\nCpus_allowed_list:\t0-2,5\n")
    for text, descriptors in (("1024                 20000   ", 1024), ("unlimited   unlimited", None)):
        lines = f"Limit  Soft Limit  Hard Limit  Units\nMax open files            {text}      files\n"
        (tmp_path / "7" / "limits").write_text(lines)
        assert proc.read_bounds(7, str(tmp_path)) == proc.Bounds(descriptors, frozenset({0, 1, 2, 5}))
    assert proc.read_bounds(8, str(tmp_path)) == proc.Bounds(None, frozenset())
    assert proc.read_bounds(os.getpid()).descriptors == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a machine's /proc that a test writes."""
    monkeypatch.setattr(SwitchesMonitor, "root", str(tmp_path))
    monkeypatch.setattr(SwitchesMonitor, "table", proc.ProcessTable(str(tmp_path), every_s=0.0))
    return tmp_path


def threads(root: Path, **schedstat: str) -> None:
    """Make a process 7 with these threads, t1="ran waited times"."""
    for name, text in schedstat.items():
        folder = root / "7" / "task" / name[1:]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{text}\n")
    machine(root, (7, "x", 1, 0, []))


def test_switches_count_from_the_first_look(root: Path) -> None:
    threads(root, t7="900 5000 40", t8="900 1000 10")
    monitor = SwitchesMonitor("web", processes(str(root), one=7))
    assert values(monitor) == {"switches_total": 0, "run_queue_seconds_total": 0}
    threads(root, t7="950 2000005000 47", t9="1 1000000000 3")
    (root / "7" / "task" / "8" / "schedstat").unlink()
    for _ in range(2):
        found = by_entity(monitor)
        assert found == {("one", "switches_total"): 10, ("one", "run_queue_seconds_total"): 3.0}


def test_an_older_process_counts_from_when_it_belongs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did before is no part of the load; a process that has just started began at zero."""
    threads(root, t7="900 5000 40")
    monitor = SwitchesMonitor("web", at_port(1))
    members = [7]
    monkeypatch.setattr(monitor, "_members", lambda: {"web": frozenset(members)})
    values(monitor)
    for pid, start, count, seconds in ((8, 77, 0, 0), (9, 1 << 60, 4000, 5.0)):
        machine(root, (pid, "x", 1, 0, []))
        stat = root / str(pid) / "stat"
        stat.write_text(stat.read_text().replace(" 77 ", f" {start} ", 1))
        (root / str(pid) / "task" / str(pid)).mkdir(parents=True)
        (root / str(pid) / "task" / str(pid) / "schedstat").write_text("900 5000000000 4000\n")
        members.append(pid)
        found = by_entity(monitor)
        assert found == {("web", "switches_total"): count, ("web", "run_queue_seconds_total"): seconds}


def group(folder: Path, text: str) -> dict[str, str]:
    """Write control groups' files, `path: line;line` each; return the folders by name."""
    for line in text.strip().splitlines():
        name, _, content = line.strip().partition(": ")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content.replace(";", "\n") + "\n")
    return {path.name: str(path) for path in folder.iterdir()}


VERSION_1 = """
cpu/cpu.stat: nr_throttled 3;throttled_time 1500000000
cpu/cpu.cfs_quota_us: 50000
cpu/cpu.cfs_period_us: 100000
cpuacct/cpuacct.usage: 2500000000
memory/memory.usage_in_bytes: 4096
memory/memory.limit_in_bytes: 9223372036854771712
memory/memory.oom_control: oom_kill_disable 0;oom_kill 2
memory/memory.stat: total_rss 2048
pids/pids.current: 3
pids/pids.max: 9
pids/pids.events: max 4
"""
VERSION_2 = """
unified/cpu.stat: usage_usec 2500000;throttled_usec 1500000
unified/cpu.max: 50000 100000
unified/memory.current: 4096
unified/memory.max: 8192
unified/memory.stat: anon 2048;file 2048
unified/memory.events: low 0;oom_kill 2
unified/pids.current: 3
unified/pids.max: max
unified/pids.events: max 4
"""


GROUP = {
    "throttled_seconds_total": 1.5,
    "quota_ratio": 0.5,
    "group_cpu_seconds_total": 2.5,
    "group_memory_bytes": 4096,
    "group_anonymous_bytes": 2048,
    "oom_kills_total": 2,
    "group_processes": 3,
    "forks_refused_total": 4,
}
"""The values in the files of both versions."""


@pytest.mark.parametrize(
    ("files", "limit"),
    [(VERSION_1, {"group_processes_limit": 9}), (VERSION_2, {"group_memory_limit_bytes": 8192})],
    ids=["version 1", "version 2"],
)
def test_a_group_is_read(tmp_path: Path, files: str, limit: dict[str, float]) -> None:
    assert dict(read_group(group(tmp_path, files))) == GROUP | limit
    assert dict(read_group({"unified": str(tmp_path / "gone")})) == dict(read_group({})) == {}


def test_a_service_without_limits_has_no_group_to_watch() -> None:
    started = {"processes": [{"name": "one", "pid": 1, "start_ticks": 1}]}
    unlimited, limited = (
        {"groups": [{"name": "one", "paths": {}, "settings": [{"name": name}]}]}
        for name in ("nofile", "memory_bytes")
    )
    cases = (None, started, started | unlimited, limited, started | limited)
    assert [QuotaMonitor.reads(facts) for facts in cases] == [False, False, False, False, True]


def test_unread_and_unsent_bytes_are_its_own(places: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither end reads: both buffers of the server's end fill. The client's end is not counted."""
    monkeypatch.setattr(SocketsMonitor, "table", SocketTable(listening_sockets, every_s=0.0))
    monkeypatch.setattr(SocketsMonitor, "connections", SocketTable(open_connections, every_s=0.0))
    listener = places.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = listener.getsockname()[1]
    client = places.enter_context(socket.create_connection(("127.0.0.1", port)))
    server = places.enter_context(listener.accept()[0])
    monitor = SocketsMonitor("web", at_port(port))
    wait_until(lambda: by_entity(monitor)[str(port), "established"] == 1)
    assert values(monitor)["unread_bytes"] == values(monitor)["unsent_bytes"] == 0
    for end in (client, server):
        end.setblocking(False)
        with suppress(BlockingIOError):
            while end.send(b"x" * 65536):
                pass
    wait_until(lambda: values(monitor)["receive_buffers_full"] == 1)
    found = values(monitor)
    assert min(found["unread_bytes"], found["unsent_bytes"]) > 0
    assert found["send_buffers_full"] == 1


DROPS = """
import socket
from tests.watch.watched import by_entity
from svload.watch.monitors.qdisc import QdiscMonitor
monitor = QdiscMonitor("", {})
before = by_entity(monitor)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for _ in range(40):
        out.sendto(b"x" * 900, ("10.9.9.2", 9))
after = by_entity(monitor)
print(before["va tbf", "drops_total"], after["va tbf", "drops_total"], after["va tbf", "backlog_bytes"])
"""


@pytest.mark.real
def test_a_queueing_discipline_that_drops_is_seen(needs: Any) -> None:
    """In a separate namespace: a veth with a token bucket of 8 kbit/s that datagrams overrun."""
    needs("root", "ip", "tc", "unshare")
    script = (
        "set -e; ip link set lo up; ip link add va type veth peer name vb; ip addr add 10.9.9.1/24 dev va; "
        "ip link set va up; ip link set vb up; "
        "ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev va; "
        'tc qdisc add dev va root tbf rate 8kbit burst 2kb limit 4kb; exec "$0" -c "$1"'
    )
    done = completed(["unshare", "-n", "sh", "-c", script, sys.executable, DROPS])
    assert done.returncode == 0, done.stderr
    before, after, backlog = map(float, done.stdout.split())
    assert before == 0
    assert after > 10
    assert backlog > 0


def test_what_does_not_queue_is_not_reported() -> None:
    assert all(one.kind != "noqueue" for one in qdiscs())
    assert {one.metric for one in QdiscMonitor("", {}).sample()} <= set(QdiscMonitor.metrics)

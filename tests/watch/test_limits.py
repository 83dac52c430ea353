"""Limits of processes, groups, sockets and interfaces, and their use: read from texts, and from this
machine."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.servers import child, completed, wait_until
from tests.watch.test_others import machine

from svload.host.machine.linux import process_stat
from svload.host.machine.qdiscs import qdiscs
from svload.host.machine.sock_diag import listening_sockets, open_connections
from svload.watch import proc
from svload.watch.monitor import Monitor
from svload.watch.monitors.listeners import SocketTable
from svload.watch.monitors.process import CoreTable, ProcessMonitor
from svload.watch.monitors.qdisc import QdiscMonitor
from svload.watch.monitors.quota import QuotaMonitor, read_group
from svload.watch.monitors.sockets import SocketsMonitor
from svload.watch.monitors.switches import SwitchesMonitor


def read(monitor: Monitor) -> dict[tuple[str, str], float]:
    return {(one.entity, one.metric): one.value for one in monitor.sample()}


# processes

HOLDER = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = [open("/dev/null") for _ in range(int(sys.argv[1]))]
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def holder(stack: ExitStack, files: int, *cores: int) -> dict[str, Any]:
    """Return the facts of a process that may open 64 files and holds this many, on these cores."""
    process, _ = stack.enter_context(child(HOLDER, files))
    if cores:
        os.sched_setaffinity(process.pid, cores)
    stat = process_stat(process.pid)
    return {
        "service": "web",
        "processes": [{"name": "one", "pid": process.pid, "start_ticks": stat.start_ticks}],
    }


def test_descriptors_stand_against_the_limit_of_the_process_that_is_nearest(places: ExitStack) -> None:
    full, calm = holder(places, 50), holder(places, 2)
    both = {"service": "web", "processes": full["processes"] + [{**calm["processes"][0], "name": "two"}]}
    found = read(ProcessMonitor("web", both))
    assert found["", "fds_limit"] == 64
    assert 53 <= found["", "fds_fullest"] <= 56
    assert found["", "fds"] == found["one", "fds"] + found["two", "fds"]


@pytest.mark.parametrize("pinned", [True, False])
def test_only_a_pinned_service_has_its_busiest_core(
    places: ExitStack, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core alone can't be a part of the machine's")
    monitor = ProcessMonitor("web", holder(places, 2, *cores[-1:] * pinned))
    calm = dict.fromkeys(range(os.cpu_count() or 1), 5.0)
    times = iter([calm, calm | {cores[-1]: 5.5}])
    monkeypatch.setattr(CoreTable, "busy", lambda self: next(times))
    clock = itertools.count(1.0)
    monkeypatch.setattr("svload.watch.monitors.process.time.monotonic", lambda: next(clock))
    assert read(monitor)["", "cores_allowed"] == (1 if pinned else len(cores))
    assert (("", "hot_core_ratio") in read(monitor)) is pinned


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
    (tmp_path / "7" / "limits").write_text(
        "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 20000          "
        "      files\n"
    )
    (tmp_path / "7" / "status").write_text("Name:\tx\nCpus_allowed_list:\t0-2,5\n")
    assert proc.read_bounds(7, str(tmp_path)) == proc.Bounds(1024, frozenset({0, 1, 2, 5}))
    (tmp_path / "7" / "limits").write_text(
        "Max open files            unlimited            unlimited            files\n"
    )
    assert proc.read_bounds(7, str(tmp_path)).descriptors is None
    assert proc.read_bounds(8, str(tmp_path)) == proc.Bounds(None, frozenset())
    assert proc.read_bounds(os.getpid()).descriptors == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


# threads


def threads(root: Path, **schedstat: str) -> None:
    """Make a process 7 with these threads, t1="ran waited times"."""
    for name, text in schedstat.items():
        folder = root / "7" / "task" / name[1:]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{text}\n")
    machine(root, (7, "x", 1, 0, []))


def test_switches_count_from_the_first_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SwitchesMonitor, "root", str(tmp_path))
    monkeypatch.setattr(SwitchesMonitor, "table", proc.ProcessTable(str(tmp_path), every_s=0.0))
    threads(tmp_path, t7="900 5000 40", t8="900 1000 10")
    stat = process_stat(7, str(tmp_path))
    monitor = SwitchesMonitor(
        "web", {"processes": [{"name": "one", "pid": 7, "start_ticks": stat.start_ticks}]}
    )
    assert read(monitor) == {("one", "switches_total"): 0, ("one", "run_queue_seconds_total"): 0}
    threads(tmp_path, t7="950 2000005000 47", t9="1 1000000000 3")
    (tmp_path / "7" / "task" / "8" / "schedstat").unlink()
    assert read(monitor) == {("one", "switches_total"): 10, ("one", "run_queue_seconds_total"): 3.0}
    assert read(monitor) == {("one", "switches_total"): 10, ("one", "run_queue_seconds_total"): 3.0}


def test_switches_of_an_older_process_count_from_when_it_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did before is no part of the load; a process that has just started began at zero."""
    monkeypatch.setattr(SwitchesMonitor, "root", str(tmp_path))
    monkeypatch.setattr(SwitchesMonitor, "table", proc.ProcessTable(str(tmp_path), every_s=0.0))
    threads(tmp_path, t7="900 5000 40")
    monitor = SwitchesMonitor("web", {"endpoints": [{"address": "127.0.0.1", "port": 1}]})
    members = [7]
    monkeypatch.setattr(monitor, "_members", lambda: {"web": frozenset(members)})
    read(monitor)
    for pid, start in ((8, 77), (9, 1 << 60)):
        machine(tmp_path, (pid, "x", 1, 0, []))
        stat = tmp_path / str(pid) / "stat"
        stat.write_text(stat.read_text().replace(" 77 ", f" {start} ", 1))
        (tmp_path / str(pid) / "task" / str(pid)).mkdir(parents=True)
        (tmp_path / str(pid) / "task" / str(pid) / "schedstat").write_text("900 5000000000 4000\n")
        members.append(pid)
        count, seconds = {8: (0, 0), 9: (4000, 5.0)}[pid]
        assert read(monitor) == {
            ("web", "switches_total"): count,
            ("web", "run_queue_seconds_total"): seconds,
        }


# control groups


def group(folder: Path, **files: str) -> None:
    """Write the files of a group's folder, `__` for a dot."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


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


def test_a_group_of_version_2(tmp_path: Path) -> None:
    group(
        tmp_path, cpu__stat="usage_usec 2500000\nthrottled_usec 1500000", cpu__max="50000 100000", memory__current="4096", memory__max="8192",
        memory__stat="anon 2048\nfile 2048", memory__events="low 0\noom_kill 2", pids__current="3", pids__max="max", pids__events="max 4",
    )  # fmt: skip
    assert dict(read_group({"unified": str(tmp_path)})) == GROUP | {"group_memory_limit_bytes": 8192}


def test_a_group_of_version_1(tmp_path: Path) -> None:
    for name in ("cpu", "cpuacct", "memory", "pids"):
        (tmp_path / name).mkdir()
    group(
        tmp_path / "cpu",
        cpu__stat="nr_throttled 3\nthrottled_time 1500000000",
        cpu__cfs_quota_us="50000",
        cpu__cfs_period_us="100000",
    )
    group(tmp_path / "cpuacct", cpuacct__usage="2500000000")
    group(tmp_path / "memory", memory__usage_in_bytes="4096", memory__limit_in_bytes="9223372036854771712", memory__oom_control="oom_kill_disable 0\noom_kill 2", memory__stat="total_rss 2048")  # fmt: skip
    group(tmp_path / "pids", pids__current="3", pids__max="9", pids__events="max 4")
    paths = {name: str(tmp_path / name) for name in ("cpu", "cpuacct", "memory", "pids")}
    assert dict(read_group(paths)) == GROUP | {"group_processes_limit": 9}


def test_a_removed_group_gives_no_readings(tmp_path: Path) -> None:
    assert dict(read_group({"unified": str(tmp_path / "gone")})) == {}
    assert dict(read_group({})) == {}


def test_a_service_without_limits_has_no_group_to_watch() -> None:
    processes = [{"name": "one", "pid": 1, "start_ticks": 1}]
    unlimited = [{"name": "one", "paths": {}, "settings": [{"name": "nofile"}]}]
    limited = [{"name": "one", "paths": {}, "settings": [{"name": "memory_bytes"}]}]
    assert not QuotaMonitor.reads({"processes": processes, "groups": unlimited})
    assert not QuotaMonitor.reads({"processes": processes})
    assert not QuotaMonitor.reads({"groups": limited})
    assert QuotaMonitor.reads({"processes": processes, "groups": limited})
    assert not QuotaMonitor.reads(None)


# sockets


def takes(end: socket.socket) -> bool:
    """Return whether a non-blocking socket accepts more data."""
    try:
        return end.send(b"x" * 65536) > 0
    except BlockingIOError:
        return False


def test_unread_and_unsent_bytes_are_its_own(places: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that its client does not read fills the send buffer, data that it does not read the receive
    buffer; the clients' ends are not counted."""
    monkeypatch.setattr(SocketsMonitor, "table", SocketTable(listening_sockets, every_s=0.0))
    monkeypatch.setattr(SocketsMonitor, "connections", SocketTable(open_connections, every_s=0.0))
    listener = places.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = listener.getsockname()[1]
    client = places.enter_context(socket.create_connection(("127.0.0.1", port)))
    server = places.enter_context(listener.accept()[0])
    monitor = SocketsMonitor("web", {"endpoints": [{"address": "127.0.0.1", "port": port}]})
    entity = str(port)
    wait_until(lambda: read(monitor)[entity, "established"] == 1)
    assert read(monitor)[entity, "unread_bytes"] == read(monitor)[entity, "unsent_bytes"] == 0
    for end in (client, server):
        end.setblocking(False)
        while takes(end):
            pass
    wait_until(lambda: read(monitor)[entity, "receive_buffers_full"] == 1)
    found = read(monitor)
    assert found[entity, "unread_bytes"] > 0
    assert found[entity, "unsent_bytes"] > 0
    assert found[entity, "send_buffers_full"] == 1


# interfaces


@pytest.mark.real
def test_a_queueing_discipline_that_drops_is_seen(needs: Any, places: ExitStack) -> None:
    """In a separate namespace: a veth with a token bucket of 8 kbit/s that datagrams overrun."""
    needs("root", "ip", "tc", "unshare")
    script = (
        "set -e; ip link set lo up; ip link add va type veth peer name vb; ip addr add 10.9.9.1/24 dev va; "
        "ip link set va up; ip link set vb up; "
        "ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev va; "
        'tc qdisc add dev va root tbf rate 8kbit burst 2kb limit 4kb; exec "$0" -c "$1"'
    )
    program = (
        "import socket\n"
        "from svload.host.machine.qdiscs import qdiscs\n"
        "from svload.watch.monitors.qdisc import QdiscMonitor\n"
        "monitor = QdiscMonitor('', {})\n"
        "before = {(one.entity, one.metric): one.value for one in monitor.sample()}\n"
        "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:\n"
        "    for _ in range(40): out.sendto(b'x' * 900, ('10.9.9.2', 9))\n"
        "after = {(one.entity, one.metric): one.value for one in monitor.sample()}\n"
        "print(before['va tbf', 'drops_total'], after['va tbf', 'drops_total'], after['va tbf', 'backlog_bytes'])\n"
    )
    done = completed(["unshare", "-n", "sh", "-c", script, sys.executable, program])
    assert done.returncode == 0, done.stderr
    before, after, backlog = map(float, done.stdout.split())
    assert before == 0
    assert after > 10
    assert backlog > 0


def test_what_does_not_queue_is_not_reported() -> None:
    assert all(one.kind != "noqueue" for one in qdiscs())
    assert {one.metric for one in QdiscMonitor("", {}).sample()} <= set(QdiscMonitor.metrics)

"""Parsers of /proc's texts, and readings of this machine and of its processes."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import child, wait_until
from tests.watch.watched import by_entity, processes

from svload.host.machine.linux import PAGE_BYTES, TICKS_PER_S, ProcessStat, parse_stat
from svload.watch import proc
from svload.watch.monitor import Reading
from svload.watch.monitors import host
from svload.watch.monitors.host import HostMonitor
from svload.watch.monitors.process import ProcessMonitor

STAT = "4242 (a) b (c)) S 7 42 41 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 9 0 98765 1000 256 1844 1 1 0"


def test_a_stat_line_whose_name_holds_brackets() -> None:
    stat = parse_stat(STAT)
    assert (stat.pid, stat.state, stat.parent, stat.group, stat.session) == (4242, "S", 7, 42, 41)
    assert stat.cpu_seconds == pytest.approx(250 / TICKS_PER_S)
    assert (stat.threads, stat.start_ticks, stat.rss_bytes) == (9, 98765, 256 * PAGE_BYTES)
    assert (stat.name, stat.kernel) == ("a) b (c)", False)
    assert parse_stat(STAT.replace(" 4194560 ", " 2129984 ")).kernel


def one(pid: int, parent: int, session: int = 0, group: int = 0) -> ProcessStat:
    return ProcessStat(pid, "S", parent, group, session, 0.0, 1, 0, 0)


def test_a_family_is_descendants_and_the_session_it_leads() -> None:
    rows = ((1, 0), (10, 1, 10), (11, 10, 10), (12, 11, 12), (13, 1, 10), (14, 13, 99), (20, 1, 20))
    machine = [one(*row) for row in (*rows, (15, 1, 5, 10))]
    families = {(10,): {10, 11, 12, 13, 14, 15}, (20,): {20}, (12, 20): {12, 20}}
    assert {roots: proc.families({*roots}, machine) for roots in families} == families


def test_cores() -> None:
    text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 10 50 1000 5 1 2 3 0 0\ncpu1 0 0 0 7 0 0 0 0 0 0\nintr 5\nctxt 77\n"
    cores = proc.parse_cpu(text)
    ticks = {"busy": 166, "user": 110, "system": 50, "softirq": 3, "iowait": 5, "steal": 3}
    assert cores["cpu0"] == {name: pytest.approx(one / TICKS_PER_S) for name, one in ticks.items()}
    assert set(cores["cpu1"].values()) == {0.0}
    assert proc.parse_pairs(text.encode(), (b"ctxt ",)) == {b"ctxt ": 77}


def test_pairs_titles_pressure_disks_and_interfaces() -> None:
    names = (b"MemTotal:", b"Cached:", b"HugePages:", b"Name ", b"Last ", b"No ")
    text = b"MemTotal:   100 kB\nSwapCached: 7 kB\nHugePages:  3\nName x\nLast -2"
    assert proc.parse_pairs(text, names) == {b"MemTotal:": 102400, b"HugePages:": 3, b"Last ": -2}
    assert proc.parse_pairs(b"a 1\nb 2\nab 3\n", (b"a ", b"ab ")) == {b"a ": 1, b"ab ": 3}
    text, wanted = b"TcpExt: A B\nTcpExt: 1 2\nIpExt: C\nIpExt: 3\n", ("IpExt.C", "TcpExt.B", "TcpExt.No")
    assert proc.parse_titled(text, wanted) == {"TcpExt.B": 2, "IpExt.C": 3}
    assert proc.parse_titled(text.replace(b"1 2", b"1"), wanted) == {"IpExt.C": 3}, "a line that is cut short"
    averages = "avg10=0.1 avg60=0 avg300=0"
    pressure = proc.parse_pressure(f"some {averages} total=1500000\nfull {averages} total=20\n")
    assert pressure == {"some": 1.5, "full": 2e-05}
    unused = "7 0 loop0 0 0 0 0 0 0 0 0 0 0 0"
    disks = proc.parse_disks(f"254 0 vda 10 1 200 5 20 2 400 6 0 7000 9 0 0 0 0\n{unused}\n")
    moved = {"reads": 10, "read_bytes": 102400, "writes": 20, "written_bytes": 204800}
    assert disks == {"vda": moved | {"in_flight": 0, "io_seconds": 7.0, "queue_seconds": 0.009}}
    head = "Inter-| Receive\n face |bytes\n"
    table = f"{head}  eth0: {' '.join(map(str, range(1, 17)))}\nifb0:{' 0' * 16}\n"
    received = {"received_bytes": 1, "received_packets": 2, "received_drops": 4}
    sent = {"sent_bytes": 9, "sent_packets": 10, "sent_drops": 12}
    assert proc.parse_interfaces(table) == {"eth0": received | sent}


def test_this_machine_is_read_and_its_counters_only_grow() -> None:
    monitor = HostMonitor("", {})
    first, second = by_entity(monitor), by_entity(monitor)
    monitor.close()
    assert {metric for _, metric in first} <= set(HostMonitor.metrics)
    cores = {entity for entity, metric in first if metric == "busy_seconds_total"}
    assert cores == {f"cpu{core}" for core in range(os.cpu_count() or 1)}
    assert first["", "memory_total_bytes"] == os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    assert first["", "forks_total"] > 0
    # A kernel lets iowait decrease now and then (proc(5)).
    counters = [key for key in first if key[1].endswith("_total") and "iowait" not in key[1]]
    assert not [key for key in counters if second.get(key, first[key]) < first[key]]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the /proc of a machine that a test writes."""
    monkeypatch.setattr(HostMonitor, "root", str(tmp_path))
    return tmp_path


def test_what_a_kernel_lacks_is_left_out(root: Path) -> None:
    (root / "meminfo").write_text("MemTotal: 5 kB\n")
    (root / "pressure" / "cpu").mkdir(parents=True)  # can be opened, but not read
    with closing(HostMonitor("", {})) as monitor:
        assert list(monitor.sample()) == [Reading("", "memory_total_bytes", 5120)]


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        (b"rchar: 9\nwrite_bytes: 8\nread_bytes: 4096\ncancelled_write_bytes: 7\n", b"read_bytes", 4096),
        (b"rchar: 9\nread_bytes: 4096\ncancelled_write_bytes: 7\nwrite_bytes: 8\n", b"write_bytes", 8),
        (b"rchar: 9\nread_bytes: 4096", b"read_bytes", None),
        (b"rchar: 9\nread_bytes: x\n", b"read_bytes", None),
        (b"rchar: 9\n", b"read_bytes", None),
        (b"", b"read_bytes", None),
    ],
)
def test_what_was_read_from_and_written_to_disks(text: bytes, name: bytes, found: float | None) -> None:
    assert proc.disk_bytes(text, name) == found


def test_changed_machine_files_are_read_again(root: Path) -> None:
    counts = root / "sys" / "fs" / "file-nr"
    counts.parent.mkdir(parents=True)
    counts.write_text("5\t0\t9\n")
    with closing(HostMonitor("", {})) as monitor:
        for used in (5, 5, 6):
            counts.write_text(f"{used}\t0\t9\n")
            assert [one.value for one in monitor.sample()] == [used, 9]


def test_costly_files_are_read_once_a_second(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"s": 100.0}
    monkeypatch.setattr(host.time, "monotonic", lambda: now["s"])
    (root / "meminfo").write_text("MemTotal: 5 kB\n")
    with closing(HostMonitor("", {})) as monitor:

        def read(at_s: float) -> list[float]:
            now["s"] = 100.0 + at_s
            return [one.value for one in monitor.sample()]

        assert [read(0.0), read(0.2), read(0.8), read(1.0)] == [[5120], [], [], [5120]]
        monitor.catch_up()
        assert [read(1.2), read(1.4)] == [[5120], []]


def test_a_service_is_its_processes_and_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessMonitor, "table", proc.ProcessTable(every_s=0.0))
    code = (
        "import subprocess, sys; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); "
        "sys.stdin.read(); c.kill(); c.wait()"
    )
    with child(code, start_new_session=True) as (server, sleeping):
        monitor = ProcessMonitor("s", processes(python=server.pid, sleep=int(sleeping)))
        # between its fork and its exec the child has no memory of its own
        wait_until(lambda: by_entity(monitor)["sleep", "rss_bytes"] > 0)
        found = by_entity(monitor)
        assert [found[name, "processes"] for name in ("", "python", "sleep")] == [2, 2, 1]
        assert found["", "rss_bytes"] > found["sleep", "rss_bytes"] > 0
        assert found["", "fds"] >= 6
        assert {metric for _, metric in found} == set(ProcessMonitor.metrics) - {"hot_core_ratio"}
        stale = processes(python=server.pid)
        stale["processes"][0]["start_ticks"] += 1
        with pytest.raises(ProcessLookupError, match="no process of s"):
            ProcessMonitor("s", stale).sample()
        server.communicate("", timeout=HANG_S)
    with pytest.raises(ProcessLookupError):
        monitor.sample()

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import child, wait_until

from svload.host.machine.linux import PAGE_BYTES, TICKS_PER_S, ProcessStat, parse_stat, process_stat
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
    assert proc.families({10}, machine) == {10, 11, 12, 13, 14, 15}
    assert proc.families({20}, machine) == {20}


def test_cores() -> None:
    text = (
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 10 50 1000 5 1 2 3 0 0\ncpu1 0 0 0 7 0 0 0 0 0 0\nintr "
        "5\nctxt 77\nprocs_running 3\nprocs_blocked 1\n"
    )
    cores = proc.parse_cpu(text)
    ticks = {"busy": 166, "user": 110, "system": 50, "softirq": 3, "iowait": 5, "steal": 3}
    assert cores["cpu0"] == {name: pytest.approx(one / TICKS_PER_S) for name, one in ticks.items()}
    assert set(cores["cpu1"].values()) == {0.0}
    assert proc.parse_pairs(text.encode(), (b"ctxt ",)) == {b"ctxt ": 77}


def test_pairs_titles_pressure_disks_and_interfaces() -> None:
    names = (b"MemTotal:", b"Cached:", b"HugePages:", b"Name ", b"Last ", b"No ")
    assert proc.parse_pairs(
        b"MemTotal:   100 kB\nSwapCached: 7 kB\nHugePages:  3\nName x\nLast -2", names
    ) == {b"MemTotal:": 102400, b"HugePages:": 3, b"Last ": -2}
    assert proc.parse_pairs(b"a 1\nb 2\nab 3\n", (b"a ", b"ab ")) == {b"a ": 1, b"ab ": 3}
    text, wanted = b"TcpExt: A B\nTcpExt: 1 2\nIpExt: C\nIpExt: 3\n", ("IpExt.C", "TcpExt.B", "TcpExt.No")
    assert proc.parse_titled(text, wanted) == {"TcpExt.B": 2, "IpExt.C": 3}
    assert proc.parse_titled(text.replace(b"1 2", b"1"), wanted) == {"IpExt.C": 3}, "a line that is cut short"
    assert proc.parse_pressure(
        "some avg10=0.1 avg60=0 avg300=0 total=1500000\nfull avg10=0 avg60=0 avg300=0 total=20\n"
    ) == {"some": 1.5, "full": 2e-05}
    disks = proc.parse_disks(
        "254 0 vda 10 1 200 5 20 2 400 6 0 7000 9 0 0 0 0\n7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n"
    )
    moved = {"reads": 10, "read_bytes": 102400, "writes": 20, "written_bytes": 204800}
    assert disks == {"vda": moved | {"in_flight": 0, "io_seconds": 7.0, "queue_seconds": 0.009}}
    head = "Inter-| Receive\n face |bytes\n"
    table = f"{head}  eth0: {' '.join(map(str, range(1, 17)))}\nifb0:{' 0' * 16}\n"
    received = {"received_bytes": 1, "received_packets": 2, "received_drops": 4}
    sent = {"sent_bytes": 9, "sent_packets": 10, "sent_drops": 12}
    assert proc.parse_interfaces(table) == {"eth0": received | sent}


def test_this_machine_is_read_and_its_counters_only_grow() -> None:
    monitor = HostMonitor("", {})
    first = {(r.entity, r.metric): r.value for r in monitor.sample()}
    second = {(r.entity, r.metric): r.value for r in monitor.sample()}
    monitor.close()
    assert {metric for _, metric in first} <= set(HostMonitor.metrics)
    assert {entity for entity, metric in first if metric == "busy_seconds_total"} == {
        f"cpu{core}" for core in range(os.cpu_count() or 1)
    }
    assert first["", "memory_total_bytes"] == os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    assert first["", "forks_total"] > 0
    # A kernel lets iowait decrease now and then (proc(5)).
    assert not [
        key
        for key, value in first.items()
        if key[1].endswith("_total") and "iowait" not in key[1] and second.get(key, value) < value
    ]


def test_what_a_kernel_lacks_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 5 kB\n")
    (tmp_path / "pressure" / "cpu").mkdir(parents=True)  # can be opened, but not read
    monkeypatch.setattr(HostMonitor, "root", str(tmp_path))
    monitor = HostMonitor("", {})
    assert list(monitor.sample()) == [Reading("", "memory_total_bytes", 5120)]
    monitor.close()


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


def test_changed_machine_files_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = tmp_path / "sys" / "fs" / "file-nr"
    counts.parent.mkdir(parents=True)
    counts.write_text("5\t0\t9\n")
    monkeypatch.setattr(HostMonitor, "root", str(tmp_path))
    monitor = HostMonitor("", {})
    found = [[one.value for one in monitor.sample()] for _ in range(2)]
    counts.write_text("6\t0\t9\n")
    found.append([one.value for one in monitor.sample()])
    monitor.close()
    assert found == [[5, 9], [5, 9], [6, 9]]


def test_costly_files_are_read_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"s": 100.0}
    monkeypatch.setattr(host.time, "monotonic", lambda: now["s"])
    monkeypatch.setattr(HostMonitor, "root", str(tmp_path))
    (tmp_path / "meminfo").write_text("MemTotal: 5 kB\n")
    monitor = HostMonitor("", {})

    def read(at_s: float) -> list[float]:
        now["s"] = 100.0 + at_s
        return [one.value for one in monitor.sample()]

    assert [read(0.0), read(0.2), read(0.8), read(1.0)] == [[5120], [], [], [5120]]
    monitor.catch_up()
    assert [read(1.2), read(1.4)] == [[5120], []]
    monitor.close()


def test_a_service_is_its_processes_and_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessMonitor, "table", proc.ProcessTable(every_s=0.0))
    code = (
        "import subprocess, sys; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); "
        "sys.stdin.read(); c.kill(); c.wait()"
    )
    with child(code, start_new_session=True) as (server, sleeping):
        pids = {"python": server.pid, "sleep": int(sleeping)}
        known = [
            {"name": name, "pid": pid, "start_ticks": process_stat(pid).start_ticks}
            for name, pid in pids.items()
        ]
        facts = {"processes": known}

        def sampled() -> dict[tuple[str, str], float]:
            return {(r.entity, r.metric): r.value for r in ProcessMonitor("s", facts).sample()}

        # between its fork and its exec the child has no memory of its own
        wait_until(lambda: sampled()["sleep", "rss_bytes"] > 0)
        values = sampled()
        assert values["", "processes"] == 2
        assert values["python", "processes"] == 2
        assert values["sleep", "processes"] == 1
        assert values["", "rss_bytes"] > values["sleep", "rss_bytes"] > 0
        assert values["", "fds"] >= 6
        assert {metric for _, metric in values} == set(ProcessMonitor.metrics) - {"hot_core_ratio"}
        stale = {"processes": [known[0] | {"start_ticks": known[0]["start_ticks"] + 1}]}
        with pytest.raises(ProcessLookupError, match="no process of s"):
            ProcessMonitor("s", stale).sample()
        server.communicate("", timeout=HANG_S)
    with pytest.raises(ProcessLookupError):
        ProcessMonitor("s", facts).sample()

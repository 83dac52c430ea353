"""A trial's conditions: clocks, ports, listeners, cores, the page cache, CPUs kept awake; the preflight."""

from __future__ import annotations

import errno
import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.bounds import HANG_S

from svload.analysis import limits
from svload.host import split_cores
from svload.host.machine import conditions, preflight, sock_diag
from svload.host.machine.awake import awake, can_stay_awake
from svload.host.machine.page_cache import Resident, in_page_cache
from svload.host.machine.ports import (
    REUSED_AFTER_S,
    TIME_WAIT_S,
    free_ports,
    local_ports,
    most_new_connections,
)
from svload.host.machine.sock_diag import count_time_wait, end_time_wait


def test_a_moment_holds_the_three_clocks_and_what_tcp_sent() -> None:
    before, wall = time.monotonic_ns(), time.time_ns()
    now = conditions.moment(42.0)
    assert before <= now.monotonic_ns <= time.monotonic_ns()
    assert wall <= now.realtime_ns <= time.time_ns()
    assert now.boottime_ns >= now.monotonic_ns - 10**6
    assert (now.calibration_ns, now.time_wait) == (42.0, None)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        client.sendall(b"x")
    after = conditions.moment(ports=True)
    assert after.tcp_sent > now.tcp_sent
    assert after.tcp_resent >= 0
    assert after.time_wait >= 0


@pytest.mark.parametrize("slept_ns", [0, 5_000_000])
def test_a_process_off_its_core_is_no_suspension(monkeypatch: pytest.MonkeyPatch, slept_ns: int) -> None:
    """All but one of twenty readings of the clocks are interrupted for 60 ms."""
    clock = iter(range(0, 10**15, 1_000))
    calls, off_ns = count(), 0

    def read(which: int) -> int:
        nonlocal off_ns
        call = next(calls)
        off_ns += 60_000_000 if call % 4 == 2 and call // 4 != 13 else 0
        return next(clock) + off_ns + (slept_ns if which == time.CLOCK_BOOTTIME else 0)

    monkeypatch.setattr(time, "clock_gettime_ns", read)
    now = conditions.moment()
    assert now.boottime_ns - now.monotonic_ns == pytest.approx(slept_ns, abs=limits.SLEPT_NS / 100)
    assert now.realtime_ns - now.monotonic_ns == pytest.approx(0, abs=10_000)


def rested(server: socket.socket, client_first: bool) -> int:
    """Return how many more sockets on the client's port are in TIME_WAIT once one side closed first."""
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    port = int(client.getsockname()[1])
    before = count_time_wait(range(port, port + 1))
    first, second = (client, accepted) if client_first else (accepted, client)
    first.close()
    second.recv(1)
    second.close()
    return count_time_wait(range(port, port + 1)) - before


def test_only_a_port_of_ours_rests_and_only_root_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = (2, struct.pack("=i", -errno.EPERM) + bytes(20))
    real = sock_diag._messages

    def messages(kind: int, flags: int, query: bytes) -> Iterator[tuple[int, bytes]]:
        return iter([refused]) if kind == 21 else real(kind, flags, query)

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert rested(server, client_first=False) == 0
        assert rested(server, client_first=True) == 1
        monkeypatch.setattr(sock_diag, "_messages", messages)
        assert end_time_wait({int(server.getsockname()[1])}) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may end connections")
def test_what_rests_towards_a_server_of_ours_can_be_ended_and_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours, socket.create_server(("127.0.0.1", 0)) as other:
        mine, another = (int(server.getsockname()[1]) for server in (ours, other))
        assert rested(ours, client_first=True) == rested(other, client_first=True) == 1
        assert end_time_wait({mine}) == 1
        assert end_time_wait({mine}) == 0
        assert end_time_wait({another}) == 1


def test_the_machine_says_what_it_can_carry() -> None:
    found = conditions.machine(5e9, 60_000.0)
    assert found.local_ports == len(local_ports())
    raise_it = f"import resource as r; r.setrlimit(r.RLIMIT_NOFILE, ({found.open_files},) * 2)"
    subprocess.run([sys.executable, "-c", raise_it], check=True, timeout=HANG_S)
    assert found.port_reuse_s in (REUSED_AFTER_S, TIME_WAIT_S)
    assert len(set(free_ports(500))) == 500, "no two machines get the same port"


def test_loopback_and_timers_measured_once_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = preflight.preflight(state=tmp_path)
    assert first.loopback_bytes_per_s > 10e6
    assert first.timer_floor_ns > 0
    monkeypatch.setattr(preflight, "measure_loopback", lambda: pytest.fail("measured again"))
    assert preflight.preflight(state=tmp_path) == first


def test_a_busy_moment_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "measure_loopback", lambda tries=5: 1e9 if tries == 5 else 4e9)
    assert preflight.preflight(state=tmp_path).loopback_bytes_per_s == 1e9
    assert preflight.above(0.9e9, 1e9, state=tmp_path) == 1e9, "nothing is doubted"
    assert preflight.above(2e9, 1e9, state=tmp_path) == 4e9
    assert preflight.preflight(state=tmp_path).loopback_bytes_per_s == 4e9, "kept"
    monkeypatch.setattr(preflight, "measure_loopback", lambda tries=5: 3e9)
    assert preflight.above(9e9, 4e9, state=tmp_path) == 4e9, "what cannot be stays above what was measured"


def test_when_loopback_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([7e9, 7e9, 7e9, 1e9, 8e9])
    monkeypatch.setattr(preflight, "measure_loopback", lambda: next(rates))
    monkeypatch.setattr(preflight, "measure_timer_floor", lambda: 50_000.0)
    path = tmp_path / "preflight.json"
    old = {"format": 1, "boot": "another", "loopback_bytes_per_s": 1.0, "timer_floor_ns": 1.0}
    for text in (json.dumps(old), "{", ""):
        path.write_text(text)
        assert preflight.preflight(state=tmp_path) == (7e9, 50_000.0)
    for kept in (7e9, 8e9):
        assert preflight.preflight(measure_again=True, state=tmp_path) == (kept, 50_000.0)


@pytest.mark.parametrize(("cores", "of_load"), [(2, 1), (3, 1), (7, 1), (8, 2), (64, 16)])
def test_a_quarter_of_many_cores_makes_load_and_one_core_is_shared(cores: int, of_load: int) -> None:
    split = split_cores(set(range(10, 10 + cores)))
    assert (len(split.load), split.pinned) == (of_load, True)
    assert sorted([*split.load, *split.servers]) == list(range(10, 10 + cores))
    assert split_cores({5}) == ((5,), (5,), False)
    with pytest.raises(ValueError, match="no cores"):
        split_cores(set())


@pytest.mark.parametrize(
    ("reuse", "seconds", "loopback", "most_rps"),
    [
        ("0", 600.0, True, 10.0),  # 600 ports, each held for 60 s
        ("0", 10.0, True, 60.0),  # shorter than TIME_WAIT: as many as there are ports
        ("2", 600.0, False, 10.0),
        ("2", 600.0, True, 600.0),  # taken again after 1 s
        ("1", 600.0, False, 600.0),
    ],
)
def test_port_rate_bound(tmp_path: Path, reuse: str, seconds: float, loopback: bool, most_rps: float) -> None:
    (tmp_path / "ip_local_port_range").write_text("10000\t10599\n")
    (tmp_path / "tcp_tw_reuse").write_text(f"{reuse}\n")
    assert local_ports(tmp_path) == range(10_000, 10_600)
    assert most_new_connections(seconds, loopback, tmp_path) == pytest.approx(most_rps)


def test_what_was_written_is_resident_and_what_was_never_touched_is_not(tmp_path: Path) -> None:
    assert in_page_cache(tmp_path) is None
    assert in_page_cache(tmp_path / "nothing") is None
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "empty").touch()
    whole = 64 * mmap.PAGESIZE
    with (tmp_path / "below" / "half").open("wb") as file:
        file.write(b"x" * (whole // 2))
        file.flush()
        file.truncate(whole)  # the rest is a hole that nobody has read
    assert in_page_cache(tmp_path) == Resident(whole, whole // 2)
    (tmp_path / "odd").write_bytes(b"x" * 100)
    assert in_page_cache(tmp_path) == Resident(whole + 100, whole // 2 + 100)


def test_staying_awake_is_asked_for_and_given_back_however_the_block_ends(tmp_path: Path) -> None:
    device = tmp_path / "latency"
    device.write_bytes(b"")
    before = set(os.listdir("/proc/self/fd"))
    with awake(device=device) as held:
        assert held
        assert device.read_bytes() == bytes(4)
        assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    assert set(os.listdir("/proc/self/fd")) <= before
    with pytest.raises(ValueError, match="planned"), awake(device=device):
        raise ValueError("planned")
    assert set(os.listdir("/proc/self/fd")) <= before


def test_who_does_not_want_it_or_may_not_have_it_goes_on(tmp_path: Path) -> None:
    for how in ({"asked": False}, {"device": tmp_path / "none"}, {"device": Path("/dev/full")}):
        with awake(**how) as held:
            assert not held
    assert not can_stay_awake(tmp_path / "none")

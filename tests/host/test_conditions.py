"""What a trial's conditions are read from: clocks, resting ports, listeners; and what
the preflight measures and keeps."""

from __future__ import annotations

import errno
import json
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
from svload.host.machine import conditions, preflight, sock_diag
from svload.host.machine.owners import owners
from svload.host.machine.ports import REUSED_AFTER_S, TIME_WAIT_S, local_ports
from svload.host.machine.sock_diag import TCP_LISTEN, count_time_wait, end_time_wait, tcp_sockets


def test_a_moment_holds_the_three_clocks() -> None:
    before, wall = time.monotonic_ns(), time.time_ns()
    now = conditions.moment(42.0)
    assert before <= now.monotonic_ns <= time.monotonic_ns()
    assert wall <= now.realtime_ns <= time.time_ns()
    assert now.boottime_ns >= now.monotonic_ns - 10**6
    assert (now.calibration_ns, now.time_wait) == (42.0, None)
    resting = conditions.moment(ports=True).time_wait
    assert resting >= 0


@pytest.mark.parametrize("slept_ns", [0, 5_000_000])
def test_a_process_off_its_core_is_no_suspended_machine(
    monkeypatch: pytest.MonkeyPatch, slept_ns: int
) -> None:
    """Of twenty readings of the clocks, all but one are interrupted for 60 ms; a suspension stays visible."""
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


def test_a_moment_counts_what_tcp_sent() -> None:
    before = conditions.moment()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        client.sendall(b"x")
    after = conditions.moment()
    assert after.tcp_sent > before.tcp_sent
    assert after.tcp_resent >= 0


def rested(server: socket.socket, client_first: bool) -> int:
    """How many more sockets on the client's port rest once one side has closed first (others may
    rest there, to other servers)."""
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    port = int(client.getsockname()[1])
    before = count_time_wait(range(port, port + 1))
    first, second = (client, accepted) if client_first else (accepted, client)
    first.close()
    second.recv(1)
    second.close()
    return count_time_wait(range(port, port + 1)) - before


def test_only_a_port_of_ours_rests() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert rested(server, client_first=True) == 1
        assert rested(server, client_first=False) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may end connections")
def test_what_rests_towards_a_server_of_ours_can_be_ended_and_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours, socket.create_server(("127.0.0.1", 0)) as other:
        mine, another = (int(server.getsockname()[1]) for server in (ours, other))
        assert rested(ours, client_first=True) == rested(other, client_first=True) == 1
        assert end_time_wait({mine}) == 1
        assert end_time_wait({mine}) == 0
        assert end_time_wait({another}) == 1


def test_a_user_without_permission_ends_no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = (2, struct.pack("=i", -errno.EPERM) + bytes(20))
    real = sock_diag._messages

    def messages(kind: int, flags: int, query: bytes) -> Iterator[tuple[int, bytes]]:
        return iter([refused]) if kind == 21 else real(kind, flags, query)

    monkeypatch.setattr(sock_diag, "_messages", messages)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert rested(server, client_first=True) == 1
        assert end_time_wait({int(server.getsockname()[1])}) == 0


def test_a_listener_is_found_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        [found] = [one for one in tcp_sockets(socket.AF_INET, TCP_LISTEN) if one.port == port]
        assert found.address == "127.0.0.1"
        assert found.inode == os.fstat(server.fileno()).st_ino
        assert os.getpid() in owners([port]).pids
    assert owners([port]).pids == set()


def test_the_machine_says_what_it_can_carry() -> None:
    found = conditions.machine(5e9, 60_000.0)
    assert found.local_ports == len(local_ports())
    raise_it = (
        "import resource, sys; n = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))"
    )
    subprocess.run([sys.executable, "-c", raise_it, str(found.open_files)], check=True, timeout=HANG_S)
    assert found.port_reuse_s in (REUSED_AFTER_S, TIME_WAIT_S)


def test_loopback_and_timers_measured_once_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = preflight.preflight(state=tmp_path)
    assert first.loopback_bytes_per_s > 10e6
    assert first.timer_floor_ns > 0
    monkeypatch.setattr(preflight, "measure_loopback", lambda: pytest.fail("measured again"))
    assert preflight.preflight(state=tmp_path) == first


def test_a_busy_moment_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "measure_timer_floor", lambda: 50_000.0)
    monkeypatch.setattr(preflight, "measure_loopback", lambda tries=5: 1e9 if tries == 5 else 4e9)
    assert preflight.preflight(state=tmp_path).loopback_bytes_per_s == 1e9
    assert preflight.above(0.9e9, 1e9, state=tmp_path) == 1e9, "nothing is doubted"
    assert preflight.above(2e9, 1e9, state=tmp_path) == 4e9
    assert preflight.preflight(state=tmp_path).loopback_bytes_per_s == 4e9, "kept"
    monkeypatch.setattr(preflight, "measure_loopback", lambda tries=5: 3e9)
    assert preflight.above(9e9, 4e9, state=tmp_path) == 4e9, "what cannot be stays above what was measured"


def test_a_new_boot_or_damaged_file_is_remeasured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "measure_loopback", lambda: 7e9)
    monkeypatch.setattr(preflight, "measure_timer_floor", lambda: 50_000.0)
    path = tmp_path / "preflight.json"
    old = {"format": 1, "boot": "another", "loopback_bytes_per_s": 1.0, "timer_floor_ns": 1.0}
    for text in (json.dumps(old), "{", ""):
        path.write_text(text)
        assert preflight.preflight(state=tmp_path) == (7e9, 50_000.0)


def test_a_busy_machine_never_lowers_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "measure_timer_floor", lambda: 50_000.0)
    rates = iter([5e9, 1e9, 6e9])
    monkeypatch.setattr(preflight, "measure_loopback", lambda: next(rates))
    found = [preflight.preflight(measure_again=True, state=tmp_path).loopback_bytes_per_s for _ in range(3)]
    assert found == [5e9, 5e9, 6e9]

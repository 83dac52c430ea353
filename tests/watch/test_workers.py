"""Workers that share a port are counted one by one; a single listener counts as one."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.servers import child

from svload.host.machine.sock_diag import listening_sockets, open_connections
from svload.watch.monitors.listeners import SocketTable
from svload.watch.monitors.workers import WorkersMonitor


@pytest.fixture(autouse=True)
def read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read at once, although a look is shared for 0.05 s."""
    monkeypatch.setattr(WorkersMonitor, "listening", SocketTable(listening_sockets, every_s=0.0))
    monkeypatch.setattr(WorkersMonitor, "connections", SocketTable(open_connections, every_s=0.0))


SHARE = """
import socket, sys
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
print(server.getsockname()[1], flush=True)
kept = []
while True:
    kept.append(server.accept()[0])
    kept[-1].sendall(b"x")
"""
PARENT = """
import os, socket, sys
servers = []
for _ in range(2):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", servers[0].getsockname()[1] if servers else 0))
    server.listen()
    servers.append(server)
alone = socket.create_server(("127.0.0.1", 0))
print(servers[0].getsockname()[1], alone.getsockname()[1], flush=True)
for number in range(2):
    if os.fork() == 0:
        alone.close()
        servers[1 - number].close()
        kept = []
        while True:
            kept.append(servers[number].accept()[0])
            kept[-1].sendall(b"x")
while True:
    os.wait()
"""
CONNECTIONS = 12


@pytest.fixture
def shared() -> Iterator[tuple[int, list[int]]]:
    """Run two workers on one port; yield (port, pids)."""
    with child(SHARE, 0) as (one, port), child(SHARE, port) as (other, _):
        yield int(port), [one.pid, other.pid]


@pytest.fixture
def parent() -> Iterator[tuple[int, int, int]]:
    """Run a parent that keeps the sockets of its two workers open, as Swift's proxy does; yield (shared
    port, its own port, pid)."""
    with child(PARENT, start_new_session=True) as (process, ports):
        yield *map(int, ports.split()), process.pid
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def connected(port: int) -> Iterator[ExitStack]:
    """Connect this many clients, all of them accepted."""
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert client.recv(1) == b"x", "it is accepted"
        yield stack


def monitor(port: int, pids: list[int], *others: int) -> WorkersMonitor:
    processes = [{"name": f"w{pid}", "pid": pid, "start_ticks": 0} for pid in pids]
    endpoints = [{"scheme": "http", "address": "127.0.0.1", "port": one} for one in (port, *others)]
    return WorkersMonitor("web", {"service": "web", "processes": processes, "endpoints": endpoints})


def test_every_worker_has_its_connections(shared: tuple[int, list[int]]) -> None:
    port, pids = shared
    with connected(port):
        readings = {(one.entity, one.metric): one.value for one in monitor(port, pids).sample()}
    counts = {pid: readings.pop((str(pid), "connections")) for pid in pids}
    assert readings == {("", "listeners"): 2}
    assert sum(counts.values()) == CONNECTIONS


def test_a_parent_that_only_keeps_the_sockets_open_is_no_worker(parent: tuple[int, int, int]) -> None:
    port, alone, pid = parent
    with connected(port) as stack:
        stack.enter_context(socket.create_connection(("127.0.0.1", alone)))
        WorkersMonitor.table.renew()
        readings = list(monitor(port, [pid], alone).sample())
    assert [(one.entity, one.value) for one in readings[:1]] == [("", 2)]
    assert str(pid) not in {one.entity for one in readings[1:]}
    assert (len(readings[1:]), sum(one.value for one in readings[1:])) == (2, CONNECTIONS)


def test_one_listener_is_no_sharing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert [(one.entity, one.value) for one in monitor(port, [os.getpid()]).sample()] == [("", 1)]
    with pytest.raises(ConnectionError, match="nothing listens for web"):
        list(monitor(port, [os.getpid()]).sample())


def told(port: int, pids: list[int], most: int, others: tuple[int, ...] = ()) -> WorkersMonitor:
    """Return a monitor of a service whose kit states how many connections each worker serves."""
    made = monitor(port, pids, *others)
    return WorkersMonitor("web", {**made.facts, "admin": {"workers": {"port": port, "connections": most}}})


def test_the_fullest_worker_stands_against_what_each_may_serve(shared: tuple[int, list[int]]) -> None:
    port, pids = shared
    with connected(port):
        readings = {(one.entity, one.metric): one.value for one in told(port, pids, 7).sample()}
    assert readings["", "connections_limit"] == 7
    assert readings["", "connections_fullest"] == max(readings[str(pid), "connections"] for pid in pids)
    assert readings["", "connections_fullest"] >= CONNECTIONS / 2


def test_only_own_workers_count(shared: tuple[int, list[int]], parent: tuple[int, int, int]) -> None:
    """A TLS front beside it has its own workers, which the kit does not mention."""
    port, pids = shared
    front, _, pid = parent
    with connected(front):
        WorkersMonitor.table.renew()
        found = list(told(port, [*pids, pid], 7, (front,)).sample())
    assert sum(one.value for one in found if one.metric == "connections") == CONNECTIONS
    assert [one.value for one in found if one.metric == "connections_fullest"] == [0]


def test_one_worker_alone_has_a_limit_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            held, _ = server.accept()
            with held:
                found = {one.metric: one.value for one in told(port, [os.getpid()], 1).sample()}
    assert found == {"listeners": 1, "connections_fullest": 1, "connections_limit": 1}

"""A full accept queue that drops is detected, and workers that share a port are counted one by one."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.servers import child, wait_until
from tests.watch.watched import at_port, by_entity, values

from svload.host.machine.sock_diag import listening_sockets, open_connections
from svload.watch.monitors.listeners import ListenersMonitor, SocketTable
from svload.watch.monitors.workers import WorkersMonitor


@pytest.fixture(autouse=True)
def read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read at once, although a look is shared for 0.05 s."""
    monkeypatch.setattr(WorkersMonitor, "listening", SocketTable(listening_sockets, every_s=0.0))
    monkeypatch.setattr(WorkersMonitor, "connections", SocketTable(open_connections, every_s=0.0))
    monkeypatch.setattr(ListenersMonitor, "table", SocketTable(listening_sockets, every_s=0.0))


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
    """Run a parent that keeps its two workers' sockets open; yield (shared port, its own port, pid)."""
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


def monitor(port: int, pids: list[int], *others: int, most: int | None = None) -> WorkersMonitor:
    """Return a monitor of a service; `most`: its kit states how many connections each worker serves."""
    known = [{"name": f"w{pid}", "pid": pid, "start_ticks": 0} for pid in pids]
    told = {"workers": {"port": port, "connections": most}} if most else {}
    return WorkersMonitor("web", {**at_port(port, *others), "processes": known, "admin": told})


def test_every_worker_has_its_connections_and_the_fullest_its_limit(shared: tuple[int, list[int]]) -> None:
    port, pids = shared
    with connected(port):
        plain, limited = by_entity(monitor(port, pids)), by_entity(monitor(port, pids, most=7))
    counts = {(str(pid), "connections"): plain[str(pid), "connections"] for pid in pids}
    assert sum(counts.values()) == CONNECTIONS
    assert plain == counts | {("", "listeners"): 2}
    limit = {("", "connections_limit"): 7, ("", "connections_fullest"): max(counts.values())}
    assert limited == plain | limit


def test_a_parent_that_only_keeps_the_sockets_open_is_no_worker(parent: tuple[int, int, int]) -> None:
    port, alone, pid = parent
    with connected(port) as stack:
        stack.enter_context(socket.create_connection(("127.0.0.1", alone)))
        WorkersMonitor.table.renew()
        readings = list(monitor(port, [pid], alone).sample())
    assert [(one.entity, one.value) for one in readings[:1]] == [("", 2)]
    assert str(pid) not in {one.entity for one in readings[1:]}
    assert (len(readings[1:]), sum(one.value for one in readings[1:])) == (2, CONNECTIONS)


def test_only_own_workers_count(shared: tuple[int, list[int]], parent: tuple[int, int, int]) -> None:
    """A TLS front beside it has its own workers, which the kit does not mention."""
    port, pids = shared
    front, _, pid = parent
    with connected(front):
        WorkersMonitor.table.renew()
        found = list(monitor(port, [*pids, pid], front, most=7).sample())
    assert sum(one.value for one in found if one.metric == "connections") == CONNECTIONS
    assert [one.value for one in found if one.metric == "connections_fullest"] == [0]


def test_one_worker_alone_has_a_limit_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert by_entity(monitor(port, [os.getpid()])) == {("", "listeners"): 1}
        with socket.create_connection(("127.0.0.1", port)):
            held, _ = server.accept()
            with held:
                found = values(monitor(port, [os.getpid()], most=1))
    assert found == {"listeners": 1, "connections_fullest": 1, "connections_limit": 1}
    with pytest.raises(ConnectionError, match="nothing listens for web"):
        list(monitor(port, [os.getpid()]).sample())


def listening(stack: ExitStack, backlog: int) -> int:
    """Return the port of a socket on which nobody accepts."""
    one = stack.enter_context(socket.socket())
    one.bind(("127.0.0.1", 0))
    one.listen(backlog)
    return int(one.getsockname()[1])


def test_a_full_queue_is_seen_with_its_drops_and_an_idle_neighbours_is_not(places: ExitStack) -> None:
    full, idle = listening(places, 2), listening(places, 16)
    monitor = ListenersMonitor("web", at_port(full))
    assert values(monitor) == {"accept_queue": 0, "accept_queue_limit": 2, "accept_drops_total": 0}
    for _ in range(8):
        client = places.enter_context(socket.socket())
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", full))
    wait_until(lambda: values(monitor)["accept_drops_total"] > 0)
    found = values(monitor)
    assert found["accept_queue"] > found["accept_queue_limit"] == 2
    calm = {"accept_queue": 0, "accept_queue_limit": 16, "accept_drops_total": 0}
    assert values(ListenersMonitor("web", at_port(idle))) == calm


def test_only_what_listens_here_is_watched() -> None:
    far = at_port(80, address="192.0.2.7")
    started = {**far, "processes": [{"pid": 1}]}
    asked = (None, far, at_port(0, address="unix:/run/x"), started, at_port(80, address="::1"))
    assert [ListenersMonitor.reads(facts) for facts in asked] == [False, False, False, True, True]

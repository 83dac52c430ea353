"""Accept queues of the service's own sockets: a full one that drops is detected, and another program's is
not mistaken for it."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest
from tests.servers import wait_until

from svload.host.machine.sock_diag import listening_sockets
from svload.watch.monitors.listeners import ListenersMonitor, SocketTable


def listening(stack: ExitStack, backlog: int) -> int:
    """Return the port of a socket on which nobody accepts."""
    one = stack.enter_context(socket.socket())
    one.bind(("127.0.0.1", 0))
    one.listen(backlog)
    return int(one.getsockname()[1])


def crowd(stack: ExitStack, port: int, count: int) -> None:
    """Connect this many clients without waiting."""
    for _ in range(count):
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))


def watch(port: int, monkeypatch: pytest.MonkeyPatch) -> ListenersMonitor:
    monkeypatch.setattr(ListenersMonitor, "table", SocketTable(listening_sockets, every_s=0.0))
    return ListenersMonitor("web", {"endpoints": [{"address": "127.0.0.1", "port": port}]})


def read(monitor: ListenersMonitor) -> dict[str, float]:
    return {reading.metric: reading.value for reading in monitor.sample()}


def test_a_full_queue_is_seen_and_what_it_drops(places: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    port = listening(places, 2)
    monitor = watch(port, monkeypatch)
    assert read(monitor) == {"accept_queue": 0, "accept_queue_limit": 2, "accept_drops_total": 0}
    crowd(places, port, 8)
    wait_until(lambda: read(monitor)["accept_drops_total"] > 0)
    found = read(monitor)
    assert found["accept_queue"] > found["accept_queue_limit"] == 2


def test_anothers_full_queue_is_not_ours(places: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    idle, full = listening(places, 16), listening(places, 0)
    crowd(places, full, 8)
    theirs = watch(full, monkeypatch)
    wait_until(lambda: read(theirs)["accept_drops_total"] > 0)
    assert read(watch(idle, monkeypatch)) == {
        "accept_queue": 0,
        "accept_queue_limit": 16,
        "accept_drops_total": 0,
    }


def test_only_what_listens_here_is_watched() -> None:
    far = {"endpoints": [{"address": "192.0.2.7", "port": 80}]}
    assert not ListenersMonitor.reads(None)
    assert not ListenersMonitor.reads(far)
    assert ListenersMonitor.reads(far | {"processes": [{"pid": 1}]})
    assert not ListenersMonitor.reads({"endpoints": [{"address": "unix:/run/x", "port": 0}]})
    assert ListenersMonitor.reads({"endpoints": [{"address": "::1", "port": 80}]})

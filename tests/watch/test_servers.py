"""Monitors of servers: parsers on texts as servers print them, and small servers of ours."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import speaking
from tests.watch.watched import values

from svload.watch.http import AdminConnection
from svload.watch.monitor import Monitor
from svload.watch.monitors.mariadb import MariadbMonitor
from svload.watch.monitors.memcached import MemcachedMonitor
from svload.watch.monitors.nginx import NginxMonitor, parse_status
from svload.watch.monitors.redis import RedisMonitor
from svload.watch.monitors.truth import TruthMonitor
from svload.watch.monitors.varnish import parse_counters, readings_of

NGINX = b"Active connections: 3 \nserver accepts handled requests\n 17 16 201 \nReading: 1 Writing: 1 Waiting: 2 \n"
MEMCACHED = b"STAT pid 77\r\nSTAT curr_connections 2\r\nSTAT get_hits 5\r\nSTAT version 1.6.18\r\nSTAT bytes 900\r\nEND\r\n"
REDIS = b"# Clients\r\nconnected_clients:3\r\nmaxclients:100\r\n# Keyspace\r\ndb0:keys=4,expires=0,avg_ttl=0\r\ndb7:keys=1,expires=0,avg_ttl=0\r\n"
VARNISH = (
    '{"version": 1, "counters": {"MAIN.threads": {"description": "x", "flag": "g", "value": 200}, '
    '"MAIN.cache_hit": {"flag": "c", "value": 4}}}'
)


@contextmanager
def server(answer: Callable[[bytes], bytes | None]) -> Iterator[tuple[int, list[int]]]:
    """Answer each piece that comes (None: hang up); yield the port and the connections so far."""
    connections: list[int] = []

    def talk(line: socket.socket) -> None:
        connections.append(len(connections))
        while (piece := line.recv(1 << 16)) and (text := answer(piece)) is not None:
            line.sendall(text)

    with speaking(talk) as port:
        yield port, connections


def http(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


TRUTH = (
    b'{"requests": 5, "hits": 2, "busy_ns_sum": 1500000000, "late_ns_sum": 0, "link_held_ns_sum": 250000000, '
    b'"in_service": 3, "body_bytes_out": 77, "role": "cache"}'
)
MONITORS: dict[str, tuple[Callable[[int], Monitor], Callable[[bytes], bytes | None], dict[str, float]]] = {
    "nginx": (
        lambda port: NginxMonitor(
            "s", {"admin": {"nginx": {"status_url": f"http://127.0.0.1:{port}/status", "connections_limit": 512}}}
        ),
        lambda piece: http(NGINX) if piece.startswith(b"GET /status HTTP/1.1\r\n") else None,
        {"connections_open": 3, "connections_limit": 512, "accepted_total": 17, "handled_total": 16,
         "unhandled_total": 1, "requests_total": 201, "reading": 1, "writing": 1, "waiting": 2},
    ),
    "memcached": (
        lambda port: MemcachedMonitor("s", {"admin": {"memcached": {"address": "127.0.0.1", "port": port}}}),
        lambda piece: MEMCACHED,
        {"connections_open": 2, "hits_total": 5, "used_bytes": 900},
    ),
    "redis": (
        lambda port: RedisMonitor("s", {"admin": {"redis": {"address": "127.0.0.1", "port": port}}}),
        lambda piece: b"$%d\r\n%s\r\n" % (len(REDIS), REDIS),
        {"connections_open": 3, "connections_limit": 100, "keys": 5},
    ),
    "truth": (
        lambda port: TruthMonitor("s", {"admin": {"truth": {"url": f"http://127.0.0.1:{port}"}}}),
        lambda piece: http(TRUTH),
        {"requests_total": 5, "hits_total": 2, "busy_seconds_total": 1.5, "late_seconds_total": 0,
         "link_held_seconds_total": 0.25, "in_service": 3, "body_out_bytes_total": 77},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MONITORS)
def test_a_server_is_read_over_one_connection(name: str) -> None:
    make, answer, wanted = MONITORS[name]
    with server(answer) as (port, connections):
        monitor = make(port)
        for _ in range(2):
            assert values(monitor) == wanted
        monitor.close()
    assert len(connections) == 1
    assert set(wanted) <= set(monitor.metrics)


@pytest.mark.parametrize(
    ("name", "expected", "match"),
    [
        ("memcached", None, "no stats"),
        ("redis", b"-NOAUTH Authentication required.\r\n", "no INFO"),
        ("redis", b"$-1\r\n", "no INFO"),
        ("redis", b"HTTP/1.1 400 Bad\r\n\r\n", "no INFO"),
        ("redis", None, "no INFO"),
    ],
)
def test_a_server_that_refuses_or_hangs_up_is_an_error(name: str, expected: bytes | None, match: str) -> None:
    with server(lambda piece: expected) as (port, _):
        monitor = MONITORS[name][0](port)
        with pytest.raises(ConnectionError, match=match):
            values(monitor)
        monitor.close()


def packets(*contents: bytes, first: int = 0) -> bytes:
    """Return packets of MySQL's protocol, numbered."""
    return b"".join(
        len(content).to_bytes(3, "little") + bytes([first + place]) + content
        for place, content in enumerate(contents)
    )


def rows(*of: tuple[str, str]) -> bytes:
    """Return a result of two columns."""
    end = b"\xfe\0\0\2\0"
    texts = [b"".join(bytes([len(text)]) + text.encode() for text in row) for row in of]
    return packets(b"\2", b"name", b"value", end, *texts, end, first=1)


@contextmanager
def mariadb(path: str, log_in: bytes, answers: list[bytes]) -> Iterator[list[bytes]]:
    """Act as a MariaDB: a greeting, an answer to the log-in and to each statement; yield what it got."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    got: list[bytes] = []

    def serve() -> None:
        line, _ = listener.accept()
        with line:
            line.sendall(packets(b"\x0a10.11.19-MariaDB\0"))
            for answer in (log_in, *answers):
                got.append(line.recv(1 << 16))
                line.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield got
    finally:
        thread.join(HANG_S)
        listener.close()
        os.unlink(path)


def test_mariadb(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    monitor = MariadbMonitor("db", {"admin": {"mariadb": {"socket": path, "user": "somebody"}}})
    refusal = packets(b"\xff\x10\x04Too many connections", first=2)
    with mariadb(path, refusal, []), pytest.raises(ConnectionError, match="Too many connections"):
        list(monitor.sample())
    assert monitor._line is None
    status = rows(("Threads_connected", "4"), ("Innodb_row_lock_time", "1500"), ("Of_a_later_version", "1"))
    with mariadb(path, packets(b"\0ok", first=2), [status, rows(("max_connections", "151"))]) as got:
        found = values(monitor)
    monitor.close()
    assert found == {"connections_open": 4, "row_lock_wait_seconds_total": 1.5, "connections_limit": 151}
    assert b"somebody\0" in got[0]
    assert got[1][4:].startswith(b"\x03SHOW GLOBAL STATUS")


def test_varnish_and_outputs_of_other_programs() -> None:
    found = readings_of(parse_counters(VARNISH))
    assert {r.metric: r.value for r in found} == {"threads": 200, "cache_hit_total": 4}
    assert parse_counters(VARNISH[len('{"version": 1, "counters": ') : -1]) == parse_counters(VARNISH)
    for text in ("", "[]", '{"counters": {"MAIN.threads": {}}}', "Could not get hold of varnishd"):
        with pytest.raises(OSError, match="not output of varnishstat"):
            parse_counters(text)
    with pytest.raises(OSError, match="not a stub_status"):
        parse_status("<html>404</html>")


def test_an_ended_kept_connection_is_opened_again_once() -> None:
    count = 0

    def answer(piece: bytes) -> bytes | None:
        nonlocal count
        count += 1
        return None if count == 2 else http(b'{"n": %d}' % count)

    with server(answer) as (port, connections):
        admin = AdminConnection(f"http://127.0.0.1:{port}/a/")
        assert admin.get_json("/x") == {"n": 1}
        assert admin.get_json("/x") == {"n": 3}
        admin.close()
    assert len(connections) == 2


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (http(b"no", "500 Oh"), r"^127\.0\.0\.1:\d+: /x answered 500$"),
        (http(b"no json"), "not JSON"),
        (http(b"[1]"), "not a JSON object"),
        (b"rubbish\r\n\r\n", "rubbish"),
        (None, "closed connection"),
    ],
)
def test_every_other_answer_is_an_oserror(answer: bytes | None, text: str) -> None:
    with server(lambda piece: answer) as (port, _):
        admin = AdminConnection(f"http://127.0.0.1:{port}")
        with pytest.raises(OSError, match=text):
            admin.get_json("/x")
        admin.close()

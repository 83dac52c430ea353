"""Slow, flooding or endless servers can't hold a reader beyond its deadline or its limit of bytes."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import tracemalloc
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import speaking

from svload.host.machine.bounded import BoundedSocket, body_of
from svload.lab import memcache, web
from svload.watch.http import AdminConnection
from svload.watch.monitor import Monitor
from svload.watch.monitors.beanstalkd import BeanstalkdMonitor
from svload.watch.monitors.memcached import MemcachedMonitor
from svload.watch.monitors.prometheus import parse_page
from svload.watch.monitors.redis import RedisMonitor
from svload.watch.sampler import Sampler

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def answering(first: bytes, then: bytes, pause_s: float) -> AbstractContextManager[int]:
    """Run a server that sends `first`, then `then` with pauses until its peer is gone; yield its port."""
    paused = threading.Event()

    def talk(line: socket.socket) -> None:
        line.recv(1 << 16)
        line.sendall(first)
        while not paused.wait(pause_s):
            line.sendall(then)

    return speaking(talk)


ENDED = "no whole answer within|timed out|longer than|LineTooLong|got more than|hung up|answered no"
HTTP_ANSWERS = {
    "a header that drips": (HEAD + b"X-A: ", b"a", 0.05),
    "100 Continue again and again": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "chunks of one byte": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", 0.02),
    "a body that drips": (HEAD + b"Content-Length: 1000\r\n\r\n", b"a", 0.05),
    "events with a heartbeat": (HEAD + b"\r\n", b": still here\n\n", 0.05),
    "a body that floods": (HEAD + b"\r\n", b"x" * (1 << 20), 0.0),
    "a head that floods": (HEAD, b"X-Long: " + b"y" * 60_000 + b"\r\n", 0.0),
    "nothing": (b"", b"", 0.05),
}


@pytest.mark.parametrize("kind", HTTP_ANSWERS)
def test_a_whole_exchange_has_one_deadline_and_a_limit(kind: str) -> None:
    with answering(*HTTP_ANSWERS[kind]) as port, pytest.raises(OSError, match=ENDED):
        web.call(f"http://127.0.0.1:{port}/ready", timeout_s=0.2)


@pytest.mark.parametrize("kind", [one for one in HTTP_ANSWERS if re.search("body|events|chunks", one)])
def test_a_status_does_not_wait_for_its_body(kind: str) -> None:
    with answering(*HTTP_ANSWERS[kind]) as port:
        assert web.status(f"http://127.0.0.1:{port}/ready", timeout_s=HANG_S) == 200


@pytest.mark.parametrize("kind", HTTP_ANSWERS)
def test_a_monitors_page_has_one_deadline_and_a_limit(kind: str) -> None:
    tracemalloc.start()
    try:
        with answering(*HTTP_ANSWERS[kind]) as port, pytest.raises(OSError, match=ENDED):
            AdminConnection(f"http://127.0.0.1:{port}/metrics").get()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


LINES: dict[str, tuple[type[Monitor], str, bytes, bytes, float]] = {
    "redis, a length and then drops": (RedisMonitor, "redis", b"$500\r\n", b"a", 0.05),
    "redis, a length that drips": (RedisMonitor, "redis", b"$", b"1", 0.05),
    "redis, more than it could say": (RedisMonitor, "redis", b"$99999999\r\n", b"a" * (1 << 20), 0.0),
    "memcached, lines without an end": (MemcachedMonitor, "memcached", b"", b"STAT pid 1\r\n", 0.02),
    "memcached, a flood": (MemcachedMonitor, "memcached", b"", b"STAT " + b"x" * (1 << 18), 0.0),
    "beanstalkd, a body that drips": (BeanstalkdMonitor, "beanstalkd", b"OK 900\r\n---\n", b"b", 0.05),
    "beanstalkd, a flood": (BeanstalkdMonitor, "beanstalkd", b"OK ", b"9" * (1 << 18), 0.0),
}


@pytest.mark.parametrize("kind", LINES)
def test_a_monitors_line_has_one_deadline_and_a_limit(kind: str) -> None:
    monitor, name, first, then, pause_s = LINES[kind]
    with answering(first, then, pause_s) as port:
        watching = monitor("it", {"admin": {name: {"address": "127.0.0.1", "port": port}}})
        with pytest.raises(OSError, match=ENDED):
            list(watching.sample())
        watching.close()


def test_an_error_of_memcached_ends_the_exchange() -> None:
    def refuse(line: socket.socket) -> None:
        line.recv(1 << 16)
        line.sendall(b"SERVER_ERROR out of memory storing object\r\n")
        line.recv(1)

    with speaking(refuse) as port, pytest.raises(OSError, match="out of memory storing object” to “set”"):
        memcache.flush("127.0.0.1", port)


def test_a_kept_line_has_a_deadline_for_each_exchange() -> None:
    """Three exchanges of 0.15 s each on one connection, on which each exchange may take 0.4 s."""
    with answering(b"", b"x", 0.15) as port, BoundedSocket(("127.0.0.1", port), HANG_S, 4) as line:
        for _ in range(3):
            line.renew()
            line.sendall(b"?")
            assert line.recv(1) == b"x"
        for _ in range(3):
            line.recv(1)
        line.renew()
        for _ in range(4):
            line.recv(1)
        with pytest.raises(ConnectionError, match="longer than 4 bytes"):
            line.recv(1)


def test_a_line_of_megabytes_is_left_out_of_a_page() -> None:
    for size, left_out in ((3_900_000, 1.0), (1, 0.0)):
        readings = {one.metric: one.value for one in parse_page(f'up 1\nlong{{le="{"x" * size}"}} 2\n')}
        assert readings == {"up": 1.0, "series_left_out": left_out} | ({} if left_out else {"long": 2.0})


def test_a_monitor_that_fails_loses_its_own_readings_alone(tmp_path: Path) -> None:
    with answering(*HTTP_ANSWERS["a header that drips"]) as port:
        sampler = Sampler()
        page = {"service": "it", "admin": {"prometheus": {"url": f"http://127.0.0.1:{port}/"}}}
        made = sampler.prepare([page], 1.0, tmp_path / "out.jsonl")
        sampler.close()
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    notes = [line for line in lines if "cannot be read" in line]
    assert "it.prometheus" in made["monitors"] and len(notes) == 1 and '"prometheus"' in notes[0]
    assert any('"monitor":"sampler"' in line.replace(" ", "") for line in lines)


BROKEN = {
    "a length beyond memory": b"Content-Length: 1000000000000\r\n\r\nx",
    "a length beyond numbers": b"Content-Length: 18446744073709551616\r\n\r\nx",
    "a chunk beyond numbers": b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nx",
    "a chunk below nothing": b"Transfer-Encoding: chunked\r\n\r\n-5\r\nx",
    "a body cut short": b"Content-Length: 9\r\n\r\nabc",
}


@pytest.mark.parametrize("head", BROKEN.values(), ids=BROKEN)
def test_what_an_answer_says_of_its_length_allocates_nothing(head: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(OSError, match="body"):
            body_of(_answered(b"HTTP/1.1 200 OK\r\n" + head))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


@pytest.mark.parametrize("head", [b"Content-Length: 3\r\n\r\nabc", CHUNKED, b"\r\nabc"])
def test_a_whole_body_is_read(head: bytes) -> None:
    assert body_of(_answered(b"HTTP/1.1 200 OK\r\n" + head)) == b"abc"


def _answered(data: bytes) -> http.client.HTTPResponse:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(ours)
        answer.begin()
    return answer

"""Readiness pages and whatever monitors read from servers: any response, whole, cut, altered, endless or
byte by byte."""

from __future__ import annotations

import resource
import socket
import struct
import threading
import time
from pathlib import Path
from random import Random

from tests.servers import speaking

from svload.lab import web
from svload.watch.monitor import Monitor
from svload.watch.monitors.beanstalkd import BeanstalkdMonitor
from svload.watch.monitors.memcached import MemcachedMonitor
from svload.watch.monitors.nginx import NginxMonitor
from svload.watch.monitors.prometheus import PrometheusMonitor
from svload.watch.monitors.redis import RedisMonitor
from svload.watch.monitors.truth import TruthMonitor

from .answers import MORE, pieces, struck
from .oracle import Case, has_waited

READY_S = 0.3
MEMORY_BYTES = 1 << 30
BODIES = (
    b"# TYPE a counter\na{b=\"c\"} 1\nd 2 3\ne NaN\n", b"a" * 100_000 + b"\n", b'{"requests": 1, "x": [', b"{" * 5_000, b"[]", b"null", b'{"requests": {"ok": "no"}}',
    b"Active connections: 2 \nserver accepts handled requests\n 1 2 3 \nReading: 0 Writing: 1 Waiting: 1 \n",
    b"Active connections: " + b"9" * 5_000, b"a 1e999\nb -1e-999\nc 0x10\n", b"\xff\xfe\x00", b"",
)  # fmt: skip
GOOD = {
    "prometheus": BODIES[0],
    "nginx": BODIES[7],
    "truth": b'{"answered": 1, "bytes": 2.5}',
    "redis": b"$19\r\nconnected_clients:1\r\n",
    "memcached": b"STAT pid 1\r\nSTAT curr_connections 2\r\nSTAT cmd_get 3\r\nEND\r\n",
    "beanstalkd": b"OK 27\r\n---\ncurrent-jobs-ready: 12\n\r\n",
}
REDIS = (
    b"# Clients\r\nconnected_clients:1\r\nused_memory:x\r\n",
    b"a:" + b"9" * 400 + b"\r\n",
    b":\r\n:::\r\n",
    b"keyspace_hits:-1\r\n",
)
WORDS = (
    b"+OK\r\n", b"-ERR no\r\n", b"$-1\r\n", b"$9999999999\r\nx", b"*3\r\n$1\r\na\r\n", b":9\r\n", b"$5\r\nab\r\n", b"END\r\n", b"ERROR\r\n", b"STAT pid 1\r\nSTAT curr_connections 2\r\nEND\r\n",
    b"STAT a\r\n", b"STAT " + b"x" * 9_000 + b" 1\r\n", b"OK 30\r\n---\ncurrent-jobs-ready: 1\n\r\n", b"OK -1\r\n", b"OK 99999999\r\n---\n", b"UNKNOWN_COMMAND\r\n",
)  # fmt: skip
_HTTP: dict[str, tuple[type[Monitor], str]] = {
    "prometheus": (PrometheusMonitor, "url"),
    "nginx": (NginxMonitor, "status_url"),
    "truth": (TruthMonitor, "url"),
}
"""Each monitor with the word for its page."""
_LINES: dict[str, type[Monitor]] = {
    "redis": RedisMonitor,
    "memcached": MemcachedMonitor,
    "beanstalkd": BeanstalkdMonitor,
}


def one(draw: Random, folder: Path) -> Case:
    """Read a server that answers anything once: it ends within its deadline with readings or an OSError."""
    kind = draw.choice(("status", "call", "call_json", *_HTTP, *_LINES))
    answer = _lines(draw, kind) if kind in _LINES else _page(draw, kind)
    way = draw.choice(("end", "end", "reset", "stall", "drip", "flood"))
    seed = draw.randrange(1 << 30)
    with speaking(lambda peer: _speak(peer, answer, way, seed)) as port:
        begun, cpu = time.monotonic(), time.process_time()
        try:
            ended = _read(kind, port)
        except OSError:
            ended = "refused"
        except Exception as why:
            return Case("failed", f"{kind}: {type(why).__name__}: {why}\n{way} {answer!r:.2000}")
        waited, used = time.monotonic() - begun, time.process_time() - cpu
    wrong = _wrong(waited, used)
    return Case(f"{kind} {ended}", wrong and f"{kind}: {wrong}\n{way} {answer!r:.2000}")


def _wrong(waited_s: float, cpu_s: float) -> str:
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if held > MEMORY_BYTES:
        return f"this process has held {held >> 20} MiB"
    return has_waited(waited_s, cpu_s)


def _read(kind: str, port: int) -> str:
    url = f"http://127.0.0.1:{port}/ready"
    if kind == "status":
        return str(web.status(url, READY_S) // 100)
    if kind == "call":
        return str(web.call(url, timeout_s=READY_S)[0] // 100)
    if kind == "call_json":
        web.call_json(url, timeout_s=READY_S)
        return "read"
    made, *page = _HTTP.get(kind) or (_LINES[kind],)
    where = {page[0]: f"http://127.0.0.1:{port}/m"} if page else {"address": "127.0.0.1", "port": port}
    monitor = made("s", {"admin": {kind: where}})
    try:
        for _ in range(2):
            list(monitor.sample())
    finally:
        monitor.close()
    return "read"


def _page(draw: Random, kind: str) -> bytes:
    if draw.random() < 0.3:
        return b"".join(draw.choice((*pieces(), *MORE)) for _ in range(draw.choice((1, 2, 3))))
    body = struck(GOOD[kind] if kind in GOOD and draw.random() < 0.5 else draw.choice(BODIES), draw)
    length = draw.choice((len(body), len(body), len(body), 10**12, -1, 0))
    status = draw.choice((b"200 OK", b"200 OK", b"204 No", b"301 Go\r\nLocation: /", b"503 Busy"))
    head = b"HTTP/1.1 " + status + b"\r\nContent-Length: " + str(length).encode() + b"\r\n\r\n"
    return struck(head, draw) + body if draw.random() < 0.2 else head + body


def _lines(draw: Random, kind: str) -> bytes:
    if draw.random() < 0.4:
        return struck(GOOD[kind], draw)
    if draw.random() < 0.4:
        body = struck(draw.choice(REDIS), draw)
        return b"$" + str(len(body)).encode() + b"\r\n" + body + b"\r\n"
    return b"".join(struck(draw.choice(WORDS), draw) for _ in range(draw.choice((1, 2, 4))))


def _speak(peer: socket.socket, answer: bytes, way: str, seed: int) -> None:
    draw = Random(seed)
    peer.settimeout(1.0)
    peer.recv(65_536)
    if way == "drip":
        _drip(peer, answer)
        return
    peer.sendall(answer)
    while way == "flood":
        peer.sendall(answer[-1000:] * 50 or b"x" * 50_000)
    while peer.recv(65_536):
        if draw.random() < 0.8:
            peer.sendall(answer)
    if way == "reset":
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _drip(peer: socket.socket, answer: bytes) -> None:
    """Send a byte at a time until the reader has gone."""
    gone = threading.Event()
    for place in range(len(answer)):
        peer.sendall(answer[place : place + 1])
        gone.wait(0.05)

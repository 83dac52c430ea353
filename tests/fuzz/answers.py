"""Responses of servers: pieces of the hostile tables combined, cut or with flipped bytes, in arbitrary
segments; the same for HTTP/2 frames."""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
import time
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.servers import speaking

from svload import _native
from svload.model.request_errors import ERRORS

from .oracle import Case, has_waited

TABLE = Path(__file__).parents[2] / "engine" / "engine" / "tests" / "hostile" / "http.rs"
OK = "HTTP/1.1 200 OK\r\n"
CHUNKED = f"{OK}Transfer-Encoding: chunked\r\n\r\n"
MS = 1_000_000
MORE = (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"\r\n", b"\r\n\r\n", b": ", b"\0", b"\xff" * 9, b"x" * 70_000, b"HTTP/1.1 100 Continue\r\n\r\n")  # fmt: skip
LOCATIONS = ("/", "//", "http://", "https://localhost/", "http://localhost:{port}/", "http://127.0.0.1:{port}/a b", "http://[::1]:{port}/", "\\", "?", "#", "ftp://x", "http://192.0.2.1/", "http://a@b/", "x" * 9_000, "http://localhost:0/", "http://127.0.0.1:99999/")  # fmt: skip


@cache
def pieces() -> tuple[bytes, ...]:
    """Return all texts of the hostile table that are sent over the wire."""
    found = []
    for text in re.findall(r'b?"((?:[^"\\]|\\.)*)"', TABLE.read_text(encoding="utf-8")):
        if "\\r\\n" in text or text.startswith("HTTP"):
            plain = text.replace("{OK}", OK).replace("{CHUNKED}", CHUNKED)
            found.append(plain.encode().decode("unicode_escape").encode("latin-1"))
    assert len(found) > 40
    return tuple(found)


def one(draw: Random, folder: Path) -> Case:
    """Run a load of four requests against one server that answers anything."""
    http2 = draw.random() < 0.35
    turns, answers, ways = itertools.count(), list[bytes](), list[tuple[str, int]]()

    def talk(peer: socket.socket) -> None:
        """Give each connection the next answer, in segments."""
        at = next(turns) % len(answers)
        _speak(peer, answers[at], *ways[at])

    with speaking(talk) as port:
        answers += [_frames(draw) if http2 else _answer(draw, port) for _ in range(draw.choice((1, 2, 4)))]
        ways += [(draw.choice(("end", "end", "reset", "stall")), draw.randrange(1 << 30)) for _ in answers]
        share = _share(draw, port, http2)
        begun, cpu = time.monotonic(), time.process_time()
        try:
            tables = _native.run_share(json.dumps(share), {}, lambda text: None)
        except Exception as why:
            return Case("failed", f"{type(why).__name__}: {why}\n{answers!r:.2000}")
        late = has_waited(time.monotonic() - begun, time.process_time() - cpu)
    group = json.loads(tables["summary"]["json"][1][0])["groups"][0]
    wrong = _broken(group) or late
    shown = f"{wrong}\n{json.dumps(share)[:1500]}\n{answers!r:.3000}"
    return Case(next(iter(group["errors"]), "ok"), wrong and shown)


def _broken(group: dict[str, Any]) -> str:
    """Return the broken identities of those that a load keeps whatever its server does (docs/method.md
    §1)."""
    if group["begun"] != group["ok"] + group["failed"] + group["in_flight"]:
        return f"begun is not ok + failed + in flight: {group}"
    if group["due"] != group["begun"] + group["dropped"] + group["waiting"]:
        return f"due is not begun + dropped + waiting: {group}"
    if sum(group["errors"].values()) != group["failed"] or set(group["errors"]) - set(ERRORS):
        return f"errors do not add up: {group}"
    return ""


def _share(draw: Random, port: int, http2: bool) -> dict[str, Any]:
    request: dict[str, Any] = {
        "name": "get", "method": draw.choice(("GET", "GET", "HEAD", "PUT")), "endpoint": "http://x.test",
        "path": [{"text": "/"}], "timeout_ns": 250 * MS,
    }  # fmt: skip
    if request["method"] == "PUT":
        request["body"] = draw.choice(({"text": [{"text": "abc"}]}, {"random": {"bytes": 100_000}}))
    if draw.random() < 0.3:
        request["checks"] = [{"name": "c", "body": {"matches": "x+"}}, {"name": "d", "digest": "md5", "equals": [{"text": "0" * 32}]}]  # fmt: skip
    if draw.random() < 0.2:
        request["take"] = [{"name": "v", "json": "a[0].b"}]
    group: dict[str, Any] = {
        "name": "load", "client": draw.choice(("engine", "curl")), "connection": draw.choice(("keep-alive", "new")),
        "record": "rows", "start_offset_ns": 0, "stop_offset_ns": 2_000 * MS, "graceful_stop_ns": 1_000 * MS,
        "follow_redirects": draw.choice((0, 3)), "request": request,
        "executor": {"kind": "constant-vus", "vus": 2, "limit": 4},
    }  # fmt: skip
    if http2:
        group |= {"http2": {"streams": 1 if group["connection"] == "new" else 2, "fallback": False}}
    return {
        "format": 1, "id": "fuzz", "seed": 1, "start_at_ns": 0, "interval_ns": 10 * MS, "window_ns": [0, 1_000 * MS],
        "endpoints": {"http://x.test": {"address": f"127.0.0.1:{port}", "tls": None}}, "allowed": ["127.0.0.0/8"],
        "groups": [group],
    }  # fmt: skip


def _speak(peer: socket.socket, answer: bytes, way: str, seed: int) -> None:
    draw = Random(seed)
    peer.settimeout(1.0)
    peer.recv(65_536)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while answer:
        size = draw.choice((1, 3, 17, 500, 1 << 20))
        peer.sendall(answer[:size])
        answer = answer[size:]
        if draw.random() < 0.1:
            peer.recv(65_536)
    if way == "reset":
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif way == "stall":
        while peer.recv(65_536):
            pass


def _answer(draw: Random, port: int) -> bytes:
    """Return one to four pieces, each whole, cut or with flipped bytes."""
    found = b""
    for _ in range(draw.choice((1, 1, 2, 3, 4))):
        piece = draw.choice((*pieces(), *MORE))
        if draw.random() < 0.15:
            location = draw.choice(LOCATIONS).replace("{port}", str(port))
            status = draw.choice((301, 303, 307))
            piece = f"HTTP/1.1 {status} Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
        found += struck(piece, draw)
    return found


def struck(piece: bytes, draw: Random) -> bytes:
    """Return the piece cut, with one byte changed, or repeated many times."""
    match draw.choice(("whole", "whole", "whole", "cut", "flip", "again")):
        case "cut":
            return piece[: draw.randrange(len(piece) + 1)]
        case "flip" if piece:
            flipped = bytearray(piece)
            flipped[draw.randrange(len(flipped))] = draw.randrange(256)
            return bytes(flipped)
        case "again":
            return piece * draw.choice((2, 50))
    return piece


HEADS = (b"\x88", b"\x88\x5c\x011", b"\x48\x03200", b"\x8d", b"\x82", b"\xff\xff\xff\xff", b"\x3f\xe1\xff\x03", b"\x00\x01X\x01y", b"\x88\x00\x0aconnection\x05close", b"\x00\x07:status\x03200", b"\x88\x00\x0econtent-length\x03two", b"")  # fmt: skip


def _frames(draw: Random) -> bytes:
    found = _frame(4, 0, 0, b"") if draw.random() < 0.9 else b""
    if draw.random() < 0.5:
        found += _frame(4, 1, 0, b"")
    for _ in range(draw.choice((1, 2, 4, 9))):
        kind = draw.choice((0, 1, 1, 1, 3, 4, 5, 6, 7, 8, 9, draw.randrange(256)))
        stream = draw.choice((0, 1, 1, 1, 3, 5, 2, 2**31 - 1))
        flags = draw.choice((0, 1, 4, 5, 5, 8, 0x20, 0xFF))
        payload = (
            draw.choice(HEADS) if kind in (1, 9) else draw.randbytes(draw.choice((0, 1, 4, 5, 6, 8, 9, 200)))
        )
        frame = _frame(kind, flags, stream, payload)
        found += struck(frame, draw) if draw.random() < 0.3 else frame
    return found


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

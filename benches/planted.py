"""A server of known cost: `planted.py burn|sleep|cache|disk|uvicorn COST --port PORT`.

A server that burns answers one request at a time, and each costs its thread this much CPU, including reading
and writing. One that sleeps has a pool of four. A cache sleeps for the cost, and every two seconds first for
forty times as long, one request at a time. One with a disk writes as many bytes. `uvicorn` answers at once.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

POOLS = {"burn": 1, "sleep": 4, "cache": 1, "disk": 4, "uvicorn": 0}
TTL_S, MISS = 2.0, 40


class Planted(BaseHTTPRequestHandler):
    """One connection, in a thread of its own."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    kind = "burn"
    cost = 0.0
    pool = threading.Semaphore()
    expires_s = 0.0
    file = -1

    def setup(self) -> None:
        super().setup()
        self._spent_s = time.thread_time()

    def do_GET(self) -> None:
        """Answer /health immediately, everything else after the service time."""
        if self.path != "/health":
            with self.pool:
                if self.kind == "cache" and time.monotonic() > Planted.expires_s:
                    time.sleep(MISS * self.cost)
                    Planted.expires_s = time.monotonic() + TTL_S
                if self.kind in ("sleep", "cache"):
                    time.sleep(self.cost)
                if self.kind == "disk":
                    os.pwrite(self.file, bytes(int(self.cost)), 0)
                    os.fdatasync(self.file)
                while self.kind == "burn" and time.thread_time() < self._spent_s + self.cost:
                    pass
        self._spent_s = time.thread_time()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


async def answer_at_once(scope: dict[str, object], receive: object, send: Callable[..., Any]) -> None:
    """Answer as an ASGI application."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


def main() -> None:
    """Serve until the process is ended."""
    words = argparse.ArgumentParser()
    words.add_argument("kind", choices=POOLS)
    words.add_argument("cost", type=float)
    words.add_argument("--port", type=int, required=True)
    given = words.parse_args()
    if given.kind == "uvicorn":
        import uvicorn

        return uvicorn.run(answer_at_once, port=given.port, lifespan="off", log_level="warning")
    Planted.kind, Planted.cost = given.kind, given.cost
    if given.kind == "disk":
        Planted.file = os.open(".", os.O_TMPFILE | os.O_WRONLY)
    Planted.pool = threading.Semaphore(POOLS[given.kind])
    ThreadingHTTPServer(("127.0.0.1", given.port), Planted).serve_forever()


if __name__ == "__main__":
    main()

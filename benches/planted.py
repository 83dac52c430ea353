"""A server of known service time: `planted.py burn|sleep SECONDS --port PORT`.

A server that burns answers one request at a time, and each costs its thread this much CPU, including reading
and writing. One that sleeps has a pool of four.
"""

from __future__ import annotations

import argparse
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

POOLS = {"burn": 1, "sleep": 4}


class Planted(BaseHTTPRequestHandler):
    """One connection, in a thread of its own."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    kind = "burn"
    seconds = 0.0
    pool = threading.Semaphore()

    def setup(self) -> None:
        super().setup()
        self._spent_s = time.thread_time()

    def do_GET(self) -> None:
        """Answer /health immediately, everything else after the service time."""
        if self.path != "/health":
            with self.pool:
                if self.kind == "sleep":
                    time.sleep(self.seconds)
                while self.kind == "burn" and time.thread_time() < self._spent_s + self.seconds:
                    pass
        self._spent_s = time.thread_time()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


def main() -> None:
    """Serve until the process is ended."""
    words = argparse.ArgumentParser()
    words.add_argument("kind", choices=POOLS)
    words.add_argument("seconds", type=float)
    words.add_argument("--port", type=int, required=True)
    given = words.parse_args()
    Planted.kind, Planted.seconds = given.kind, given.seconds
    Planted.pool = threading.Semaphore(POOLS[given.kind])
    ThreadingHTTPServer(("127.0.0.1", given.port), Planted).serve_forever()


if __name__ == "__main__":
    main()

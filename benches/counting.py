"""A server that writes down every request: `python -m benches.counting PORT FILE`.

A line each as it comes, "CLOCK_MONOTONIC-ns path"; the answer is an empty 204. It prints its port once it listens.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
END = b"\r\n\r\n"


class Counting(asyncio.Protocol):
    """One connection; requests have no body."""

    def __init__(self, log: int) -> None:
        self._log, self._had = log, b""
        self._out: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._out = transport

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        *heads, self._had = (self._had + data).split(END)
        assert self._out is not None
        for head in heads:
            os.write(self._log, b"%d %s\n" % (now, head.split(b" ", 2)[1]))
            self._out.write(ANSWER)


async def serve(port: int, log: int) -> None:
    """Until it is killed."""
    server = await asyncio.get_running_loop().create_server(lambda: Counting(log), "", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main(words: list[str]) -> int:
    """Serve."""
    log = os.open(words[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    asyncio.run(serve(int(words[0]), log))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

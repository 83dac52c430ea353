"""Requests to a server over TCP with one deadline for the whole exchange and a limit on the answer's size.

A socket's timeout restarts with each byte: a server that sends one now and then would block its reader for
ever, and one that never stops would fill the memory. Only the standard library: samplers and kits use it.
"""

from __future__ import annotations

import http.client
import socket
import time
from typing import Any


class BoundedSocket(socket.socket):
    """A connection over TCP, or to a Unix socket's path, with a deadline and a limit of bytes for each
    exchange, which starts with `renew`.

    After the deadline reads and writes raise TimeoutError, beyond the limit ConnectionError; both are
    OSError.
    """

    def __init__(self, address: tuple[str, int] | str, within_s: float, most_bytes: int) -> None:
        tcp = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(socket.AF_UNIX if isinstance(address, str) else tcp, socket.SOCK_STREAM)
        self._within_s, self._most_bytes = within_s, most_bytes
        self.renew()
        try:
            self._set_remaining()
            self.connect(address)
        except BaseException:
            self.close()
            raise

    def renew(self) -> None:
        """Start another exchange on the same connection."""
        self._deadline = time.monotonic() + self._within_s
        self._left = self._most_bytes

    def _set_remaining(self) -> None:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError(f"no whole answer within {self._within_s:g} s")
        self.settimeout(remaining)

    def _count(self, read: int) -> None:
        self._left -= read
        if self._left < 0:
            raise ConnectionError(f"the answer is longer than {self._most_bytes:,} bytes")

    def recv(self, *args: Any) -> bytes:
        """Read within the remaining time and bytes."""
        self._set_remaining()
        piece = super().recv(*args)
        self._count(len(piece))
        return piece

    def recv_into(self, *args: Any) -> int:
        """Read within the remaining time and bytes (used by `makefile`)."""
        self._set_remaining()
        read = super().recv_into(*args)
        self._count(read)
        return read

    def sendall(self, *args: Any) -> None:
        """Write everything by the deadline."""
        self._set_remaining()
        super().sendall(*args)


_PIECE_BYTES = 1 << 16


def body_of(answer: http.client.HTTPResponse) -> bytes:
    """Return the whole body, read in pieces, so that a false Content-Length allocates nothing. Raises OSError
    if it is truncated or violates HTTP's grammar."""
    pieces = []
    try:
        while piece := answer.read(_PIECE_BYTES):
            pieces.append(piece)
    except (http.client.HTTPException, ValueError, OverflowError) as why:
        raise OSError(f"a broken body ({type(why).__name__}: {why})") from why
    if answer.length:
        raise OSError(f"the body is {answer.length:,} bytes shorter than its Content-Length")
    return b"".join(pieces)


class BoundedHTTP(http.client.HTTPConnection):
    """HTTP/1.1 over a `BoundedSocket`: each request is a separate exchange."""

    def __init__(self, host: str, port: int, within_s: float, most_bytes: int) -> None:
        super().__init__(host, port)
        self._bounds = within_s, most_bytes

    def connect(self) -> None:
        """Connect within the exchange's time. Raises OSError."""
        self.sock = BoundedSocket((self.host, self.port), *self._bounds)

    def request(self, *args: Any, **words: Any) -> None:
        """Send a request; its complete answer must arrive within the time that starts now. Raises OSError."""
        if isinstance(self.sock, BoundedSocket):
            self.sock.renew()
        super().request(*args, **words)

"""Ask a server over TCP with one deadline for the whole exchange and a limit on what it may answer.

A socket's own time-out begins again with each byte: a server that sends one now and then holds its reader for ever,
and one that never stops fills the memory. Only the standard library: samplers and kits use it.
"""

from __future__ import annotations

import http.client
import socket
import time
from typing import Any


class BoundedSocket(socket.socket):
    """A connection over TCP, or by a Unix socket's path, whose every exchange, from `renew` on, ends by its deadline and within its bytes.

    Beyond the deadline reads and writes raise TimeoutError, beyond the bytes ConnectionError; both are OSError.
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
        """Begin another exchange on the same connection."""
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
        """Read on, within what is left."""
        self._set_remaining()
        piece = super().recv(*args)
        self._count(len(piece))
        return piece

    def recv_into(self, *args: Any) -> int:
        """Read on, within what is left (what `makefile` uses)."""
        self._set_remaining()
        read = super().recv_into(*args)
        self._count(read)
        return read

    def sendall(self, *args: Any) -> None:
        """Write all of it by the deadline."""
        self._set_remaining()
        super().sendall(*args)


_PIECE_BYTES = 1 << 16


def body_of(answer: http.client.HTTPResponse) -> bytes:
    """The whole body, read piece by piece: what an answer says of its length allocates nothing. Raises OSError for
    one that is cut or breaks HTTP's grammar."""
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
    """HTTP/1.1 over a `BoundedSocket`: each request is an exchange of its own."""

    def __init__(self, host: str, port: int, within_s: float, most_bytes: int) -> None:
        super().__init__(host, port)
        self._bounds = within_s, most_bytes

    def connect(self) -> None:
        """Connect within the time of the exchange. Raises OSError."""
        self.sock = BoundedSocket((self.host, self.port), *self._bounds)

    def request(self, *args: Any, **words: Any) -> None:
        """Send a request; its answer must be whole by the deadline that starts now. Raises OSError."""
        if isinstance(self.sock, BoundedSocket):
            self.sock.renew()
        super().request(*args, **words)

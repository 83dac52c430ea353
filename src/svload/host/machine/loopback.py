"""Which loopback address `localhost` is: two have that name, and many a server listens at one of them."""

from __future__ import annotations

import socket

_WITHIN_S = 1.0


def localhost(port: int) -> str:
    """127.0.0.1, or ::1 where only that accepts connections at `port`: one address for a whole run. Nobody is
    asked for the name (RFC 6761 §6.3)."""
    return "::1" if not _accepts("127.0.0.1", port) and _accepts("::1", port) else "127.0.0.1"


def _accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=_WITHIN_S).close()
    except OSError:
        return False
    return True

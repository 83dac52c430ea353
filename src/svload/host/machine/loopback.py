"""Which loopback address `localhost` is: two have that name, and many a server listens at one of them."""

from __future__ import annotations

import socket

_WITHIN_S = 1.0
LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
"""Names whose meaning is known here: a name server could give any address for them, and it would be loaded."""


def address_of(host: str, port: int) -> str:
    """The address of a name of loopback, without asking anybody; any other host as it is."""
    if host not in LOOPBACK_NAMES:
        return host
    return "::1" if host.startswith("ip6-") else localhost(port)


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

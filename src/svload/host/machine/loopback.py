"""The loopback address of `localhost`: it may be one of two, and many servers listen on only one of them."""

from __future__ import annotations

import socket

_WITHIN_S = 1.0
LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
"""Names that are never resolved: a name server could return any address, which would be loaded."""


def address_of(host: str, port: int) -> str:
    """Return the address of a loopback name without resolving it; any other host unchanged."""
    if host not in LOOPBACK_NAMES:
        return host
    return "::1" if host.startswith("ip6-") else localhost(port)


def localhost(port: int) -> str:
    """Return 127.0.0.1, or ::1 if only that accepts connections on `port`: one address for a whole run. The
    name is not resolved (RFC 6761 §6.3)."""
    return "::1" if not accepts("127.0.0.1", port) and accepts("::1", port) else "127.0.0.1"


def accepts(address: str, port: int) -> bool:
    """Return whether a connection is accepted there within a second."""
    try:
        socket.create_connection((address, port), timeout=_WITHIN_S).close()
    except OSError:
        return False
    return True

"""What the kernel holds for a listening socket."""

from __future__ import annotations

import socket

from svload.host.machine.sock_diag import TCP_LISTEN, tcp_sockets

_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}


def backlog_of(address: str, port: int) -> int | None:
    """The smallest accept-queue limit of the TCP listeners on `port` (the kernel's
    sk_max_ack_backlog); None if there is none.

    A listener on every address counts too. The value is min(what the server asked at listen(), net.core.somaxconn).
    """
    return min(
        (
            one.write_queue
            for family, any_address in _ANY.items()
            for one in tcp_sockets(family, TCP_LISTEN)
            if one.port == port and one.address in (address, any_address)
        ),
        default=None,
    )

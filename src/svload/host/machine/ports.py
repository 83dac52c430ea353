"""The ports for outgoing connections, how long each rests, and how many connections a second they allow."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

_SETTINGS = Path("/proc/sys/net/ipv4")
TIME_WAIT_S = 60.0
"""How long the kernel reserves a closed connection's port (TCP_TIMEWAIT_LEN, fixed in the kernel)."""
REUSED_AFTER_S = 1.0
"""After this time tcp_tw_reuse lets a new connection use it, told apart by timestamps (RFC 6191)."""
_ALWAYS, _ON_LOOPBACK = "1", "2"


def local_ports(settings: Path = _SETTINGS) -> range:
    """Return the ports that connections may use (ip_local_port_range)."""
    low, high = (settings / "ip_local_port_range").read_text().split()
    return range(int(low), int(high) + 1)


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Return different ports that nothing on this machine currently listens on."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((address, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def port_reuse_s(loopback: bool, settings: Path = _SETTINGS) -> float:
    """Return how long a port rests after a connection that this side closed first (tcp_tw_reuse)."""
    reuse = (settings / "tcp_tw_reuse").read_text().strip()
    return REUSED_AFTER_S if reuse == _ALWAYS or (reuse == _ON_LOOPBACK and loopback) else TIME_WAIT_S


def most_new_connections(seconds: float, loopback: bool, settings: Path = _SETTINGS) -> float:
    """Return how many connections a second can go to one port for `seconds`, if this side closes first."""
    return len(local_ports(settings)) / min(port_reuse_s(loopback, settings), seconds)

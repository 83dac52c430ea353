"""The ports that the kernel gives to outgoing connections, how long one rests, and how many new
connections a second they carry."""

from __future__ import annotations

import socket
from pathlib import Path

_SETTINGS = Path("/proc/sys/net/ipv4")
TIME_WAIT_S = 60.0
"""How long the kernel keeps a closed connection's port (TCP_TIMEWAIT_LEN, fixed in the kernel)."""
REUSED_AFTER_S = 1.0
"""From when tcp_tw_reuse lets a new connection take it, since its timestamps tell the two apart (RFC 6191)."""
_ALWAYS, _ON_LOOPBACK = "1", "2"


def local_ports(settings: Path = _SETTINGS) -> range:
    """The ports that connections may use (ip_local_port_range)."""
    low, high = (settings / "ip_local_port_range").read_text().split()
    return range(int(low), int(high) + 1)


def free_port(address: str = "127.0.0.1") -> int:
    """A port that nothing of this machine listens on now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def port_reuse_s(loopback: bool, settings: Path = _SETTINGS) -> float:
    """How long a port rests after a connection that this side closed first (tcp_tw_reuse)."""
    reuse = (settings / "tcp_tw_reuse").read_text().strip()
    return REUSED_AFTER_S if reuse == _ALWAYS or (reuse == _ON_LOOPBACK and loopback) else TIME_WAIT_S


def most_new_connections(seconds: float, loopback: bool, settings: Path = _SETTINGS) -> float:
    """Connections a second that can be opened for `seconds` to one address and port, where this side closes first."""
    return len(local_ports(settings)) / min(port_reuse_s(loopback, settings), seconds)

"""How many new connections a second one source address can open to one target before its local ports run out."""

from __future__ import annotations

from pathlib import Path

_SETTINGS = Path("/proc/sys/net/ipv4")
TIME_WAIT_S = 60.0
"""How long the kernel keeps a closed connection's port (TCP_TIMEWAIT_LEN)."""
REUSED_AFTER_S = 1.0
"""From when tcp_tw_reuse lets a new connection take it, since its timestamps tell the two apart (RFC 6191)."""
_ALWAYS, _ON_LOOPBACK = "1", "2"


def local_ports(settings: Path = _SETTINGS) -> int:
    """How many ports connections may use (ip_local_port_range)."""
    low, high = (settings / "ip_local_port_range").read_text().split()
    return int(high) - int(low) + 1


def most_new_connections(seconds: float, loopback: bool, settings: Path = _SETTINGS) -> float:
    """Connections a second that can be opened for `seconds` to one address and port, where this side closes first."""
    reuse = (settings / "tcp_tw_reuse").read_text().strip()
    held_s = REUSED_AFTER_S if reuse == _ALWAYS or (reuse == _ON_LOOPBACK and loopback) else TIME_WAIT_S
    return local_ports(settings) / min(held_s, seconds)

"""A service's connections: what it has not read yet, and what its clients have not received."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.host.machine.sock_diag import Socket, buffers
from svload.model.declared import Limit
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors.listeners import ListenersMonitor, SocketTable, ports_of

FULL = 0.9
"""Share of its size from which a buffer counts as full: the kernel accounts for more than the payload."""


class SocketsMonitor(Monitor):
    """One entity for each port of the service, with only the service's ends of the connections."""

    name = "sockets"
    summary = "buffers of a service's open connections, by sock_diag"
    metrics: ClassVar[Mapping[str, str]] = {
        "established": "number of open connections of the port",
        "unread_bytes": "bytes received that the service has not read yet",
        "unsent_bytes": "bytes written that the clients have not acknowledged yet",
        "receive_buffers_full": "number of connections whose receive buffer is full: the service reads too slowly",
        "send_buffers_full": "number of connections whose send buffer is full: the client or the link takes too slowly",
    }
    limits = (
        Limit(
            "full receive buffers", "network", "receive_buffers_full", "established", at=0.5, verdict=False
        ),
        Limit("full send buffers", "network", "send_buffers_full", "established", at=0.5, verdict=False),
    )
    interval_s = 2.0
    cpu_share = 0.002
    table: ClassVar[SocketTable[Socket]] = ListenersMonitor.table
    connections: ClassVar[SocketTable[bytes]] = ListenersMonitor.connections

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return bool(facts and ports_of(facts))

    def sample(self) -> Iterable[Reading]:
        """Read all open connections, shared with other services. Raise ConnectionError if nothing listens."""
        ports = ports_of(self.facts)
        if not any(one.port in ports for one in self.table.of(self.facts)):
            raise ConnectionError(f"nothing listens for {self.service}")
        readings: list[Reading] = []
        for port, ends in sorted(buffers(ports, self.connections.of(self.facts)).items()):
            sums = {
                "established": len(ends),
                "unread_bytes": sum(end.unread_bytes for end in ends),
                "unsent_bytes": sum(end.unsent_bytes for end in ends),
                "receive_buffers_full": sum(end.receive_share >= FULL for end in ends),
                "send_buffers_full": sum(end.send_share >= FULL for end in ends),
            }
            readings += [Reading(str(port), metric, value) for metric, value in sums.items()]
        return readings

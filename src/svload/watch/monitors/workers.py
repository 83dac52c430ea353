"""How a server's connections are spread over workers that share a port (SO_REUSEPORT):
the kernel deals them by hash."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.host.machine.linux import descriptors
from svload.host.machine.sock_diag import TCP_ESTABLISHED, TCP_LISTEN, Socket, tcp_sockets
from svload.watch import proc
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors.listeners import networks_of, within
from svload.watch.monitors.process import ProcessMonitor

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class WorkersMonitor(Monitor):
    """The empty entity for the ports; each worker by its pid, only where a port has more than one listening socket."""

    name = "workers"
    summary = "connections of each worker of a server whose workers share a port"
    metrics: ClassVar[Mapping[str, str]] = {
        "listeners": "number of listening sockets on the port that has most",
        "connections": "number of open connections of a worker",
    }
    interval_s = 2.0
    table: ClassVar[proc.ProcessTable] = ProcessMonitor.table

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services with processes and endpoints."""
        return bool(facts and facts.get("processes") and facts.get("endpoints"))

    def sample(self) -> Iterable[Reading]:
        """Raises ConnectionError when nothing listens on its ports."""
        ports = {int(end["port"]) for end in self.facts["endpoints"]}
        listening = self._on(ports, TCP_LISTEN)
        if not listening:
            raise ConnectionError(f"nothing listens for {self.service}")
        by_port = Counter((one.family, one.address, one.port) for one in listening)
        readings = [Reading("", "listeners", max(by_port.values()))]
        shared = {port for (_, _, port), count in by_port.items() if count > 1}
        if shared:
            readings += self._workers(self._on(shared, TCP_LISTEN), self._on(shared, TCP_ESTABLISHED))
        return readings

    def _workers(self, listening: list[Socket], open_ones: list[Socket]) -> list[Reading]:
        """A reading for each worker, with its open connections on the shared ports.

        A parent that only hands the listening sockets on keeps them all open; its workers hold
        fewer, and are those who accept.
        """
        listens, connected = ({f"socket:[{one.inode}]" for one in found} for found in (listening, open_ones))
        roots = {int(process["pid"]) for process in self.facts["processes"]}
        holders = {pid: descriptors(pid) for pid in sorted(proc.families(roots, self.table.all()))}
        held = {pid: len(files & listens) for pid, files in holders.items() if files & listens}
        fewest = min(held.values(), default=0)
        return [
            Reading(str(pid), "connections", len(holders[pid] & connected))
            for pid, count in held.items()
            if count == fewest
        ]

    def _on(self, ports: set[int], state: int) -> list[Socket]:
        """Of the networks that the service's servers live in."""
        found: list[Socket] = []
        for network in networks_of(self.facts):
            with within(network):
                found += [
                    one for family in _FAMILIES for one in tcp_sockets(family, state) if one.port in ports
                ]
        return found

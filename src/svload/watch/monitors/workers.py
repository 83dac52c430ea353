"""How a server's connections are spread over workers that share a port (SO_REUSEPORT), which the kernel
assigns by hash; and how many the fullest worker has, if each serves only a fixed number at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.host.machine.linux import descriptors
from svload.host.machine.sock_diag import Socket, ends_on
from svload.model.declared import Limit
from svload.watch import proc
from svload.watch.monitor import Monitor, Reading
from svload.watch.monitors.listeners import ListenersMonitor, SocketTable
from svload.watch.monitors.process import ProcessMonitor


class WorkersMonitor(Monitor):
    """The empty entity for the ports; each worker by its pid, only if a port has more than one listening
    socket.

    admin["workers"] gives, for a port, how many connections each worker there serves at a time. A worker with
    that many leaves further ones in its accept queue, where they wait unanswered.
    """

    name = "workers"
    summary = "connections of each worker of a server whose workers share a port"
    metrics: ClassVar[Mapping[str, str]] = {
        "listeners": "number of listening sockets on the port that has most",
        "connections": "number of open connections of a worker",
        "connections_fullest": "number of open connections of the worker that has most, on the port for which the kit "
        "reports how many each serves",
        "connections_limit": "number of connections that each worker there serves at a time, as its kit reports",
    }
    limits = (
        Limit(
            "connections of a worker",
            "connections",
            "connections_fullest",
            "connections_limit",
            at=0.98,
            brief=True,
        ),
    )
    example: ClassVar[dict[str, Any]] = {"workers": {"port": 9, "connections": 1024}}
    interval_s = 2.0
    table: ClassVar[proc.ProcessTable] = ProcessMonitor.table
    listening: ClassVar[SocketTable[Socket]] = ListenersMonitor.table
    connections: ClassVar[SocketTable[bytes]] = ListenersMonitor.connections

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        workers = (facts.get("admin") or {}).get("workers")
        self._port, self._most = (
            (int(workers["port"]), float(workers["connections"])) if workers else (0, 0.0)
        )

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return bool(facts and facts.get("processes") and facts.get("endpoints"))

    def sample(self) -> Iterable[Reading]:
        """Raises ConnectionError if nothing listens on its ports."""
        ports = {int(end["port"]) for end in self.facts["endpoints"]}
        listening = [one for one in self.listening.of(self.facts) if one.port in ports]
        if not listening:
            raise ConnectionError(f"nothing listens for {self.service}")
        by_port = Counter((one.family, one.address, one.port) for one in listening)
        readings = [Reading("", "listeners", max(by_port.values()))]
        shared = {port for (_, _, port), count in by_port.items() if count > 1}
        watched = shared | ({self._port} if self._port else set())
        if not watched:
            return readings
        roots = {int(process["pid"]) for process in self.facts["processes"]}
        held = {pid: descriptors(pid) for pid in sorted(self.table.families(roots))}
        open_ones = ends_on(watched, self.connections.of(self.facts))
        readings += [
            Reading(str(pid), "connections", count)
            for pid, count in _by_worker(held, listening, open_ones, shared).items()
        ]
        if of_each := _by_worker(held, listening, open_ones, {self._port}):
            readings += [
                Reading("", "connections_fullest", max(of_each.values())),
                Reading("", "connections_limit", self._most),
            ]
        return readings


def _by_worker(
    held: Mapping[int, set[str]], listening: Iterable[Socket], open_ones: Iterable[Socket], ports: set[int]
) -> dict[int, int]:
    """Return open connections on these ports by worker, its pid. `held`: what each process has open.

    A parent that only passes the listening sockets on keeps them all open; its workers hold fewer, and are
    the ones that accept.
    """
    listens, connected = (
        {f"socket:[{one.inode}]" for one in found if one.port in ports} for found in (listening, open_ones)
    )
    doors = {pid: len(files & listens) for pid, files in held.items() if files & listens}
    fewest = min(doors.values(), default=0)
    return {pid: len(held[pid] & connected) for pid, count in doors.items() if count == fewest}

"""How full a service's accept queues are: the machine's overflow counter does not say whose they were."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from ipaddress import ip_address
from typing import Any, ClassVar, Generic, TypeVar

from svload.host.machine import linux
from svload.host.machine.sock_diag import Socket, listening_sockets, open_connections
from svload.model.declared import Limit, Refusal
from svload.watch.monitor import Monitor, Reading

One = TypeVar("One")
HERE = ""
"""This network."""


class SocketTable(Generic[One]):
    """Sockets that `ask` returns of this thread's network, read at most once in `every_s` for all callers."""

    def __init__(self, ask: Callable[[], list[One]], every_s: float = 0.05) -> None:
        self._ask, self._every_s = ask, every_s
        self._known: dict[str, tuple[float, list[One]]] = {}

    def of(self, facts: Mapping[str, Any]) -> list[One]:
        """Return those of the networks that the service's servers are in, at most `every_s` old."""
        return [one for network in networks_of(facts) for one in self._all(network)]

    def _all(self, network: str) -> list[One]:
        read_at, found = self._known.get(network, (float("-inf"), []))
        if time.monotonic() - read_at >= self._every_s:
            with within(network):
                found = self._ask()
            self._known[network] = time.monotonic(), found
        return found


def networks_of(facts: Mapping[str, Any]) -> list[str]:
    """Return the networks of its links; this one for a service without links."""
    return [str(link["network"]) for link in facts.get("links", ())] or [HERE]


def within(network: str) -> AbstractContextManager[None]:
    """Put this thread into that network."""
    return linux.in_network(network) if network else nullcontext()


class ListenersMonitor(Monitor):
    """One entity for each port of the service; if several sockets share one, the fullest counts."""

    name = "listeners"
    summary = "accept queues of a service's own listening sockets, by sock_diag"
    metrics: ClassVar[Mapping[str, str]] = {
        "accept_queue": "number of connections that wait to be accepted, on the fullest of the port's "
        "listening sockets",
        "accept_queue_limit": "number of connections that may wait there",
        "accept_drops_total": "number of connections that the port's listening sockets dropped",
    }
    limits = (
        Limit("accept queue", "accept queue", "accept_queue", "accept_queue_limit", beyond=True, brief=True),
    )
    refusals = (
        # A listening socket drops for other reasons too; a full queue shows in the machine's counter at the same time.
        Refusal(
            "accept_drops_total",
            "connections dropped by its listening sockets",
            "accept queue",
            beside="host.listen_overflows_total",
        ),
    )
    cpu_share = 0.005
    table: ClassVar[SocketTable[Socket]] = SocketTable(listening_sockets)
    connections: ClassVar[SocketTable[bytes]] = SocketTable(open_connections)

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return bool(facts and ports_of(facts))

    def sample(self) -> Iterable[Reading]:
        """Read all listening sockets, shared with other services. Raise ConnectionError if it has none."""
        readings: list[Reading] = []
        listening = self.table.of(self.facts)
        for port in sorted(ports_of(self.facts)):
            mine = [one for one in listening if one.port == port]
            if not mine:
                continue
            fullest = max(mine, key=lambda one: one.read_queue - one.write_queue)
            readings.append(Reading(str(port), "accept_queue", fullest.read_queue))
            readings.append(Reading(str(port), "accept_queue_limit", fullest.write_queue))
            drops = [one.drops for one in mine if one.drops is not None]
            if drops:
                readings.append(Reading(str(port), "accept_drops_total", sum(drops)))
        if not readings:
            raise ConnectionError(f"nothing listens for {self.service}")
        return readings


def ports_of(facts: Mapping[str, Any]) -> set[int]:
    """Return the service's ports here: it has processes here, or gets requests over loopback."""
    here = bool(facts.get("processes"))
    return {
        int(end["port"])
        for end in facts.get("endpoints", ())
        if int(end["port"]) and (here or _is_loopback(str(end["address"])))
    }


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False

"""How full the accept queues of a service's own listening sockets are: the machine's counter of overflows does not say whose they were."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any, ClassVar

from svload.host.sock_diag import TCP_LISTEN, Socket, tcp_sockets
from svload.watch.monitor import Monitor, Reading


class ListenTable:
    """All listening sockets, read at most once in `every_s` whoever asks."""

    def __init__(self, every_s: float = 0.05) -> None:
        self._every_s = every_s
        self._read_at = float("-inf")
        self._all: list[Socket] = []

    def all(self) -> list[Socket]:
        """The sockets, as they were at most `every_s` ago."""
        if time.monotonic() - self._read_at >= self._every_s:
            self._all = [
                one for family in (socket.AF_INET, socket.AF_INET6) for one in tcp_sockets(family, TCP_LISTEN)
            ]
            self._read_at = time.monotonic()
        return self._all


class ListenersMonitor(Monitor):
    """One entity for each port of the service; of several sockets that share one, the fullest tells."""

    name = "listeners"
    summary = "accept queues of a service's own listening sockets, by sock_diag"
    metrics: ClassVar[Mapping[str, str]] = {
        "accept_queue": "number of connections that wait to be accepted, on the fullest of the port's listening sockets",
        "accept_queue_limit": "number of connections that may wait there",
        "accept_drops_total": "number of connections that the port's listening sockets dropped",
    }
    cpu_share = 0.005
    table: ClassVar[ListenTable] = ListenTable()

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services with TCP endpoints on this machine."""
        return bool(facts and _ports(facts))

    def sample(self) -> Iterable[Reading]:
        """One look at all listening sockets, shared with the other services. Raises ConnectionError when none is the service's."""
        readings: list[Reading] = []
        for port in sorted(_ports(self.facts)):
            mine = [one for one in self.table.all() if one.port == port]
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


def _ports(facts: Mapping[str, Any]) -> set[int]:
    """The ports on which the service listens here: it has processes here, or is asked over loopback."""
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

"""Free ports for services, below the kernel's ephemeral range, so that no outgoing connection takes one."""

from __future__ import annotations

import random
import socket
import threading
import time

from svload.host.machine.owners import described, listening, owners
from svload.lab.kit import LOOPBACK
from svload.model.errors import SvloadError, fail

LOWEST, HIGHEST = 20_000, 32_767
"""Below net.ipv4.ip_local_port_range's usual start, 32,768."""
FREE_WITHIN_S = 5.0
_POLL_S = 0.02
_NAMED = 3


class Ports:
    """A source of free ports, each given once; the same (service, part) always gets the same port, so that
    its address survives a restart."""

    def __init__(self, seed: int | None = None) -> None:
        self._next = LOWEST + random.Random(seed).randrange(HIGHEST - LOWEST)
        self._given: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def take(self, service: str, part: str, fixed: int | None = None, address: str = LOOPBACK) -> int:
        """Return the port of `part`, checked to be free at the `address` even if it was given before, since a
        server that did not end would still answer there. Raises SvloadError port-taken if it, or `fixed`, is
        in use or no port is free."""
        with self._lock:
            before = self._given.get((service, part))
            if before is not None and fixed in (None, before):
                self._wait_until_free(service, before, address)
                return before
            port = (
                self._search(service, address)
                if fixed is None
                else self._check(service, part, fixed, address)
            )
            self._given[service, part] = port
            return port

    def given(self) -> frozenset[int]:
        """Return every port that was given."""
        with self._lock:
            return frozenset(self._given.values())

    def _check(self, service: str, part: str, port: int, address: str) -> int:
        others = {given for key, given in self._given.items() if key != (service, part)}
        if port in others or not is_free(address, port):
            raise _taken(service, port)
        return port

    def _wait_until_free(self, service: str, port: int, address: str) -> None:
        """Wait until nobody listens on the port, since a killed process's sockets close a moment later.
        Closed connections at rest may prevent our probe from binding, but not a server with other socket
        options: what counts is that nobody listens."""
        deadline = time.monotonic() + FREE_WITHIN_S
        while not is_free(address, port) and listening([port]):
            if time.monotonic() > deadline:
                raise _taken(service, port)
            time.sleep(_POLL_S)

    def _search(self, service: str, address: str) -> int:
        given = set(self._given.values())
        for _ in range(LOWEST, HIGHEST + 1):
            port = self._next
            self._next = LOWEST + (self._next + 1 - LOWEST) % (HIGHEST + 1 - LOWEST)
            if port not in given and is_free(address, port):
                return port
        raise fail(
            "port-taken", port=f"{LOWEST}–{HIGHEST}", service=service, holder="other processes, all of them"
        )


def _taken(service: str, port: int) -> SvloadError:
    """Return port-taken with the process that uses the port, if it is visible."""
    found = owners([port])
    holders = ", ".join(described(pid) for pid in sorted(found.pids or found.likely)[:_NAMED])
    return fail(
        "port-taken",
        place=f"lab.{service}.port",
        port=port,
        service=service,
        holder=holders or "another process",
    )


def is_free(address: str, port: int) -> bool:
    """Return whether a listener could bind there now (TCP and UDP); connections in TIME_WAIT don't matter."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(family, kind) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True

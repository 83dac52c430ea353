"""memcached, from its `stats` command over TCP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.host.machine.bounded import BoundedSocket
from svload.model.declared import Limit, Refusal
from svload.watch.monitor import Monitor, Reading, admin_has, number

TIMEOUT_S = 0.4
_MOST_BYTES = 1 << 18
_STATS: Mapping[str, tuple[str, str]] = {
    "curr_connections": ("connections_open", "number of open connections, ours included"),
    "max_connections": ("connections_limit", "number of connections allowed"),
    "total_connections": ("connections_total", "number of connections accepted"),
    "rejected_connections": ("rejected_total", "number of connections rejected"),
    "listen_disabled_num": (
        "listen_disabled_total",
        "number of times that accepting stopped for lack of connections",
    ),
    "conn_yields": ("yields_total", "number of times that a connection had to let others pass"),
    "cmd_get": ("gets_total", "number of keys asked for"),
    "cmd_set": ("sets_total", "number of keys stored"),
    "get_hits": ("hits_total", "number of keys found"),
    "get_misses": ("misses_total", "number of keys not found"),
    "evictions": ("evictions_total", "number of items thrown out for lack of memory"),
    "curr_items": ("items", "number of items held"),
    "bytes": ("used_bytes", "bytes of items held"),
    "limit_maxbytes": ("limit_bytes", "bytes allowed"),
    "bytes_read": ("received_bytes_total", "bytes received"),
    "bytes_written": ("sent_bytes_total", "bytes sent"),
    "threads": ("threads", "number of worker threads"),
}


class MemcachedMonitor(Monitor):
    """`stats` at admin["memcached"] = {"address", "port"} on one persistent connection."""

    name = "memcached"
    summary = "connections, hits, evictions and memory of memcached, from its stats"
    metrics: ClassVar[Mapping[str, str]] = dict(_STATS.values())

    limits = (
        # Its count includes about twenty descriptors of its own.
        Limit("connections", "connections", "connections_open", "connections_limit", at=0.95, brief=True),
        # A cache is meant to be full.
        Limit("memory for items", "storage", "used_bytes", "limit_bytes", at=0.95, verdict=False),
    )
    refusals = (
        Refusal("rejected_total", "connections rejected above its limit", "connections"),
        Refusal(
            "listen_disabled_total",
            "times that it stopped accepting at its limit of connections",
            "connections",
        ),
        Refusal(
            "yields_total",
            "times that a connection had to let others pass",
            "workers",
            kind="waited",
            verdict=False,
        ),
        Refusal(
            "evictions_total",
            "items thrown out for lack of memory",
            "storage",
            kind="lost",
            verdict=False,
        ),
    )
    example = {"memcached": {"address": "127.0.0.1", "port": 9}}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        where = facts["admin"]["memcached"]
        self._address = (str(where["address"]), int(where["port"]))
        self._socket: BoundedSocket | None = None

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services with a memcached address."""
        return admin_has(facts, "memcached", "address", "port")

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if it does not answer."""
        try:
            if self._socket is None:
                self._socket = BoundedSocket(self._address, TIMEOUT_S, _MOST_BYTES)
            self._socket.renew()
            self._socket.sendall(b"stats\r\n")
            answer = b""
            while not answer.endswith(b"END\r\n"):
                piece = self._socket.recv(1 << 16)
                if not piece:
                    raise ConnectionError("memcached hung up or answered no stats")
                answer += piece
        except OSError:
            self.close()
            raise
        return parse_stats(answer.decode("ascii", "replace"))

    def close(self) -> None:
        """Close the connection; the next sample opens it again."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None


def parse_stats(answer: str) -> list[Reading]:
    """Return `STAT name value` lines as readings; statistics that this version lacks are left out."""
    found = dict(
        line.split(" ", 2)[1:]
        for line in answer.splitlines()
        if line.startswith("STAT ") and line.count(" ") >= 2
    )
    return [Reading("", metric, number(found, name)) for name, (metric, _) in _STATS.items() if name in found]

"""memcached, from its `stats` command over TCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from svload.model.declared import Limit, Refusal
from svload.watch.monitor import ConnectedMonitor, Reading, named

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


class MemcachedMonitor(ConnectedMonitor):
    """`stats` at admin["memcached"] = {"address", "port"}."""

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
            "evictions_total", "items thrown out for lack of memory", "storage", kind="lost", verdict=False
        ),
    )
    attaches = ("memcached", "address", "port")
    example = {"memcached": {"address": "127.0.0.1", "port": 9}}
    most_bytes = 1 << 18

    def ask(self, line: Any) -> str:
        line.renew()
        line.sendall(b"stats\r\n")
        answer = b""
        while not answer.endswith(b"END\r\n"):
            piece = line.recv(1 << 16)
            if not piece:
                raise ConnectionError("memcached hung up or answered no stats")
            answer += piece
        return answer.decode("ascii", "replace")

    def parsed(self, answer: str) -> list[Reading]:
        words = (line.split(" ", 2) for line in answer.splitlines())
        return named({one[1]: one[2] for one in words if one[0] == "STAT" and len(one) == 3}, _STATS)

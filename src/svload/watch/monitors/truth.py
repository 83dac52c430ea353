"""The known-truth server: its counters and the state of its workers, from its admin port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from svload.model.declared import Limit, Refusal
from svload.watch.http import AdminConnection
from svload.watch.monitor import ConnectedMonitor, Reading, named, number

_FIGURES = {
    "requests": ("requests_total", "number of requests"),
    "answers": ("answers_total", "number of answers handed to the kernel whole"),
    "abandoned": ("abandoned_total", "number of requests whose connection ended first"),
    "hits": ("hits_total", "number of cache hits"),
    "misses": ("misses_total", "number of cache misses"),
    "connections_accepted": ("connections_accepted_total", "number of connections accepted"),
    "tls_handshakes": ("tls_handshakes_total", "number of TLS handshakes, resumed ones included"),
    "tls_resumed": ("tls_resumed_total", "number of resumed TLS sessions"),
    "queue_dropped": ("queue_dropped_total", "number of requests refused for a full queue"),
    "accept_pauses": ("accept_pauses_total", "number of times that accepting stopped"),
    "upstream_requests": ("upstream_requests_total", "number of requests sent to the upstream"),
    "body_bytes_out": ("body_out_bytes_total", "bytes of bodies sent"),
    "connections_open": ("connections_open", "number of open connections"),
    "workers": ("workers", "number of workers"),
    "in_service": ("in_service", "number of workers at work"),
    "queued": ("queued", "number of requests that wait for a worker"),
    "queued_max": ("queued_max", "number of requests that waited at once at most"),
    "unfinished": ("unfinished", "number of requests without an answer yet"),
    "cache_objects": ("cache_objects", "number of objects in the cache"),
    "cache_bytes": ("cache_bytes", "bytes in the cache"),
}
_SUMS = {
    "busy_ns_sum": ("busy_seconds_total", "time of all workers at work, summed"),
    "link_held_ns_sum": (
        "link_held_seconds_total",
        "how long bodies waited for the limited link and took to leave by it, summed",
    ),
    "late_ns_sum": (
        "late_seconds_total",
        "how late paced answers were written, summed: the server's own error",
    ),
}


class TruthMonitor(ConnectedMonitor):
    """`GET /counters` of admin["truth"]["url"]."""

    name = "truth"
    summary = "counters, queue and busy workers of the known-truth server"
    metrics: ClassVar[Mapping[str, str]] = dict((*_FIGURES.values(), *_SUMS.values()))
    limits = (Limit("workers", "workers", "in_service", "workers", waiting="queued"),)
    refusals = (
        Refusal("queue_dropped_total", "requests refused for a full queue", "workers"),
        Refusal(
            "accept_pauses_total", "times that accepting stopped", "connections", kind="waited", verdict=False
        ),
    )
    attaches = ("truth", "url")
    example = {"truth": {"url": "http://127.0.0.1:9"}}

    def connect(self) -> AdminConnection:
        return AdminConnection(str(self.where["url"]))

    def ask(self, line: AdminConnection) -> dict[str, Any]:
        return line.get_json("/counters")

    def parsed(self, answer: dict[str, Any]) -> list[Reading]:
        sums = {name: number(answer, name) / 1e9 for name in _SUMS if name in answer}
        return named(answer, _FIGURES) + named(sums, _SUMS)

"""The known-truth server: its counters and the state of its workers, from its admin port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.model.declared import Limit, Refusal
from svload.watch.http import AdminConnection
from svload.watch.monitor import Monitor, Reading, admin_has, number

_COUNTERS = {
    "requests": "number of requests",
    "answers": "number of answers handed to the kernel whole",
    "abandoned": "number of requests whose connection ended first",
    "hits": "number of cache hits",
    "misses": "number of cache misses",
    "connections_accepted": "number of connections accepted",
    "tls_handshakes": "number of TLS handshakes, resumed ones included",
    "tls_resumed": "number of resumed TLS sessions",
    "queue_dropped": "number of requests refused for a full queue",
    "accept_pauses": "number of times that accepting stopped",
    "upstream_requests": "number of requests sent to the upstream",
    "body_bytes_out": "bytes of bodies sent",
}
_GAUGES = {
    "connections_open": "number of open connections",
    "workers": "number of workers",
    "in_service": "number of workers at work",
    "queued": "number of requests that wait for a worker",
    "queued_max": "number of requests that waited at once at most",
    "unfinished": "number of requests without an answer yet",
    "cache_objects": "number of objects in the cache",
    "cache_bytes": "bytes in the cache",
}
_SUMS = {
    "busy_ns_sum": "busy_seconds_total",
    "link_held_ns_sum": "link_held_seconds_total",
    "late_ns_sum": "late_seconds_total",
}
_RENAMED = {"body_bytes_out": "body_out_bytes"}


class TruthMonitor(Monitor):
    """`GET /counters` of admin["truth"]["url"] on one persistent connection."""

    name = "truth"
    summary = "counters, queue and busy workers of the known-truth server"
    metrics: ClassVar[Mapping[str, str]] = {
        **{f"{_RENAMED.get(name, name)}_total": text for name, text in _COUNTERS.items()},
        **_GAUGES,
        "busy_seconds_total": "time of all workers at work, summed",
        "link_held_seconds_total": "how long bodies waited for the limited link and took to leave by it, summed",
        "late_seconds_total": "how late paced answers were written, summed: the server's own error",
    }

    limits = (Limit("workers", "workers", "in_service", "workers", waiting="queued"),)
    refusals = (
        Refusal("queue_dropped_total", "requests refused for a full queue", "workers"),
        Refusal(
            "accept_pauses_total",
            "times that accepting stopped",
            "connections",
            kind="waited",
            verdict=False,
        ),
    )
    example = {"truth": {"url": "http://127.0.0.1:9"}}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._admin = AdminConnection(str(facts["admin"]["truth"]["url"]))

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services with the truth server's admin port."""
        return admin_has(facts, "truth", "url")

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if it does not answer."""
        found = self._admin.get_json("/counters")
        readings = [
            Reading("", f"{_RENAMED.get(name, name)}_total", number(found, name))
            for name in _COUNTERS
            if name in found
        ]
        readings += [Reading("", name, number(found, name)) for name in _GAUGES if name in found]
        for name, metric in _SUMS.items():
            if name in found:
                readings.append(Reading("", metric, number(found, name) / 1e9))
        return readings

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()

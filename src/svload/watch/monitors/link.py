"""A service's link at work: the traffic each way, what waited or was dropped because of its rate; how late
its delay line was, and its cost."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from svload.host.machine import linux
from svload.host.machine.delay_line import read_line_state
from svload.host.machine.qdiscs import Qdisc, list_qdiscs, qdiscs, route_socket
from svload.model.declared import Limit, Refusal
from svload.watch.monitor import Monitor, Reading

SHAPER = "tbf"


class LinkMonitor(Monitor):
    """One entity for each server that has a link; out is away from the server."""

    name = "link"
    summary = "a service's link: bytes each way against its rate, drops, and how late its delay line was"
    metrics: ClassVar[Mapping[str, str]] = {
        "link_out_bytes_total": "bytes that left the server by its link, headers included",
        "link_in_bytes_total": "bytes that came to it, headers included",
        "link_rate_bytes": "bytes that the link carries each way a second",
        "link_drops_total": "number of packets dropped for a full queue, both ways",
        "link_overlimits_total": "number of times that a packet waited for the rate, both ways",
        "link_queued": "number of packets that wait, both ways",
        "delayed_packets_total": "number of packets that the delay line carried, both ways",
        "delay_late_seconds_total": "how much later than due packets left the delay line, summed",
        "delay_latest_seconds": "how much later than due the latest packet left since its start",
        "delay_cpu_seconds_total": "CPU time of the delay line",
        "delay_drops_total": "number of packets that the delay line dropped",
    }
    limits = (
        Limit("link rate out", "network", "link_out_bytes_total", "link_rate_bytes", at=0.95),
        Limit("link rate in", "network", "link_in_bytes_total", "link_rate_bytes", at=0.95),
    )
    refusals = (
        Refusal("link_drops_total", "packets dropped for its link's full queue", "network", kind="lost", verdict=False),
        Refusal("link_overlimits_total", "waits for its link's rate", "network", kind="waited", verdict=False),
        Refusal("delay_drops_total", "packets dropped by its delay line", "network", kind="lost", verdict=False),
    )  # fmt: skip

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._links: list[dict[str, Any]] = list(facts["links"])
        self._inside: dict[str, socket.socket] = {}

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return bool(facts and facts.get("links"))

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if a link's network is gone."""
        outside = {one.interface: one for one in qdiscs() if one.kind == SHAPER}
        return [
            Reading(link["name"], metric, value)
            for link in self._links
            for metric, value in (*self._shaped(link, outside), *_delayed(link))
        ]

    def _shaped(self, link: Mapping[str, Any], outside: Mapping[str, Qdisc]) -> Iterator[tuple[str, float]]:
        inner = next((one for one in list_qdiscs(self._asked(link)) if one.kind == SHAPER), None)
        outer = outside.get(link["outside"])
        if inner is None or outer is None:  # nothing holds its rate now
            return
        yield "link_out_bytes_total", inner.sent_bytes
        yield "link_in_bytes_total", outer.sent_bytes
        yield "link_rate_bytes", inner.rate_bytes_per_s
        yield "link_drops_total", inner.drops + outer.drops
        yield "link_overlimits_total", inner.overlimits + outer.overlimits
        yield "link_queued", inner.queued + outer.queued

    def _asked(self, link: Mapping[str, Any]) -> socket.socket:
        """Return a socket, which keeps the network that it was opened in."""
        name = str(link["name"])
        if name not in self._inside:
            with linux.in_network(str(link["network"])):
                self._inside[name] = route_socket()
        return self._inside[name]

    def close(self) -> None:
        for kernel in self._inside.values():
            kernel.close()
        self._inside.clear()


def _delayed(link: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    if link.get("delay_line") is None:
        return
    line = read_line_state(link["delay_line"])
    yield "delayed_packets_total", line.packets
    yield "delay_late_seconds_total", line.late_ns / 1e9
    yield "delay_latest_seconds", line.late_most_ns / 1e9
    yield "delay_cpu_seconds_total", line.cpu_ns / 1e9
    yield "delay_drops_total", line.dropped

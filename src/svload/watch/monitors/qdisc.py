"""The queues of outgoing packets at each network interface: backlog and drops of its queueing disciplines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.host.machine.qdiscs import qdiscs
from svload.model.declared import Refusal
from svload.watch.monitor import Monitor, Reading


class QdiscMonitor(Monitor):
    """An entity for each discipline: interface and kind, and the parent if there are several of a kind."""

    name = "qdisc"
    summary = "backlog and drops of the queueing disciplines before each network interface, by rtnetlink"
    metrics: ClassVar[Mapping[str, str]] = {
        "queued": "number of packets that wait to be sent",
        "backlog_bytes": "bytes that wait to be sent",
        "sent_bytes_total": "bytes sent",
        "drops_total": "number of packets dropped, for a full queue or as the discipline says",
        "overlimits_total": "number of times that a packet had to wait for the discipline's rate",
    }
    refusals = (
        Refusal("drops_total", "packets dropped by its queueing discipline", "network", kind="lost", verdict=False),
        Refusal("overlimits_total", "waits for the rate of its queueing discipline", "network", kind="waited", verdict=False),
    )  # fmt: skip
    cpu_share = 0.002

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return facts is None

    def sample(self) -> Iterable[Reading]:
        """Query the kernel once; no readings if no interface queues."""
        readings: list[Reading] = []
        seen: set[str] = set()
        for one in qdiscs():
            entity = f"{one.interface} {one.kind}"
            entity = f"{entity} {one.parent:x}" if entity in seen else entity
            seen.add(entity)
            readings += [
                Reading(entity, "queued", one.queued),
                Reading(entity, "backlog_bytes", one.backlog_bytes),
                Reading(entity, "sent_bytes_total", one.sent_bytes),
                Reading(entity, "drops_total", one.drops),
                Reading(entity, "overlimits_total", one.overlimits),
            ]
        return readings

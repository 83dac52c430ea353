"""nginx, from its stub_status page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from svload.model.declared import Limit, Refusal
from svload.watch.http import AdminConnection
from svload.watch.monitor import Monitor, Reading, admin_has

_PAGE = re.compile(
    r"Active connections:\s*(?P<connections_open>\d+)\s+server accepts handled requests\s+"
    r"(?P<accepted_total>\d+)\s+(?P<handled_total>\d+)\s+(?P<requests_total>\d+)\s+"
    r"Reading:\s*(?P<reading>\d+)\s+Writing:\s*(?P<writing>\d+)\s+Waiting:\s*(?P<waiting>\d+)"
)


class NginxMonitor(Monitor):
    """`stub_status` at admin["nginx"]["status_url"] on one persistent connection; its own request is also
    counted."""

    name = "nginx"
    summary = "connections and requests of nginx, from stub_status"
    metrics: ClassVar[Mapping[str, str]] = {
        "connections_open": "number of open connections, ours included",
        "accepted_total": "number of connections accepted",
        "handled_total": "number of connections handled; fewer than accepted when worker_connections ran out",
        "unhandled_total": "number of connections that were accepted and closed at once, for lack of "
        "worker_connections",
        "connections_limit": "number of connections that its workers may hold open together, as its kit told",
        "requests_total": "number of requests",
        "reading": "number of connections whose request head is being read",
        "writing": "number of connections that get an answer",
        "waiting": "number of idle kept connections",
    }

    # Each worker's count includes its listening sockets.
    limits = (
        Limit(
            "worker connections",
            "connections",
            "connections_open",
            "connections_limit",
            at=0.95,
            brief=True,
        ),
    )
    refusals = (
        Refusal(
            "unhandled_total",
            "connections closed as soon as accepted, for lack of worker_connections",
            "connections",
        ),
    )
    example = {"nginx": {"status_url": "http://127.0.0.1:9/status"}}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._limit = facts["admin"]["nginx"].get("connections_limit")
        self._admin = AdminConnection(str(facts["admin"]["nginx"]["status_url"]))

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Services with a stub_status page."""
        return admin_has(facts, "nginx", "status_url")

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if it does not answer with such a page."""
        found = parse_status(self._admin.get().decode("ascii", "replace"))
        return (
            found if self._limit is None else [*found, Reading("", "connections_limit", float(self._limit))]
        )

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()


def parse_status(page: str) -> list[Reading]:
    """Return the page as readings. Raise OSError for any other page."""
    match = _PAGE.search(page)
    if match is None:
        raise OSError("this is not a stub_status page")
    found = {metric: float(value) for metric, value in match.groupdict().items()}
    found["unhandled_total"] = found["accepted_total"] - found["handled_total"]
    return [Reading("", metric, value) for metric, value in found.items()]

"""nginx, from its stub_status page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from svload.model.declared import Limit, Refusal
from svload.watch.http import AdminConnection
from svload.watch.monitor import ConnectedMonitor, Reading

_PAGE = re.compile(
    r"Active connections:\s*(?P<connections_open>\d+)\s+server accepts handled requests\s+"
    r"(?P<accepted_total>\d+)\s+(?P<handled_total>\d+)\s+(?P<requests_total>\d+)\s+"
    r"Reading:\s*(?P<reading>\d+)\s+Writing:\s*(?P<writing>\d+)\s+Waiting:\s*(?P<waiting>\d+)"
)


class NginxMonitor(ConnectedMonitor):
    """`stub_status` at admin["nginx"]["status_url"]; its own request is also counted."""

    name = "nginx"
    summary = "connections and requests of nginx, from stub_status"
    metrics: ClassVar[Mapping[str, str]] = {
        "connections_open": "number of open connections, ours included",
        "accepted_total": "number of connections accepted",
        "handled_total": "number of connections handled; fewer than accepted when worker_connections ran out",
        "unhandled_total": "number of connections that were accepted and closed at once, for lack of "
        "worker_connections",
        "connections_limit": "number of connections that its workers may hold open together, as its kit reports",
        "requests_total": "number of requests",
        "reading": "number of connections whose request head is being read",
        "writing": "number of connections that get an answer",
        "waiting": "number of idle kept connections",
    }

    # Each worker's count includes its listening sockets.
    limits = (
        Limit(
            "worker connections", "connections", "connections_open", "connections_limit", at=0.95, brief=True
        ),
    )
    refusals = (
        Refusal(
            "unhandled_total",
            "connections closed as soon as accepted, for lack of worker_connections",
            "connections",
        ),
    )
    attaches = ("nginx", "status_url")
    example = {"nginx": {"status_url": "http://127.0.0.1:9/status"}}

    def connect(self) -> AdminConnection:
        return AdminConnection(str(self.where["status_url"]))

    def ask(self, line: AdminConnection) -> str:
        return line.get().decode("ascii", "replace")

    def parsed(self, answer: str) -> list[Reading]:
        limit = self.where.get("connections_limit")
        limits = [] if limit is None else [Reading("", "connections_limit", float(limit))]
        return parse_status(answer) + limits


def parse_status(page: str) -> list[Reading]:
    """Return the page as readings. Raise OSError for any other page."""
    match = _PAGE.search(page)
    if match is None:
        raise OSError("this is not a stub_status page")
    found = {metric: float(value) for metric, value in match.groupdict().items()}
    found["unhandled_total"] = found["accepted_total"] - found["handled_total"]
    return [Reading("", metric, value) for metric, value in found.items()]

"""A share of one group against one endpoint, as the engine reads it; tests pass the differences."""

from __future__ import annotations

from typing import Any

MS = 1_000_000


def share(
    group: dict[str, Any], port: int, endpoint: str = "http://web", tls: Any = None, **changes: Any
) -> dict[str, Any]:
    """Return a share whose group runs for its time, all of it in the window; `changes` are of the share."""
    plain = {"name": "load", "client": "engine", "connection": "keep-alive", "record": "rows"}
    group = plain | group
    return {
        "format": 1,
        "id": "load.0",
        "seed": 7,
        "start_at_ns": 0,
        "interval_ns": 100 * MS,
        "window_ns": [0, group["stop_offset_ns"]],
        "endpoints": {endpoint: {"address": f"127.0.0.1:{port}", "tls": tls}},
        "allowed": ["127.0.0.0/8"],
        "groups": [group],
    } | changes

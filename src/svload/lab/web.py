"""Small HTTP to a lab's own services: admin pages and readiness. Never follows a redirect, never looks a name up."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit


def call(
    url: str, method: str = "GET", body: bytes | None = None, timeout_s: float = 5.0
) -> tuple[int, bytes]:
    """Status and body. Raises OSError where nothing answers (a broken answer counts as none)."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout_s)
    try:
        connection.request(method, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as why:
        raise OSError(f"{url}: {type(why).__name__} {why}") from why
    finally:
        connection.close()


def call_json(url: str, method: str = "GET", body: Any = None, timeout_s: float = 5.0) -> Any:
    """The parsed JSON of a 200. Raises OSError for any other status or what is not JSON."""
    status, data = call(url, method, None if body is None else json.dumps(body).encode(), timeout_s)
    if status != 200:
        raise OSError(f"{method} {url} answered {status}: {data[:200].decode(errors='replace')}")
    try:
        return json.loads(data)
    except ValueError as why:
        raise OSError(f"{method} {url} answered no JSON") from why

"""Small HTTP to a lab's own services: admin pages and readiness. Never follows a redirect, never looks a name up."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from svload.host.machine.bounded import BoundedHTTP, body_of

MOST_BYTES = 64 << 20
"""Of an answer of the lab's own servers: a page of the known-truth server's log is the longest."""
_MOST_HEAD_BYTES = 1 << 20


def call(
    url: str, method: str = "GET", body: bytes | None = None, timeout_s: float = 5.0
) -> tuple[int, bytes]:
    """Status and body of an exchange that takes `timeout_s` at most.

    Raises OSError where nothing answers by then (a broken answer counts as none).
    """
    with _asked(url, method, body, timeout_s, MOST_BYTES) as answer:
        return answer.status, body_of(answer)


def status(url: str, timeout_s: float = 5.0) -> int:
    """The status of a GET; its body, which may never end, is not read. Raises OSError as `call` does."""
    with _asked(url, "GET", None, timeout_s, _MOST_HEAD_BYTES) as answer:
        return answer.status


@contextmanager
def _asked(
    url: str, method: str, body: bytes | None, timeout_s: float, most_bytes: int
) -> Iterator[http.client.HTTPResponse]:
    parts = urlsplit(url)
    connection = BoundedHTTP(parts.hostname or "", parts.port or 80, timeout_s, most_bytes)
    try:
        connection.request(method, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), body)
        yield connection.getresponse()
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

"""HTTP requests to a lab's services: admin pages and readiness. Follows no redirects, resolves no names."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from svload.host.machine.bounded import BoundedHTTP, body_of

MOST_BYTES = 64 << 20
"""The maximum size of an answer; the longest is a page of the known-truth server's log."""
_MOST_HEAD_BYTES = 1 << 20


def call(
    url: str, method: str = "GET", body: bytes | None = None, timeout_s: float = 5.0
) -> tuple[int, bytes]:
    """Return status and body of an exchange that takes at most `timeout_s`.

    Raises OSError if there is no answer by then (or a broken one).
    """
    with _asked(url, method, body, timeout_s, MOST_BYTES) as answer:
        return answer.status, body_of(answer)


def status(url: str, timeout_s: float = 5.0) -> int:
    """Return the status of a GET; its body, which may never end, is not read. Raises OSError like `call`."""
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
    """Return the parsed JSON of a 200. Raises OSError for any other status and for invalid JSON."""
    status, data = call(url, method, None if body is None else json.dumps(body).encode(), timeout_s)
    if status != 200:
        raise OSError(f"{method} {url} answered {status}: {data[:200].decode(errors='replace')}")
    try:
        return json.loads(data)
    except ValueError as why:
        raise OSError(f"{method} {url} answered no JSON") from why

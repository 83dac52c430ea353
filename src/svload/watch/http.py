"""A persistent connection to a service's admin page. Follows no redirects, resolves no names."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from svload.host.machine.bounded import BoundedHTTP, body_of
from svload.watch.monitor import TIMEOUT_S

_MOST_BYTES = 4 << 20


class AdminConnection:
    """HTTP/1.1 to the host of `url`, its query at every path. A call ends within two tries of 0.4 s."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path.rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._connection = BoundedHTTP(parts.hostname or "", parts.port or 80, TIMEOUT_S, _MOST_BYTES)

    def get(self, path: str = "") -> bytes:
        """Return the body of a 200, retried once if a kept connection has ended. Raise OSError otherwise."""
        kept = self._connection.sock is not None
        try:
            return self._get(path)
        except TimeoutError:
            self._connection.close()
            raise
        except (OSError, http.client.HTTPException) as why:
            self._connection.close()
            if not kept:
                raise OSError(f"{self._connection.host}:{self._connection.port}: {why}") from why
        try:
            return self._get(path)
        except http.client.HTTPException as why:
            self._connection.close()
            raise OSError(f"{self._connection.host}:{self._connection.port} answers no HTTP ({why})") from why

    def get_json(self, path: str = "") -> dict[str, Any]:
        """Return the body as a JSON object. Raise OSError."""
        try:
            found = json.loads(self.get(path))
        except ValueError as why:
            raise OSError(f"{path} is not JSON ({why})") from why
        if not isinstance(found, dict):
            raise OSError(f"{path} is not a JSON object")
        return found

    def close(self) -> None:
        self._connection.close()

    def _get(self, path: str) -> bytes:
        self._connection.request("GET", ((self._path + path) or "/") + self._query)
        answer = self._connection.getresponse()
        body = body_of(answer)
        if answer.status != 200 or not answer.isclosed():
            self._connection.close()
        if answer.status != 200:
            raise OSError(f"{self._path}{path} answered {answer.status}")
        return body

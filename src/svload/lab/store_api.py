"""The small part of Swift's API that all our stores support: tokens, PUT, listings page by page, over a few
connections.

The store's facts have the address: `admin["object_store"]` is
`{"url", "auth": {"kind": "none" | "tempauth", "user", "key_file"}, "data_dir"?}`.
"""

from __future__ import annotations

import http.client
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from svload.model.errors import fail
from svload.model.facts import ServiceFacts

PARALLEL = 8
PAGE = 10_000
BUSY_TRIES, BUSY_PAUSE_S = 4, 0.5
REQUEST_S = 60.0
T = TypeVar("T")


class StoreApi:
    """A store as its facts describe it; `each` processes many items over a few connections."""

    def __init__(self, store: ServiceFacts, should_stop: Callable[[], bool] = lambda: False) -> None:
        where = store.admin.get("object_store")
        if not where:
            raise fail(
                "fill-failed",
                service=store.service,
                reason=f"the kit {store.kit} offers no object store",
                log="",
            )
        parts = urlsplit(str(where["url"]))
        self.service, self.host, self.port = store.service, parts.hostname or "", parts.port or 80
        self.auth: Mapping[str, Any] = where.get("auth") or {"kind": "none"}
        self.data_dir = Path(where["data_dir"]) if where.get("data_dir") else None
        self.log = str(where.get("log", ""))
        self._should_stop = should_stop
        self._token: str | None = None
        self._lock = threading.Lock()

    def failed(self, reason: str) -> Exception:
        """Return fill-failed for this store."""
        return fail("fill-failed", place=self.service, service=self.service, reason=reason, log=self.log)

    def token(self, stale: str | None = None) -> str | None:
        """Return the token to send, fetched once, and again if the current one is `stale`."""
        if self.auth["kind"] == "none":
            return None
        with self._lock:
            if self._token is None or self._token == stale:
                self._token = self._fetch_token()
            return self._token

    def _fetch_token(self) -> str:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=REQUEST_S)
        key = Path(self.auth["key_file"]).read_text(encoding="ascii").strip()
        try:
            connection.request(
                "GET", "/auth/v1.0", headers={"X-Auth-User": str(self.auth["user"]), "X-Auth-Key": key}
            )
            answer = connection.getresponse()
            answer.read()
            token = answer.getheader("X-Auth-Token")
        except (OSError, http.client.HTTPException) as why:
            raise self.failed(f"it did not answer a request for a token ({why})") from why
        finally:
            connection.close()
        if not token:
            raise self.failed(f"it gave no token (status {answer.status})")
        return token

    def each(self, items: Sequence[T], act: Callable[[Session, T], Any]) -> list[Any]:
        """Run `act` on all items over a few connections; return results in order. Stops at a failure."""
        waiting: queue.SimpleQueue[tuple[int, T]] = queue.SimpleQueue()
        for entry in enumerate(items):
            waiting.put(entry)
        results: list[Any] = [None] * len(items)
        failed = threading.Event()

        def work() -> None:
            with Session(self) as session:
                while not failed.is_set():
                    try:
                        number, item = waiting.get_nowait()
                    except queue.Empty:
                        return
                    try:
                        if self._should_stop():
                            raise fail("interrupted")
                        results[number] = act(session, item)
                    except BaseException:
                        failed.set()
                        raise

        threads = max(1, min(PARALLEL, len(items)))
        with ThreadPoolExecutor(max_workers=threads) as pool:
            try:
                futures = [pool.submit(work) for _ in range(threads)]
                wait(futures)
            except BaseException:  # interrupted: the threads end after their current items
                failed.set()
                raise
        for future in futures:
            future.result()
        return results


class Session:
    """One keep-alive connection to a store."""

    def __init__(self, api: StoreApi) -> None:
        self._api = api
        self._connection = http.client.HTTPConnection(api.host, api.port, timeout=REQUEST_S)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def expect(
        self,
        method: str,
        path: str,
        statuses: Iterable[int],
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request and return the body of an answer with one of `statuses`. It is repeated once with a
        new token after a 401, and once after a lost connection.

        While the store is overloaded (503) it is repeated after a pause, `BUSY_TRIES` times in all. Raises
        SvloadError fill-failed for any other answer.
        """
        for tried in range(1, BUSY_TRIES + 1):
            token = self._api.token()
            status, data = self._send(method, path, body, headers, token)
            if status == 401 and token is not None:
                status, data = self._send(method, path, body, headers, self._api.token(stale=token))
            if status != HTTPStatus.SERVICE_UNAVAILABLE or tried == BUSY_TRIES:
                break
            time.sleep(BUSY_PAUSE_S * tried)
        if status not in tuple(statuses):
            raise self._api.failed(
                f"{method} {path} was answered {status or 'not at all'} {data[:120].decode(errors='replace')}"
            )
        return data

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None, token: str | None
    ) -> tuple[int, bytes]:
        sent = {**(headers or {}), **({"X-Auth-Token": token} if token else {})}
        for last in (
            False,
            True,
        ):  # a server may close an idle keep-alive connection at any time; PUT and GET may be repeated
            try:
                self._connection.request(method, path, body, sent)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException) as why:
                self._connection.close()
                if last:
                    return 0, str(why).encode()
        raise AssertionError("unreachable")

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield all entries of a JSON listing, page by page."""
        marker = ""
        while True:
            query = urlencode({"format": "json", "limit": PAGE, **({"marker": marker} if marker else {})})
            page = json.loads(self.expect("GET", f"{path}?{query}", (200, 204)) or b"[]")
            yield from page
            if len(page) < PAGE:
                return
            marker = page[-1]["name"]

    def names(self, path: str) -> Iterator[str]:
        """Yield the names in a listing."""
        return (str(one["name"]) for one in self.pages(path))

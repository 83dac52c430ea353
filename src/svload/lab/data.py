"""Filling an object store and listing every URL back from it, by the small part of Swift's API that all our stores speak.

The store's facts say where: `admin["object_store"] = {"url", "auth": {"kind": "none" | "tempauth", "user", "key_file"}, "data_dir"?}`.
A store that keeps its data between runs names `data_dir`; a marker in it says what it holds, so that it is filled once.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from svload.lab.objects import (
    ObjectTable,
    PlannedObject,
    content,
    fill_key,
    planned_accounts,
    planned_containers,
    planned_objects,
)
from svload.model.errors import fail
from svload.model.facts import ServiceFacts
from svload.model.study import ObjectSet

PARALLEL = 8
PAGE = 10_000
BUSY_TRIES, BUSY_PAUSE_S = 4, 0.5
REQUEST_S = 60.0
CONSISTENT_WITHIN_S = 30.0
"""Listings of an eventually consistent store may lag behind its objects for so long."""
OnProgress = Callable[[str, int, int], None]
"""Called with what is done (put | list), how many, of how many."""
T = TypeVar("T")


@dataclass(frozen=True)
class Filled:
    """A filled set: what the store lists. `reused`: it held it already; `put` objects were written in `fill_s`."""

    table: ObjectTable
    reused: bool
    put: int
    fill_s: float
    list_s: float


def fill(
    objects: ObjectSet,
    store: ServiceFacts,
    seed: int,
    *,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Filled:
    """Make `store` hold `objects` and list them back. Every request is bounded. Raises SvloadError fill-failed, interrupted.

    Sizes and MD5s of the listing are compared with what was sent.
    """
    api = StoreApi(store, should_stop)
    tell = on_progress or (lambda what, done, of: None)
    marker = _Marker(api.data_dir, objects, seed)
    began = time.monotonic()
    held = marker.read()
    if held is not None and _entries(table := _list(api, objects, tell)) == held:
        return Filled(table, True, 0, 0.0, time.monotonic() - began)
    sent = _put_all(api, objects, planned_objects(objects, seed), seed, tell)
    filled = time.monotonic()
    table = _listed(api, objects, sent, tell)
    marker.write(sent)
    return Filled(table, False, len(sent), filled - began, time.monotonic() - filled)


def list_urls(objects: ObjectSet, store: ServiceFacts) -> ObjectTable:
    """Every object in the set's accounts, as the server itself lists them, page by page."""
    return _list(StoreApi(store), objects, lambda what, done, of: None)


def _put_all(
    api: StoreApi, objects: ObjectSet, planned: Sequence[PlannedObject], seed: int, tell: OnProgress
) -> dict[str, tuple[int, str]]:
    public = {"X-Container-Read": ".r:*"}
    api.each(
        planned_containers(objects),
        lambda session, one: session.expect("PUT", f"/v1/{one[0]}/{one[1]}", (201, 202), b"", public),
    )
    sent: dict[str, tuple[int, str]] = {}
    lock = threading.Lock()

    def put(session: Session, one: PlannedObject) -> None:
        body = content(one.path, one.size_bytes, seed)
        digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
        headers = {"Content-Type": "application/octet-stream", "ETag": digest}
        session.expect("PUT", one.path, (201,), body, headers)
        with lock:
            sent[one.path] = one.size_bytes, digest
            if len(sent) % 200 == 0 or len(sent) == len(planned):
                tell("put", len(sent), len(planned))

    api.each(planned, put)
    return sent


def _listed(
    api: StoreApi, objects: ObjectSet, sent: Mapping[str, tuple[int, str]], tell: OnProgress
) -> ObjectTable:
    deadline = time.monotonic() + CONSISTENT_WITHIN_S
    while True:
        table = _list(api, objects, tell)
        found = _entries(table)
        if found == sent:
            return table
        if time.monotonic() > deadline:
            wrong = [path for path in {**found, **sent} if found.get(path) != sent.get(path)]
            raise api.failed(
                f"it lists {len(found)} objects where {len(sent)} were put; {len(wrong)} differ, such as {wrong[0]}"
            )
        time.sleep(0.5)


def _list(api: StoreApi, objects: ObjectSet, tell: OnProgress) -> ObjectTable:
    rows: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
    planned = set(planned_containers(objects))
    containers = [
        (account, name)
        for account, names in zip(
            planned_accounts(objects),
            api.each(
                planned_accounts(objects), lambda session, account: list(session.names(f"/v1/{account}"))
            ),
            strict=True,
        )
        for name in names
        if (account, name) in planned
    ]

    def walk(session: Session, place: tuple[str, str]) -> None:
        base = f"/v1/{quote(place[0])}/{quote(place[1])}"
        rows[place] = [
            (f"{base}/{quote(one['name'])}", int(one["bytes"]), str(one["hash"]))
            for one in session.pages(base)
        ]

    api.each(containers, walk)
    tell("list", sum(map(len, rows.values())), objects.count)
    entries = [entry for place in sorted(rows) for entry in rows[place]]
    return ObjectTable(
        tuple(e[0] for e in entries), tuple(e[1] for e in entries), tuple(e[2] for e in entries)
    )


def _entries(table: ObjectTable) -> dict[str, tuple[int, str]]:
    return {
        path: (size, digest)
        for path, size, digest in zip(table.paths, table.sizes_bytes, table.digests, strict=True)
    }


class StoreApi:
    """A store as its facts describe it; `each` works through many items over a few connections."""

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
        """fill-failed for this store."""
        return fail("fill-failed", place=self.service, service=self.service, reason=reason, log=self.log)

    def token(self, stale: str | None = None) -> str | None:
        """The token to send, fetched once, and anew when the one in hand proved stale."""
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
        """`act` on every item, over a few keep-alive connections; results in order. The first failure ends it."""
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
            futures = [pool.submit(work) for _ in range(threads)]
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
        """The body of an answer with one of `statuses`; once with a new token after a 401, once anew after a lost connection.

        A store that is overloaded for a moment (503) is asked again after a pause, `BUSY_TRIES` times in all.
        Raises SvloadError fill-failed for any other answer.
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
        """All entries of a JSON listing, page by page."""
        marker = ""
        while True:
            query = urlencode({"format": "json", "limit": PAGE, **({"marker": marker} if marker else {})})
            page = json.loads(self.expect("GET", f"{path}?{query}", (200, 204)) or b"[]")
            yield from page
            if len(page) < PAGE:
                return
            marker = page[-1]["name"]

    def names(self, path: str) -> Iterator[str]:
        """The names in a listing."""
        return (str(one["name"]) for one in self.pages(path))


class _Marker:
    """What a store's data folder holds: written when a set is filled and listed, read to fill it only once."""

    def __init__(self, folder: Path | None, objects: ObjectSet, seed: int) -> None:
        self._path = folder / f"filled-{fill_key([objects], seed)}.json" if folder else None

    def read(self) -> dict[str, tuple[int, str]] | None:
        if self._path is None:
            return None
        try:
            raw = json.loads(self._path.read_text(encoding="utf-8"))
            return {path: (int(size), str(digest)) for path, (size, digest) in raw["objects"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, sent: Mapping[str, tuple[int, str]]) -> None:
        if self._path is None:
            return
        text = json.dumps({"format": 1, "objects": sent}, separators=(",", ":"))
        beside = self._path.with_suffix(".new")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, self._path)

"""An in-memory store with Swift's API for filling: it counts requests, and fails where a test says so."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers import Answering, serving

from svload.lab.objects import ObjectTable, PlannedObject, content
from svload.model.facts import ServiceFacts


def expected_table(planned: Sequence[PlannedObject], seed: int) -> ObjectTable:
    """Return what a store must list once it is filled (computes every content)."""
    digests = tuple(
        hashlib.md5(content(one.path, one.size_bytes, seed), usedforsecurity=False).hexdigest()
        for one in planned
    )
    return ObjectTable(tuple(one.path for one in planned), tuple(one.size_bytes for one in planned), digests)


class Store:
    """`objects` by path; `listings` and `puts` count requests; after `dies_after` puts it answers 500 to all."""

    def __init__(self) -> None:
        self.containers: set[str] = set()
        self.objects: dict[str, bytes] = {}
        self.types: dict[str, str] = {}
        self.puts: list[str] = []
        self.listings: list[str] = []
        self.dies_after: int | None = None
        self._lock = threading.Lock()

    def put(self, path: str, body: bytes, kind: str) -> int:
        with self._lock:
            if self.dies_after is not None and len(self.puts) >= self.dies_after:
                return 500
            if path.count("/") == 3:
                self.containers.add(path)
            else:
                self.puts.append(path)
                self.objects[path], self.types[path] = body, kind
        return 201

    def list(self, path: str, limit: int, marker: str) -> list[dict[str, Any]] | None:
        with self._lock:
            self.listings.append(path)
            names = self.containers if path.count("/") == 2 else self.objects
            if path.count("/") == 3 and path not in self.containers:
                return None
            below = sorted(one.removeprefix(f"{path}/") for one in names if one.startswith(f"{path}/"))
            page = [name for name in below if name > marker][:limit]
            if path.count("/") == 2:
                return [{"name": name} for name in page]
            bodies = {name: self.objects[f"{path}/{name}"] for name in page}
        return [
            {"name": name, "bytes": len(body), "hash": hashlib.md5(body, usedforsecurity=False).hexdigest()}
            for name, body in bodies.items()
        ]


@contextmanager
def running(store: Store, data_dir: Path | None) -> Iterator[ServiceFacts]:
    """Run the store on a port; yield the facts that a kit would give."""

    class Handler(Answering):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(b"", store.put(self.path, body, self.headers.get("Content-Type", "")))

        def do_DELETE(self) -> None:
            gone = store.objects.pop(unquote(self.path), None)
            self.answer(b"", 404 if gone is None else 204)

        def do_GET(self) -> None:
            at = urlsplit(self.path)
            asked = parse_qs(at.query)
            page = store.list(at.path, int(asked["limit"][0]), asked.get("marker", [""])[0])
            self.answer(json.dumps(page or []).encode(), 404 if page is None else 200)

    kept = {"data_dir": str(data_dir)} if data_dir else {}
    with serving(Handler) as port:
        where = {"url": f"http://127.0.0.1:{port}", "auth": {"kind": "none"}}
        yield ServiceFacts(service="store", kit="test", version="", admin={"object_store": where | kept})

"""Filling of an object store, and the listing of every URL in it, through its API (`store_api`).

A store that keeps its data between runs names its `data_dir`. Notes there record its contents (`kept_data`),
so that it is filled only once and an interrupted filling continues.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from svload.lab.images import Images
from svload.lab.kept_data import Held, KeptData
from svload.lab.objects import (
    ObjectTable,
    PlannedObject,
    content,
    fill_key,
    planned_accounts,
    planned_containers,
    planned_objects,
)
from svload.lab.store_api import Session, StoreApi
from svload.model.errors import SvloadError
from svload.model.facts import ServiceFacts
from svload.model.study import ObjectSet

SAMPLE = 64
"""Containers that are listed to check that a store still has its data; listing 10,000 would take minutes."""
SAY_EVERY = 200
CONSISTENT_WITHIN_S = 30.0
"""How long the listings of an eventually consistent store may lag behind its objects."""
OnProgress = Callable[[str, int, int], None]
"""Called with the current step (make | put | list), the number done, and the total."""
Place = tuple[str, str]
"""Account and container."""


@dataclass(frozen=True)
class Filled:
    """A filled set, as the store lists it. `reused`: the store had it already; `put` objects were written in
    `fill_s`, after the `resumed` ones of an interrupted filling; `listed` containers were listed in `list_s`.
    """

    table: ObjectTable
    reused: bool
    put: int
    fill_s: float
    list_s: float
    resumed: int = 0
    listed: int = 0


def fill(
    objects: ObjectSet,
    store: ServiceFacts,
    seed: int,
    *,
    images: Path | None = None,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Filled:
    """Fill `store` with `objects` and list them. Every request has a timeout. Raises SvloadError fill-failed,
    interrupted.

    Sizes and MD5s in the listing are compared with what was sent. If the store was filled before, only some
    containers are listed and compared; if one differs, all are, missing objects are put, and others, which
    traffic left in the set's containers, are deleted. `images` is the folder where pictures are kept.
    """
    api = StoreApi(store, should_stop)
    tell = on_progress or (lambda what, done, of: None)
    kept = KeptData(api.data_dir, fill_key([objects], seed))
    began = time.monotonic()
    held = kept.whole()
    if held is not None and (listed := _still_holds(api, objects, held)):
        return Filled(table_of(held), True, 0, 0.0, time.monotonic() - began, listed=listed)
    try:
        resumed = kept.go_on()
        if held is not None:
            kept.objects = held
            kept.forget_but(entries(_list(api, objects, tell)))
        planned = planned_objects(objects, seed)
        put = _Putting(api, objects, kept, _maker(objects, seed, images), tell)
        put.containers()
        put.objects(planned)
        filled = time.monotonic()
        table = _listed(api, objects, put, planned, tell)
        kept.finish()
    finally:
        kept.close()
    return Filled(
        table, False, put.count, filled - began, time.monotonic() - filled, resumed, objects.containers
    )


def list_urls(objects: ObjectSet, store: ServiceFacts, on_progress: OnProgress | None = None) -> ObjectTable:
    """Return every object in the set's accounts, as the server lists them page by page."""
    return _list(StoreApi(store), objects, on_progress or (lambda what, done, of: None))


def table_of(held: Held) -> ObjectTable:
    """Return the objects in the order of a listing: by account, container and name."""
    paths = sorted(held, key=lambda path: path.split("/"))
    return ObjectTable(
        tuple(paths), tuple(held[one][0] for one in paths), tuple(held[one][1] for one in paths)
    )


def entries(table: ObjectTable) -> Held:
    """Return size and digest by path."""
    rows = zip(table.paths, table.sizes_bytes, table.digests, strict=True)
    return {path: (size, digest) for path, size, digest in rows}


def _maker(objects: ObjectSet, seed: int, images: Path | None) -> Callable[[PlannedObject], bytes]:
    if objects.content == "jpeg":
        assert images is not None, "pictures are kept somewhere"
        pictures = Images(images)
        return lambda one: pictures.content(one.path, one.size_bytes, seed)
    return lambda one: content(one.path, one.size_bytes, seed)


class _Putting:
    """The creation of those containers and objects that the notes do not list; `count` objects were put."""

    def __init__(
        self,
        api: StoreApi,
        objects: ObjectSet,
        kept: KeptData,
        make: Callable[[PlannedObject], bytes],
        tell: OnProgress,
    ) -> None:
        self._api, self._objects, self._kept, self._make, self._tell = api, objects, kept, make, tell
        self._type = "image/jpeg" if objects.content == "jpeg" else "application/octet-stream"
        self.count = 0

    @property
    def sent(self) -> Held:
        """Return everything that was put, now or earlier."""
        return self._kept.objects

    def containers(self) -> None:
        """Create the set's containers, readable by anybody; each account's first one before the others.

        Swift creates an account with its first container, and answers 404 to a second one that arrives
        meanwhile.
        """
        public, of = {"X-Container-Read": ".r:*"}, self._objects.containers
        paths = [f"/v1/{account}/{container}" for account, container in planned_containers(self._objects)]

        def make(session: Session, path: str) -> None:
            session.expect("PUT", path, (201, 202), b"", public)
            self._kept.note_container(path)
            if (done := len(self._kept.containers)) % SAY_EVERY == 0:
                self._tell("make", done, of)

        left = [path for path in paths if path not in self._kept.containers]
        first = {path.rpartition("/")[0]: path for path in reversed(left)}
        self._api.each(list(first.values()), make)
        self._api.each([path for path in left if path != first[path.rpartition("/")[0]]], make)

    def objects(self, planned: Sequence[PlannedObject]) -> None:
        """Put the objects that are not noted."""

        def put(session: Session, one: PlannedObject) -> None:
            body = self._make(one)
            digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
            session.expect("PUT", one.path, (201,), body, {"Content-Type": self._type, "ETag": digest})
            done = self._kept.note_object(one.path, one.size_bytes, digest)
            if done % SAY_EVERY == 0 or done == len(planned):
                self._tell("put", done, len(planned))

        left = [one for one in planned if one.path not in self._kept.objects]
        self._api.each(left, put)
        self.count += len(left)

    def again(self, planned: Sequence[PlannedObject], found: Mapping[str, tuple[int, str]]) -> None:
        """Put noted objects that are missing: a killed store may have lost what it had just confirmed."""
        self._kept.forget_but(found)
        self.objects(planned)

    def without(self, others: Sequence[str]) -> None:
        """Delete objects that are not of the set."""
        self._api.each(others, lambda session, path: session.expect("DELETE", path, (204, 404)))


def _listed(
    api: StoreApi, objects: ObjectSet, put: _Putting, planned: Sequence[PlannedObject], tell: OnProgress
) -> ObjectTable:
    """Return the listing once it equals what was put. Missing objects of an earlier filling are put again, and
    others deleted."""
    deadline = time.monotonic() + CONSISTENT_WITHIN_S
    complete = put.count == len(planned)
    while True:
        table = _list(api, objects, tell)
        found = entries(table)
        if found == put.sent:
            return table
        put.without([path for path in found if path not in put.sent])
        if not complete:
            complete = True
            put.again(planned, found)
        elif time.monotonic() > deadline:
            sent = put.sent
            wrong = [path for path in {**found, **sent} if found.get(path) != sent.get(path)]
            raise api.failed(
                f"it lists {len(found)} objects where {len(sent)} were put; {len(wrong)} differ, such as {wrong[0]}"
            )
        else:
            time.sleep(0.5)


def _still_holds(api: StoreApi, objects: ObjectSet, held: Held) -> int:
    """List a few containers, others each time; return how many are unchanged, or 0 if one differs."""
    planned = planned_containers(objects)
    sample = planned if len(planned) <= SAMPLE else sorted(random.sample(planned, SAMPLE))
    try:
        found = entries(_walk(api, sample, objects.count, lambda what, done, of: None))
    except SvloadError as why:
        if any(problem.code != "fill-failed" for problem in why.problems):
            raise
        return 0  # a container is gone
    prefixes = {f"/v1/{account}/{container}" for account, container in sample}
    wanted = {path: one for path, one in held.items() if path.rpartition("/")[0] in prefixes}
    return len(sample) if found == wanted and len(held) == objects.count else 0


def _list(api: StoreApi, objects: ObjectSet, tell: OnProgress) -> ObjectTable:
    """List every account page by page, then each of its containers that belongs to the set."""
    planned, accounts = set(planned_containers(objects)), planned_accounts(objects)
    names = api.each(accounts, lambda session, account: list(session.names(f"/v1/{account}")))
    places = [(account, name) for account, found in zip(accounts, names, strict=True) for name in found]
    return _walk(api, [place for place in places if place in planned], objects.count, tell)


def _walk(api: StoreApi, places: Iterable[Place], count: int, tell: OnProgress) -> ObjectTable:
    rows: dict[Place, list[tuple[str, int, str]]] = {}
    reported = 0

    def walk(session: Session, place: Place) -> None:
        nonlocal reported
        base = f"/v1/{quote(place[0])}/{quote(place[1])}"
        rows[place] = [
            (f"{base}/{quote(one['name'])}", int(one["bytes"]), str(one["hash"]))
            for one in session.pages(base)
        ]
        reported += len(rows[place])
        if len(rows) % SAY_EVERY == 0:
            tell("list", reported, count)

    api.each(list(places), walk)
    found = [entry for place in sorted(rows) for entry in rows[place]]
    tell("list", len(found), count)
    return ObjectTable(tuple(e[0] for e in found), tuple(e[1] for e in found), tuple(e[2] for e in found))

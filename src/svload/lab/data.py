"""Filling an object store and listing every URL back from it, over its API (`store_api`).

A store that keeps its data between runs names its `data_dir`; notes in it say what it holds (`kept_data`), so
that it is filled once, and a filling that was killed goes on.
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
"""Containers that are listed before a store is believed to hold what it held: 10,000 of them would take minutes."""
SAY_EVERY = 200
CONSISTENT_WITHIN_S = 30.0
"""Listings of an eventually consistent store may lag behind its objects for so long."""
OnProgress = Callable[[str, int, int], None]
"""Called with what is done (make | put | list), how many, of how many."""
Place = tuple[str, str]
"""Account and container."""


@dataclass(frozen=True)
class Filled:
    """A filled set: what the store lists. `reused`: it held it already; `put` objects were
    written in `fill_s`, after the `resumed` ones of a filling that was stopped; `listed`
    containers were listed in `list_s`.
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
    """Make `store` hold `objects` and list them back. Every request is bounded. Raises
    SvloadError fill-failed, interrupted.

    Sizes and MD5s of the listing are compared with what was sent. Of a store that was filled before, some
    containers are listed and compared; where one differs, all are, and what is missing is put. `images` is
    the folder that keeps pictures.
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
    """Every object in the set's accounts, as the server itself lists them, page by page."""
    return _list(StoreApi(store), objects, on_progress or (lambda what, done, of: None))


def table_of(held: Held) -> ObjectTable:
    """As a listing tells of it: by account, container and name."""
    paths = sorted(held, key=lambda path: path.split("/"))
    return ObjectTable(
        tuple(paths), tuple(held[one][0] for one in paths), tuple(held[one][1] for one in paths)
    )


def entries(table: ObjectTable) -> Held:
    """By path: size and digest."""
    rows = zip(table.paths, table.sizes_bytes, table.digests, strict=True)
    return {path: (size, digest) for path, size, digest in rows}


def _maker(objects: ObjectSet, seed: int, images: Path | None) -> Callable[[PlannedObject], bytes]:
    if objects.content == "jpeg":
        assert images is not None, "pictures are kept somewhere"
        pictures = Images(images)
        return lambda one: pictures.content(one.path, one.size_bytes, seed)
    return lambda one: content(one.path, one.size_bytes, seed)


class _Putting:
    """Makes containers and puts objects, but for those that are noted; `count` were put."""

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
        """All that was put, now or before."""
        return self._kept.objects

    def containers(self) -> None:
        """Those of the set, readable by anybody; an account's first before its others.

        Swift makes an account with its first container, and answers 404 to a second one that comes meanwhile.
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
        """Those that are not noted."""

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
        """Put what was noted and is not found: a store that was killed may have lost what it had just answered for."""
        self._kept.forget_but(found)
        self.objects(planned)


def _listed(
    api: StoreApi, objects: ObjectSet, put: _Putting, planned: Sequence[PlannedObject], tell: OnProgress
) -> ObjectTable:
    """The listing, once it is what was put. What a filling before this one put and is not there is put once more."""
    deadline = time.monotonic() + CONSISTENT_WITHIN_S
    mended = put.count == len(planned)
    while True:
        table = _list(api, objects, tell)
        found = entries(table)
        if found == put.sent:
            return table
        if not mended:
            mended = True
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
    """How many containers were listed and found as they were left; 0: one differs. Each time others are."""
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
    """Every account page by page, then every container of it that is of the set."""
    planned, accounts = set(planned_containers(objects)), planned_accounts(objects)
    names = api.each(accounts, lambda session, account: list(session.names(f"/v1/{account}")))
    places = [(account, name) for account, found in zip(accounts, names, strict=True) for name in found]
    return _walk(api, [place for place in places if place in planned], objects.count, tell)


def _walk(api: StoreApi, places: Iterable[Place], count: int, tell: OnProgress) -> ObjectTable:
    rows: dict[Place, list[tuple[str, int, str]]] = {}
    told = 0

    def walk(session: Session, place: Place) -> None:
        nonlocal told
        base = f"/v1/{quote(place[0])}/{quote(place[1])}"
        rows[place] = [
            (f"{base}/{quote(one['name'])}", int(one["bytes"]), str(one["hash"]))
            for one in session.pages(base)
        ]
        told += len(rows[place])
        if len(rows) % SAY_EVERY == 0:
            tell("list", told, count)

    api.each(list(places), walk)
    found = [entry for place in sorted(rows) for entry in rows[place]]
    tell("list", len(found), count)
    return ObjectTable(tuple(e[0] for e in found), tuple(e[1] for e in found), tuple(e[2] for e in found))

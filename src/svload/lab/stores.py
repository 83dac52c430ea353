"""The sets of objects in a lab's stores: filled once, and again after a restart that lost them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from svload.lab.data import Filled, OnProgress, fill, list_urls
from svload.lab.objects import ObjectTable, fill_key, planned_containers
from svload.model.errors import fail
from svload.model.events import Event
from svload.model.facts import ServiceFacts
from svload.model.study import ObjectSet

SAY_EVERY_S = 10.0
_DOING = {"make": "Filling", "put": "Filling", "list": "Listing"}
_OF = {"make": "containers", "put": "objects", "list": "objects"}


class Stores:
    """The sets of a lab that were filled. `hold(server, key)` makes a store's server use the data of that
    name and returns its facts.

    `servers(service)` are a store's servers: each of several replicas has all objects, since requests go to
    any of them. `images` is the folder where pictures are kept.
    """

    def __init__(
        self,
        hold: Callable[[str, str], ServiceFacts],
        servers: Callable[[str], Sequence[str]],
        tell: Callable[[Event], None],
        logs: Path,
        should_stop: Callable[[], bool],
        images: Path,
    ) -> None:
        self._hold, self._servers = hold, servers
        self._tell, self._logs, self._should_stop = tell, logs, should_stop
        self._images = images
        self._keys: dict[str, str] = {}
        self._sets: dict[str, tuple[ObjectSet, int, Filled]] = {}
        self._facts: dict[str, ServiceFacts] = {}

    def filled(self) -> dict[str, Filled]:
        """Return the contents of each set."""
        return {name: filled for name, (_, _, filled) in self._sets.items()}

    def holds(self, objects: ObjectSet) -> bool:
        """Return whether exactly this set was filled."""
        held = self._sets.get(objects.name)
        return held is not None and held[0] == objects

    def fill_all(self, objects: Sequence[ObjectSet], seed: int) -> dict[str, dict[str, list[Any]]]:
        """Fill the missing sets; return each table's columns. A store's data is named after all its sets. Raises
        SvloadError fill-failed."""
        for service in {one.service for one in objects}:
            sets = [one for one in objects if one.service == service]
            places = [place for one in sets for place in planned_containers(one)]
            if len(set(places)) < len(places):  # filling one would delete or overwrite another's objects
                reason = f"{' and '.join(one.name for one in sets)} have containers with the same names"
                raise fail("fill-failed", service=service, reason=reason, log=self._logs / service)
            self._keys.setdefault(service, fill_key(sets, seed))
        return {one.table: self.fill(one, seed).table.columns() for one in objects if not self.holds(one)}

    def fill(self, objects: ObjectSet, seed: int, only: Collection[str] = ()) -> Filled:
        """Fill a set in each server of its store (or `only` in these), or find it filled there; return the
        last one's. Raises SvloadError fill-failed."""
        key = self._keys.setdefault(objects.service, fill_key([objects], seed))
        before = self._sets.get(objects.name)
        table = before[2].table if before and before[:2] == (objects, seed) else None
        for server in only or self._servers(objects.service):
            self._facts[server] = self._hold(server, key)
            found = fill(
                objects,
                self._facts[server],
                seed,
                images=self._images,
                on_progress=self._say_progress(server),
                should_stop=self._should_stop,
            )
            for text in _notices(server, objects, found):
                self._tell(Event("notice", {"text": text}))
            if table not in (None, found.table):
                reason = "it holds different objects than before its restart, or than another of its servers"
                raise fail("fill-failed", service=server, reason=reason, log=self._logs / server)
            table = found.table
        self._sets[objects.name] = objects, seed, found
        return found

    def listed(self, objects: ObjectSet) -> ObjectTable:
        """Return every URL of the set's accounts, as the first server of its filled store lists them now."""
        facts = self._facts[self._servers(objects.service)[0]]
        return list_urls(objects, facts, self._say_progress(objects.service))

    def refill(self, restarted: Iterable[str]) -> None:
        """Fill the sets of these restarted servers again."""
        names = set(restarted)
        for objects, seed, _ in list(self._sets.values()):
            if own := [name for name in self._servers(objects.service) if name in names]:
                self.fill(objects, seed, own)

    def forget_but(self, objects: Sequence[ObjectSet]) -> set[str]:
        """Return the stores that have a set not among these, and forget their sets."""
        outdated = {held.service for held, _, _ in self._sets.values() if held not in objects}
        self._sets = {name: one for name, one in self._sets.items() if one[0].service not in outdated}
        for store in outdated:
            self._keys.pop(store, None)
        return outdated

    def _say_progress(self, service: str) -> OnProgress:
        """Return a callback that reports the progress of a long filling from time to time."""
        last = time.monotonic()

        def progress(what: str, done: int, of: int) -> None:
            nonlocal last
            if time.monotonic() - last > SAY_EVERY_S:
                last = time.monotonic()
                self._tell(
                    Event("notice", {"text": f"{_DOING[what]} {service}: {done:,} of {of:,} {_OF[what]}."})
                )

        return progress


def _notices(service: str, objects: ObjectSet, found: Filled) -> Iterator[str]:
    """Yield a sentence if existing objects were used."""
    count = len(found.table)
    if found.reused and found.listed < objects.containers:
        some = f"{found.listed} of its {objects.containers:,} containers were listed and compared"
        yield f"{service} holds its {count:,} objects from an earlier run; {some}."
    elif found.reused:
        yield f"{service} holds its {count:,} objects from an earlier run; they were listed and compared."
    elif found.resumed:
        had = f"{service} had {found.resumed:,} of its {count:,} objects from a filling that was stopped"
        yield f"{had}; {found.put:,} were put."

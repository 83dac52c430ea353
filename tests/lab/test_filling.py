"""Filling a store: recognised by a sample, continued after a kill, repaired, listed page by page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.evolve import evolve
from tests.lab.store import expected_table
from tests.servers import wait_until

from svload.lab import data, store_api
from svload.lab.data import Filled, fill, list_urls
from svload.lab.objects import fill_key, planned_containers, planned_objects
from svload.lab.stores import Stores
from svload.model.errors import SvloadError
from svload.model.facts import ServiceFacts
from svload.model.study import ObjectSet

from .store import Store, running

SIZE = {"constant": 300}
OBJECTS = ObjectSet(name="objects", service="store", accounts=7, containers=20, count=90, size=SIZE)
SEED = 5


def filled(facts: ServiceFacts, objects: ObjectSet = OBJECTS, **more: Any) -> Filled:
    return fill(objects, facts, SEED, **more)


def test_a_filled_store_is_found_again_by_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "SAMPLE", 6)
    store = Store()
    with running(store, tmp_path) as facts:
        first = filled(facts)
        assert (first.reused, first.put, first.resumed) == (False, 90, 0)
        assert first.table == expected_table(planned_objects(OBJECTS, SEED), SEED)
        store.listings.clear()
        again = filled(facts)
    assert again.reused
    assert again.table == first.table, "in the order of a listing"
    assert (again.listed, len(store.listings)) == (6, 6)
    assert len(store.puts) == 90


def test_sets_that_share_containers_are_refused(tmp_path: Path) -> None:
    """Filling one would delete the other's objects."""
    store = Store()
    with running(store, None) as facts:
        stores = Stores(lambda name, key: facts, lambda event: None, tmp_path, lambda: False, tmp_path)
        sets = [evolve(OBJECTS, name=name, count=count) for name, count in (("a-b", 90), ("ab", 45))]
        with pytest.raises(SvloadError, match="a-b and ab have the same names of containers"):
            stores.fill_all(sets, SEED)
    assert not store.puts


class MakingAccounts(Store):
    """Like Swift: the first container makes an account, and a second one meanwhile is answered with 404."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.made = set[str](), set[str]()
        self.second_came = threading.Event()

    def put(self, path: str, body: bytes, kind: str) -> int:
        account = path.rpartition("/")[0]
        if path.count("/") == 3 and account not in self.made:
            with self._lock:
                first = account not in self.begun
                self.begun.add(account)
            if not first:
                self.second_came.set()
                return 404
            self.second_came.wait(0.3)
            self.made.add(account)
        return super().put(path, body, kind)


def test_an_account_is_made_before_its_second_container() -> None:
    store = MakingAccounts()
    with running(store, None) as facts:
        filled(facts, evolve(OBJECTS, accounts=1))
    assert len(store.containers) == 20
    assert not store.second_came.is_set()


@pytest.mark.parametrize("loss", ["object", "changed", "container", "none, but traffic put one"])
def test_what_a_kept_store_lost_is_put_again(tmp_path: Path, loss: str) -> None:
    store = Store()
    with running(store, tmp_path) as facts:
        first = filled(facts)
        path, lost = first.table.paths[40], 1
        if loss == "object":
            del store.objects[path]
        elif loss == "changed":
            store.objects[path] = b"other"
        elif loss.startswith("none"):
            store.objects[f"{path}-of traffic"], lost = b"other", 0
        else:
            folder = path.rpartition("/")[0]
            store.containers.discard(folder)
            kept = {one: body for one, body in store.objects.items() if not one.startswith(folder)}
            lost, store.objects = len(store.objects) - len(kept), kept
        store.puts.clear()
        again = filled(facts)
        assert not again.reused
        assert again.table == first.table
        assert again.put == len(store.puts) == lost
        assert filled(facts).reused


@pytest.mark.parametrize("forgotten", [0, 3])
def test_a_filling_that_failed_goes_on_where_it_was(tmp_path: Path, forgotten: int) -> None:
    """What the store forgot at its end is put once more."""
    store = Store()
    store.dies_after = 50
    with running(store, tmp_path) as facts:
        with pytest.raises(SvloadError, match="answered 500"):
            filled(facts)
        for path in store.puts[10 : 10 + forgotten]:
            del store.objects[path]
        store.dies_after = None
        done = filled(facts)
    assert (done.resumed, done.put) == (50, 40 + forgotten)
    assert len(store.puts) - len(set(store.puts)) == forgotten
    assert done.table == expected_table(planned_objects(OBJECTS, SEED), SEED)
    assert not list(tmp_path.glob("filling-*")), "the notes have served"


def test_half_a_line_of_notes_is_no_note(tmp_path: Path) -> None:
    objects = planned_objects(OBJECTS, SEED)
    notes = tmp_path / f"filling-{fill_key([OBJECTS], SEED)}.jsonl"
    table = expected_table(objects, SEED)
    store = Store()
    with running(store, tmp_path) as facts:
        filled(facts)
        next(tmp_path.glob("filled-*")).unlink()
        whole = json.dumps([table.paths[0], table.sizes_bytes[0], table.digests[0]])
        half = json.dumps([table.paths[1], table.sizes_bytes[1], table.digests[1]])[:-9]
        notes.write_text(f"{whole}\nnonsense\n{half}")
        done = filled(facts)
    assert (done.resumed, done.put) == (1, 89)


KILLED = textwrap.dedent(
    """
    import sys
    from svload.lab.data import fill
    from svload.model.facts import ServiceFacts
    from svload.model.study import ObjectSet
    facts, objects, seed = sys.argv[1:]
    fill(ObjectSet.model_validate_json(objects), ServiceFacts.model_validate_json(facts), int(seed))
    """
)


@pytest.mark.parametrize("at", [1, 400, 900])
def test_kill_9_while_it_fills_loses_nothing(tmp_path: Path, at: int) -> None:
    objects = evolve(OBJECTS, count=1500)
    store = Store()
    with running(store, tmp_path) as facts:
        words = [facts.model_dump_json(), objects.model_dump_json(), str(SEED)]
        child = subprocess.Popen([sys.executable, "-c", KILLED, *words])
        try:
            wait_until(lambda: len(store.puts) >= at)
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.wait(HANG_S)
        before = len(store.puts)
        assert before < 1500, "it was killed before its end"
        done = filled(facts, objects)
        assert done.table == expected_table(planned_objects(objects, SEED), SEED)
    twice = len(store.puts) - len(set(store.puts))
    assert twice <= 2 * 64 + store_api.PARALLEL, "what it had noted was not put again"
    assert done.resumed >= before - 2 * 64 - store_api.PARALLEL


def test_every_account_is_listed_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = ObjectSet(name="o", service="store", accounts=2, containers=9, count=100, size={"constant": 10})
    store = Store()
    with running(store, None) as facts:
        table = filled(facts, objects).table
        monkeypatch.setattr(store_api, "PAGE", 3)
        store.listings.clear()
        assert list_urls(objects, facts) == table
    assert len(table) == 100
    # 5 and 4 containers an account, 11 or 12 objects a container: the page that is not full ends a listing
    assert store.listings.count("/v1/AUTH_a00000") == 2
    assert store.listings.count("/v1/AUTH_a00000/o-00000") == 5
    assert len(planned_containers(objects)) == 9


def test_pictures_are_sent_as_pictures(tmp_path: Path) -> None:
    objects = evolve(OBJECTS, content="jpeg", size={"constant": 3000}, count=12)
    store = Store()
    with running(store, tmp_path / "data") as facts:
        done = filled(facts, objects, images=tmp_path / "images")
    assert {len(body) for body in store.objects.values()} == {3000}
    assert all(body[:3] == b"\xff\xd8\xff" and body[-2:] == b"\xff\xd9" for body in store.objects.values())
    assert set(store.types.values()) == {"image/jpeg"}
    assert len(set(done.table.digests)) == 12, "no two are alike"

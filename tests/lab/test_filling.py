"""Filling a store: recognised, continued after a kill, repaired, listed page by page; and valid pictures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.evolve import evolve
from tests.lab.store import expected_table
from tests.servers import wait_until

from svload.lab import data, store_api
from svload.lab.data import Filled, fill, list_urls
from svload.lab.images import Images
from svload.lab.objects import LEAST_IMAGE_BYTES, fill_key, planned_containers, planned_objects
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
    assert (again.reused, again.listed, len(store.listings), len(store.puts)) == (True, 6, 6, 90)
    assert again.table == first.table, "in the order of a listing"


def stores_of(facts: Mapping[str, ServiceFacts], folder: Path) -> Stores:
    """Return the stores of a lab with one service, by its servers."""
    silent = (lambda event: None, folder, lambda: False)
    return Stores(lambda name, key: facts[name], lambda service: list(facts), *silent, folder)


def test_each_server_of_a_store_has_all_objects(tmp_path: Path) -> None:
    """What distributes requests over replicas sends any of them to any server."""
    one, two = Store(), Store()
    with running(one, None) as first, running(two, None) as second:
        stores = stores_of({"store[1]": first, "store[2]": second}, tmp_path)
        table = stores.fill_all([OBJECTS], SEED)["objects"]
        assert list(one.objects) and one.objects == two.objects
        assert stores.listed(OBJECTS).columns() == table
        two.objects.clear()
        stores.refill(["store[2]"])
    assert one.objects == two.objects
    assert (len(one.puts), len(two.puts)) == (90, 180), "only the restarted server is filled again"


def test_sets_that_share_containers_are_refused(tmp_path: Path) -> None:
    """Filling one would delete the other's objects."""
    store = Store()
    with running(store, None) as facts:
        stores = stores_of({"store": facts}, tmp_path)
        sets = [evolve(OBJECTS, name=name, count=count) for name, count in (("a-b", 90), ("ab", 45))]
        with pytest.raises(SvloadError, match="a-b and ab have containers with the same names"):
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


KILLED = """
import sys
from svload.lab.data import fill
from svload.model.facts import ServiceFacts
from svload.model.study import ObjectSet
facts, objects, seed = sys.argv[1:]
fill(ObjectSet.model_validate_json(objects), ServiceFacts.model_validate_json(facts), int(seed))
"""


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


def test_every_account_is_listed_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return Images(tmp_path_factory.mktemp("images"))


def segments(file: bytes) -> Iterator[tuple[int, bytes]]:
    """Return marker and content of each segment up to the scan. Raise AssertionError if it is no JPEG."""
    assert file[:2] == b"\xff\xd8"
    at = 2
    while True:
        assert file[at] == 0xFF, at
        marker, length = file[at + 1], int.from_bytes(file[at + 2 : at + 4], "big")
        yield marker, file[at + 4 : at + 2 + length]
        at += 2 + length
        if marker == 0xDA:
            break
    assert file.endswith(b"\xff\xd9")


def pixels(file: bytes) -> int:
    frame = next(content for marker, content in segments(file) if marker in (0xC0, 0xC1, 0xC2))
    return int.from_bytes(frame[1:3], "big") * int.from_bytes(frame[3:5], "big")


SIZES = [LEAST_IMAGE_BYTES, 1025, 1100, 4096, 40_960, 65_000, 409_600, 1_400_000, 2_500_003]


@pytest.mark.parametrize("size", SIZES)
def test_a_picture_has_exactly_its_size_and_is_whole(images: Images, size: int) -> None:
    file = images.content("/v1/a/c/o", size, 3)
    assert len(file) == size
    found = [marker for marker, _ in segments(file)]
    assert {0xDB, 0xC4, 0xDA} <= set(found), "tables and a scan"
    assert 0xFE in found


def test_every_length_of_comment_closes(images: Images) -> None:
    whole = [len(images.content("/o", size, 1)) for size in range(1500, 1600)]
    assert whole == list(range(1500, 1600))
    for extra in range(65_530, 65_550):  # about the most that one comment holds
        size = 2_000_000 + extra
        file = images.content("/o", size, 1)
        assert len(file) == size
        list(segments(file))


def test_larger_files_have_larger_pictures(images: Images) -> None:
    areas = [pixels(images.content("/o", size, 1)) for size in SIZES[:-1]]
    assert areas == sorted(areas)
    assert areas[-1] > 100 * areas[0]
    found = segments(images.content("/o", 40_960, 1))
    comments = sum(len(content) for marker, content in found if marker == 0xFE)
    assert comments < 0.4 * 40_960, "most of it is picture"


def test_seed_and_path_decide(images: Images) -> None:
    one = images.content("/v1/a/c/o1", 5000, 1)
    assert one == images.content("/v1/a/c/o1", 5000, 1)
    assert one == Images(images._home.parent).content("/v1/a/c/o1", 5000, 1), "kept, not drawn anew"
    assert one != images.content("/v1/a/c/o2", 5000, 1)
    assert one != images.content("/v1/a/c/o1", 5000, 2)


def test_what_is_too_small_is_no_picture(images: Images) -> None:
    with pytest.raises(ValueError, match="1024 at least"):
        images.content("/o", 600, 1)
    law = {"lognormal": {"median": 1500, "p99": 20_000}}
    few = ObjectSet(name="o", service="s", count=300, size=law, content="jpeg")
    assert min(one.size_bytes for one in planned_objects(few, 1)) == LEAST_IMAGE_BYTES
    raw = evolve(few, content="random")
    assert min(one.size_bytes for one in planned_objects(raw, 1)) < LEAST_IMAGE_BYTES
    assert fill_key([few], 1) != fill_key([raw], 1)

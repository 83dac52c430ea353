"""Swift behind Varnish, both with TLS fronts: the lab of the svLoad study, small."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve

from svload.host import Agent
from svload.lab import Lab, install
from svload.lab.kits.swift import canonical
from svload.model.facts import Endpoint
from svload.model.study import ObjectSet, ServiceSpec

from .conftest import fetched, settled

SPECS = (
    ServiceSpec(name="backend", kit="swift", options={"tls": "hitch", "nofile": 4096}),
    ServiceSpec(name="cache", kit="varnish", options={"of": "backend", "tls": "hitch"}),
)
OBJECTS = ObjectSet(
    name="objects",
    service="backend",
    accounts=2,
    containers=4,
    count=20,
    size={"lognormal": {"median": 4096, "p99": 40960}},
)
CASES = [("http", "backend"), ("https", "backend"), ("http", "cache"), ("https", "cache")]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def lab(tmp_path: Path, agent: Agent, cache: Path, needs: Any) -> Iterator[Lab]:
    needs("memcached", "varnishd", "hitch")
    install(SPECS, cache)
    made = Lab(SPECS, agent, tmp_path / "work", cache)
    yield made
    made.down()


def fetch(at: Endpoint, path: str, **headers: str) -> bytes:
    [(status, body)] = fetched(at, path, **headers)
    assert status == 200, (path, status, body[:200])
    return body


@pytest.mark.real
def test_objects_are_listed_fetched_and_cached(lab: Lab, agent: Agent, tmp_path: Path, cache: Path) -> None:
    facts = lab.up()
    table = lab.stores.fill(OBJECTS, seed=7).table.columns()
    assert len(table["path"]) == 20
    assert not lab.stores.filled()["objects"].reused
    at = lab.endpoints()
    bodies = {}
    for scheme, service in CASES:
        for path, size, digest in list(zip(table["path"], table["size_bytes"], table["digest"], strict=True))[
            :5
        ]:
            body = fetch(at[f"{scheme}://{service}"], path)
            assert (len(body), hashlib.md5(body).hexdigest()) == (size, digest), (scheme, service, path)
            bodies[path] = body

    proof = lab.reset(["cache", "backend"])
    assert proof["cache"]["n_object"] == 0
    assert proof["backend"]["cmd_flush"] >= 1
    before = {name: one.values for name, one in lab.counters().items()}
    path, size = table["path"][0], table["size_bytes"][0]
    for _ in range(10):
        fetch(at["http://cache"], path)
    for number in range(3):
        fetch(at["https://cache"], path, X_Cold=f"cold-{number}")
    for _ in range(5):
        fetch(at["https://backend"], path)
    wanted = {"requests": 13.0, "hits": 9.0, "misses": 4.0, "body_bytes_out": 13.0 * size}
    assert settled(lab, "cache", wanted, before["cache"]) == wanted
    wanted = {"requests": 9.0, "status.200": 9.0, "body_bytes_out": 9.0 * size}
    assert settled(lab, "backend", wanted, before["backend"]) == wanted
    assert lab.counters()["backend"].raw["statsd.dropped"] == 0

    settings = {(name, one.name): one.found for name, some in lab.facts().items() for one in some.settings}
    assert settings["backend", "nofile"] == "4096"
    assert settings["backend", "proxy_workers"] == "2"
    asked = {one.name: one.asked for one in lab.facts()["backend"].settings}
    assert (asked["node_timeout"], asked["conn_timeout"], asked["backlog"]) == ("30", "5", "4096")
    workers = facts["backend"].admin["workers"]
    assert workers == {"port": at["http://backend"].port, "connections": 1024}
    assert [process.name for process in facts["backend"].processes] == [
        "memcached",
        "account",
        "container",
        "object",
        "proxy",
        "hitch",
    ]
    key = (tmp_path / "work/services/backend/filler.key").read_text().strip()
    assert key not in "".join(one.model_dump_json() for one in lab.facts().values()), (
        "secrets reach no artefact"
    )

    assert lab.apply([evolve(SPECS[0], options={**SPECS[0].options, "memcache_pool": 10}), SPECS[1]]) == [
        "backend",
        "cache",
    ]
    assert lab.stores.filled()["objects"].reused, "what it stores outlives a restart"
    assert fetch(lab.endpoints()["https://cache"], path) == bodies[path]
    processes = [process.pid for one in lab.facts().values() for process in one.processes]
    lab.down()
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)
    assert not (tmp_path / "work/services").exists()

    again = Lab(SPECS, agent, tmp_path / "again", cache)
    try:
        again.up()
        assert again.stores.fill(OBJECTS, seed=7).table.columns() == table
        assert again.stores.filled()["objects"].reused
        assert fetch(again.endpoints()["http://backend"], path) == bodies[path]
    finally:
        again.down()


def test_what_the_proxy_asks_itself_is_no_request() -> None:
    sums = {
        "proxy-server.object.GET.200.timing": 5.0,
        "proxy-server.object.GET.200.first-byte.timing": 5.0,
        "proxy-server.object.policy.0.GET.200.timing": 5.0,
        "proxy-server.object.GET.200.xfer": 500.0,
        "proxy-server.object.GET.503.timing": 2.0,
        "proxy-server.container.HEAD.204.timing": 9.0,
        "proxy-server.object.PUT.201.xfer": 70.0,
    }
    found = canonical({"sums": sums, "datagrams": 40, "dropped": 1}, at_ns=1)
    assert found.values == {
        "requests": 7,
        "answers": 7,
        "status.200": 5,
        "status.503": 2,
        "body_bytes_out": 500,
    }
    assert found.raw["statsd.dropped"] == 1
    assert not found.exact

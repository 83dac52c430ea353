"""Swift behind Varnish, both with TLS fronts: a small svLoad lab; and the collector of its counters."""

from __future__ import annotations

import hashlib
import select
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.evolve import evolve

from svload.host import Agent
from svload.lab import Lab, install
from svload.lab.kits.swift import canonical
from svload.lab.tools import collector
from svload.lab.tools.collector import Sums
from svload.model.facts import Endpoint
from svload.model.study import ObjectSet, ServiceSpec

from .conftest import fetched, gone, settled

SPECS = (
    ServiceSpec(name="backend", kit="swift", options={"tls": "hitch", "nofile": 4096}),
    ServiceSpec(name="cache", kit="varnish", options={"of": "backend", "tls": "hitch"}),
)
SIZE = {"lognormal": {"median": 4096, "p99": 40960}}
OBJECTS = ObjectSet(name="objects", service="backend", accounts=2, containers=4, count=20, size=SIZE)
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
    rows = list(zip(table["path"], table["size_bytes"], table["digest"], strict=True))
    for scheme, service in CASES:
        for path, size, digest in rows[:5]:
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
    names = ["memcached", "account", "container", "object", "proxy", "hitch"]
    assert [process.name for process in facts["backend"].processes] == names
    key = (tmp_path / "work/services/backend/filler.key").read_text().strip()
    assert not any(key in one.model_dump_json() for one in lab.facts().values()), "secrets are in no artefact"

    pooled = evolve(SPECS[0], options={**SPECS[0].options, "memcache_pool": 10})
    assert lab.apply([pooled, SPECS[1]]) == ["backend", "cache"]
    assert lab.stores.filled()["objects"].reused, "what it stores outlives a restart"
    assert fetch(lab.endpoints()["https://cache"], path) == bodies[path]
    processes = [process.pid for one in lab.facts().values() for process in one.processes]
    lab.down()
    assert gone(processes)
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
    statuses = {"status.200": 5, "status.503": 2}
    assert found.values == {"requests": 7, "answers": 7, "body_bytes_out": 500} | statuses
    assert found.raw["statsd.dropped"] == 1
    assert not found.exact


def test_statsd_lines_are_summed_and_rubbish_ignored() -> None:
    sums = Sums()
    sums.add(b"a.b:3.25|ms")
    sums.add(b"a.b:1|ms\na.bytes:100|c")
    sums.add(b"a.bytes:7|c|@0.5")
    sums.add(b"rubbish")
    sums.add(b"c:x|c")
    sums.add(b"g:5|g")
    sums.add(b"d:1|c|@0")
    assert sums.sums == {"a.b": 2.0, "a.bytes": 114.0}
    assert sums.datagrams == 7


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_sums_of_more_than_a_datagram_are_answered(address: str) -> None:
    sums = Sums()
    for number in range(5_000):
        sums.add(f"proxy-server.object.GET.{number}.timing:1|ms".encode())
    with collector._bound(address, 0) as statsd, ThreadPoolExecutor(1) as other:
        port = statsd.getsockname()[1]
        asked = other.submit(collector.ask, address, port, HANG_S)
        select.select([statsd], [], [], HANG_S)
        collector._drain(statsd, port, sums)
        assert asked.result()["sums"] == sums.sums

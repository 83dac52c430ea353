"""Kits of real servers, brought up, asked, reset and taken down."""

from __future__ import annotations

import http.client
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from svload.lab import Lab, memcache
from svload.model.facts import Counters, Endpoint
from svload.model.study import ObjectSet, ServiceSpec

pytestmark = pytest.mark.real


def spec(name: str, kit: str, **options: Any) -> ServiceSpec:
    return ServiceSpec(name=name, kit=kit, options=options)


def ask(endpoint: Endpoint, name: str, path: str, times: int = 1, **headers: str) -> list[tuple[int, int]]:
    """(status, body bytes) of GETs over one connection; TLS is verified against the lab's authority, by the service's name."""
    if endpoint.scheme == "https":
        context = ssl.create_default_context(cadata=endpoint.ca_pem)
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            "localhost", endpoint.port, context=context, timeout=10
        )
    else:
        connection = http.client.HTTPConnection(endpoint.address, endpoint.port, timeout=10)
    found = []
    try:
        for number in range(times):
            connection.request(
                "GET",
                path,
                headers={
                    "Host": name,
                    **{key.replace("_", "-"): value.format(number) for key, value in headers.items()},
                },
            )
            answer = connection.getresponse()
            found.append((answer.status, len(answer.read())))
    finally:
        connection.close()
    return found


def settled(lab: Lab, service: str, wanted: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """The service's counters since `before`, read again until `wanted` is reached, for at most its settle time and a bit."""
    deadline = time.monotonic() + lab.facts()[service].settle_s + 5.0
    while True:
        values = lab.counters()[service].values
        found = {key: values[key] - before[key] for key in wanted}
        if found == wanted or time.monotonic() > deadline:
            return found


def gone(lab_pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in lab_pids)


@pytest.fixture
def lab_of(tmp_path: Path, host: Any) -> Any:
    labs: list[Lab] = []

    def make(*specs: ServiceSpec) -> Lab:
        labs.append(Lab(specs, host, tmp_path / "work", tmp_path / "cache", study_dir=tmp_path))
        return labs[-1]

    yield make
    for lab in labs:
        lab.down()


def test_nginx_serves_files_over_both_schemes_and_counts_its_own_ports(lab_of: Any, needs: Any) -> None:
    needs("nginx")
    lab = lab_of(
        spec(
            "site",
            "nginx",
            files={"/1k": "1 KiB", "/deep/b": 70000},
            tls=True,
            backlog=333,
            workers=2,
            tuning={"keepalive_requests": 5000},
        )
    )
    facts = lab.up()["site"]
    at = lab.endpoints()
    before = lab.counters()["site"].values
    assert before["file_bytes"] == 1024 + 70000
    assert before["file_resident_bytes"] == before["file_bytes"], "what was just written is in the page cache"
    assert ask(at["http://site"], "site", "/1k", times=3) == [(200, 1024)] * 3
    assert ask(at["https://site"], "site", "/deep/b", times=2) == [(200, 70000)] * 2
    assert settled(lab, "site", {"requests": 5, "connections": 2}, before) == {
        "requests": 5,
        "connections": 2,
    }
    assert {setting.name: setting.found for setting in facts.settings} == {"backlog": "333"}
    assert facts.version.startswith("1.")
    pids = [process.pid for process in facts.processes]
    lab.down()
    assert gone(pids)


def test_varnish_counts_true_hits_and_misses_and_forgets_on_reset(lab_of: Any, needs: Any) -> None:
    needs("nginx", "varnishd", "hitch")
    lab = lab_of(
        spec("site", "nginx", files={"/a": 2000}, tls="hitch"),
        spec(
            "cache",
            "varnish",
            of="site",
            storage="64 MiB",
            tls="hitch",
            tuning={
                "thread_pool_min": 20,
                "thread_pool_max": 90,
                "listen_depth": 200,
                "workspace_thread": "4k",
            },
        ),
    )
    facts = lab.up()
    at = lab.endpoints()
    assert set(at) == {"http://site", "https://site", "http://cache", "https://cache"}
    found = {setting.name: (setting.asked, setting.found) for setting in facts["cache"].settings}
    assert found["thread_pool_max"] == ("90", "90")
    assert found["workspace_thread"] == ("4k", "4k")
    assert found["listen_depth"] == ("200", "200")

    def through(scheme: str, wanted: dict[str, float], **headers: str) -> dict[str, float]:
        before = lab.counters()["cache"].values
        assert ask(at[f"{scheme}://cache"], "cache", "/a", times=10, **headers) == [(200, 2000)] * 10
        return settled(lab, "cache", wanted, before)

    first = {"requests": 10.0, "hits": 9.0, "misses": 1.0}
    assert through("http", first) == first
    hits = {"requests": 10.0, "hits": 10.0, "misses": 0.0}
    assert through("https", hits) == hits, "http and https share an entry"
    misses = {"requests": 10.0, "hits": 0.0, "misses": 10.0}
    assert through("http", misses, X_Cold="round-{}") == misses
    assert through("https", misses, X_Cold="other-{}") == misses

    proof = lab.reset(["cache"])["cache"]
    assert (proof["n_object"], proof["client_req"], proof["cache_hit"]) == (0, 0, 0)
    assert through("https", first) == first
    site: Counters = lab.counters()["site"]
    assert site.values["requests"] == 1 + 10 + 10 + 1, "nginx saw the misses and nothing else"
    pids = [process.pid for one in facts.values() for process in one.processes]
    assert len(pids) == 4
    lab.down()
    assert gone(pids)


def test_errors_and_answers_for_credentials_are_not_kept(lab_of: Any, needs: Any) -> None:
    needs("nginx", "varnishd")
    lab = lab_of(spec("site", "nginx", files={"/a": 2000}), spec("cache", "varnish", of="site"))
    lab.up()
    at = lab.endpoints()["http://cache"]
    before = lab.counters()["cache"].values
    assert ask(at, "cache", "/nothing", times=3) == [(404, 153)] * 3 or {
        status for status, _ in ask(at, "cache", "/nothing")
    } == {404}
    assert ask(at, "cache", "/a", times=3, Authorization="Basic none") == [(200, 2000)] * 3
    assert settled(lab, "cache", {"hits": 0.0}, before) == {"hits": 0.0}
    assert lab.counters()["site"].values["requests"] >= 6


def test_memcached_reports_what_it_was_told(lab_of: Any, needs: Any) -> None:
    needs("memcached")
    lab = lab_of(spec("store", "memcached", connections=2048, item_memory="32 MiB"))
    facts = lab.up()["store"]
    assert [end.scheme for end in facts.endpoints] == ["tcp"]
    assert {setting.name: setting.found for setting in facts.settings} == {
        "memcached.connections": "2048",
        "memcached.item_memory_bytes": str(32 << 20),
    }
    where = facts.admin["memcached"]
    assert lab.reset(["store"])["store"]["cmd_flush"] == 1
    assert memcache.stats(where["address"], where["port"])["curr_items"] == "0"
    assert lab.counters()["store"].values["hits"] == 0


def test_a_hitch_front_stands_before_a_truth_server_too(lab_of: Any, needs: Any) -> None:
    needs("hitch")
    lab = lab_of(spec("backend", "truth", role="store", tls="hitch"))
    facts = lab.up()["backend"]
    assert [(one.scheme, one.via) for one in facts.endpoints] == [("http", None), ("https", "hitch")]
    assert [one.name for one in facts.processes] == ["truth", "hitch"]
    objects = ObjectSet(name="few", service="backend", count=3, size={"constant": 100})
    path = lab.fill(objects, seed=3)["path"][0]
    assert ask(lab.endpoints()["https://backend"], "backend", path) == [(200, 100)]

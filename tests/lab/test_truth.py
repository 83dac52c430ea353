"""The embedded lab: store and cache with TLS, configured and asked for their counters."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.lab.store import expected_table

from svload.host import Agent
from svload.lab import Lab, all_kits
from svload.lab.groups import ServiceGroups
from svload.lab.objects import planned_objects
from svload.model.errors import SvloadError
from svload.model.study import ObjectSet, ServiceSpec
from svload.watch.http import AdminConnection

from .conftest import gone, pids_of, settings_of, sizes, spec

pytestmark = pytest.mark.truth
OBJECTS = ObjectSet(name="objects", service="backend", containers=5, count=300, size={"constant": 4096})


def backend(**options: Any) -> ServiceSpec:
    return spec("backend", "truth", **{"role": "store", "service_time": "2 ms", "tls": True} | options)


def cache() -> ServiceSpec:
    return spec("cache", "truth", role="cache", of="backend", service_time="0.5 ms", tls=True)


@pytest.fixture
def lab(up: Any) -> Any:
    return up(cache(), backend())


def filled(lab: Lab) -> dict[str, list[Any]]:
    """Fill the store; return the columns of the table of its objects."""
    return lab.stores.fill(OBJECTS, seed=3).table.columns()


def test_it_counts_what_its_kit_says(lab: Lab) -> None:
    counted = lab.counters()
    for one in (cache(), backend()):
        says = all_kits()[one.kit].counts(one.options)
        assert says
        assert set(says) <= set(counted[one.name].values)
    assert ("hits" in counted["cache"].values, "hits" in counted["backend"].values) == (True, False)


def test_the_embedded_lab_is_filled_listed_loaded_counted_and_reset(lab: Lab) -> None:
    at = lab.endpoints()
    assert list(lab.facts()) == ["cache", "backend"]
    assert set(at) == {"http://cache", "https://cache", "http://backend", "https://backend"}
    table = filled(lab)
    assert table == expected_table(planned_objects(OBJECTS, seed=3), seed=3).columns()

    path = table["path"][17]
    lab.reset(["cache", "backend"])
    before = {name: one.values for name, one in lab.counters().items()}
    assert before["backend"]["requests"] == 0
    assert sizes(at["http://cache"], path, 10) == [(200, 4096)] * 10
    assert sizes(at["https://cache"], path, 5, X_Cold="cold-{}") == [(200, 4096)] * 5
    assert sizes(at["https://backend"], path, 5) == [(200, 4096)] * 5
    found = {name: one.values for name, one in lab.counters().items()}
    assert (found["cache"]["requests"], found["cache"]["hits"], found["cache"]["misses"]) == (15, 9, 6)
    assert found["cache"]["tls_handshakes"] == 1
    assert found["cache"]["body_bytes_out"] == 15 * 4096
    assert (found["backend"]["requests"], found["backend"]["status.200"]) == (11, 11)
    assert "hits" not in found["backend"]

    proof = lab.reset(["cache", "backend"])
    assert (proof["cache"]["requests"], proof["cache"]["cache_objects"]) == (0, 0)
    assert proof["backend"]["requests"] == 0
    assert proof["backend"]["store_objects"] == 300, "a store keeps its objects"


def test_a_planted_fault_acts_until_the_next_case(lab: Lab) -> None:
    at, path = lab.endpoints()["http://cache"], filled(lab)["path"][0]
    assert not lab.plant("backend", "no-hits")
    lab.reset(["cache"])
    assert lab.plant("cache", "no-hits")
    sizes(at, path, 4)
    assert lab.counters()["cache"].values["hits"] == 0
    assert lab.apply([cache(), backend()]) == []
    sizes(at, path, 4)
    assert lab.counters()["cache"].values["hits"] == 3


def test_live_options_change_without_a_restart_and_others_with_one(lab: Lab) -> None:
    before, path = lab.facts(), filled(lab)["path"][0]
    assert lab.apply([cache(), backend(service_time="300 ms", queue_limit=50)]) == []
    assert lab.facts()["backend"].processes == before["backend"].processes
    running = AdminConnection(lab.facts()["backend"].admin["truth"]["url"]).get_json("/config")
    assert (running["queue_limit"], running["service_time"]) == (50, {"constant_ns": 300_000_000})
    assert lab.apply([cache(), backend(rate_limit="1 MiB/s")]) == []
    assert settings_of(lab.facts()["backend"])["rate_limit"] == str(1 << 20)

    assert lab.apply([cache(), backend(backlog=64)]) == ["cache", "backend"]
    assert lab.facts()["backend"].processes != before["backend"].processes
    assert settings_of(lab.facts()["backend"]) == {"backlog": "64"}
    answers = sizes(lab.endpoints()["http://cache"], path, 2)
    assert answers == [(200, 4096)] * 2, "a store that lost its objects is filled again"

    again = [cache(), backend(backlog=64, queue_limit=50)]
    assert lab.apply(again, restart=True) == ["cache", "backend"]
    assert sizes(lab.endpoints()["https://cache"], path) == [(200, 4096)]


def test_what_happens_to_one_replica_is_reported_of_it(up: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = {"role": "store", "replicas": 2}
    lab = up(spec("store", "truth", **store))
    assert lab.apply([spec("store", "truth", **store, rate_limit="1 MiB/s")]) == []
    assert settings_of(lab.facts()["store"])["rate_limit"] == str(1 << 20)
    monkeypatch.setattr(ServiceGroups, "oom_kills", lambda self, name: int(name == "store[2]"))
    found = [(one.code, one.details["service"]) for one in lab.alive()]
    assert found == [("service-out-of-memory", "store[2]")]


def test_a_change_that_a_dead_server_cannot_take_loses_no_other(lab: Lab, host: Agent) -> None:
    processes = pids_of(*lab.facts().values())
    host.stop(["backend.truth"], now=True)
    with pytest.raises(SvloadError, match=r"backend\.truth exited"):
        lab.apply([backend(service_time="300 ms")])
    assert lab.apply(lab.specs, restart=True) == ["cache", "backend"]
    assert gone(processes)


@pytest.mark.timing("server")
def test_an_answer_takes_the_service_time_that_is_set_now(lab: Lab) -> None:
    path = filled(lab)["path"][0]

    def answered_s() -> float:
        began = time.monotonic()
        sizes(lab.endpoints()["http://backend"], path, 5)
        return (time.monotonic() - began) / 5

    assert 0.002 < answered_s() < 0.02
    lab.apply([cache(), backend(service_time="300 ms")])
    assert 0.3 < answered_s() < 0.32


def test_who_wants_out_does_not_wait_for_the_filling(up: Any) -> None:
    wanted = [False]
    lab = up(backend(), should_stop=lambda: wanted[0])
    wanted[0] = True
    with pytest.raises(SvloadError) as caught:
        lab.stores.fill(OBJECTS, seed=3)
    assert {problem.code for problem in caught.value.problems} == {"interrupted"}

"""A ring of three object servers with three copies: what is where while one is away, and after it."""

from __future__ import annotations

import hashlib
import http.client
import os
import random
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.bounds import HANG_S
from tests.servers import wait_until

from svload.host import Agent
from svload.host.agent.journal import read_entries
from svload.host.process import cgroups
from svload.lab import Lab, install
from svload.lab.kits.swift import SwiftOptions, _daemons
from svload.model.errors import SvloadError
from svload.model.facts import Endpoint
from svload.model.study import ServiceSpec

from .conftest import procs

SPEC = ServiceSpec(
    name="backend",
    kit="swift",
    options={
        "object_servers": 3, "object_replicas": 3, "object_workers": 1, "replicator_interval": "1s", "users": {"lab:writer": "writing"},
        "tuning": {"node_timeout": 3, "conn_timeout": 1},
    },
)  # fmt: skip


def test_copies_need_servers_and_each_is_a_declared_part() -> None:
    with pytest.raises(ValidationError, match="3 copies of each object need as many object_servers, not 2"):
        SwiftOptions(object_servers=2, object_replicas=3)
    assert SwiftOptions(object_servers=3, object_replicas=3).objects == ("object-1", "object-2", "object-3")
    assert SwiftOptions(object_servers=2).servers == ("account", "container", "object-1", "object-2")
    assert SwiftOptions().servers == ("account", "container", "object")
    assert {*SwiftOptions(object_servers=9).servers, "object", "proxy", "memcached"} == {*SwiftOptions.parts}


class Store:
    """A client of Swift's API for one user."""

    def __init__(self, at: Endpoint) -> None:
        self._at, self._token = at, ""
        who = {"X-Auth-User": "lab:writer", "X-Auth-Key": "writing"}
        self._token = self.call("GET", "/auth/v1.0", **who)[1]
        assert self.call("PUT", "/v1/AUTH_lab/c")[0] == 201

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str, bytes]:
        """Return the status, the token if the answer has one, and the body."""
        with closing(http.client.HTTPConnection(self._at.address, self._at.port, timeout=HANG_S)) as line:
            line.request(method, path, body, headers | ({"X-Auth-Token": self._token} if self._token else {}))
            answer = line.getresponse()
            return answer.status, answer.getheader("X-Auth-Token", ""), answer.read()

    def put(self, name: str, body: bytes) -> None:
        # It answers 503 while its storage nodes take longer than the proxy waits for them, as on a busy machine.
        wait_until(lambda: self.call("PUT", f"/v1/AUTH_lab/c/{name}", body)[0] == 201)

    def digest(self, name: str) -> str:
        status, _, body = self.call("GET", f"/v1/AUTH_lab/c/{name}")
        assert status == 200, (name, status)
        return hashlib.md5(body).hexdigest()


def ring(tmp_path: Path, agent: Agent, live: dict[str, tuple[str, ...]]) -> Lab:
    """Return a ring that is not up, whose parts may be given these limits."""
    cache = Path(os.environ.get("SVLOAD_TEST_CACHE") or tmp_path / "cache")
    install((SPEC,), cache)
    return Lab((SPEC,), agent, tmp_path / "work", cache, live_limits=live)


@pytest.fixture
def lab(tmp_path: Path, agent: Agent, needs: Any) -> Iterator[Lab]:
    needs("memcached")
    made = ring(tmp_path, agent, {"backend.object-2": ("cpus", "memory_bytes"), "backend": ("pids",)})
    yield made
    made.down()


@pytest.mark.real
def test_the_ring_reads_on_without_a_server_and_is_whole_after_it(lab: Lab, tmp_path: Path) -> None:
    facts = lab.up()["backend"]
    processes = {process.name: process.pid for process in facts.processes}
    ends = ("", "-replicator", "-updater")
    assert {f"object-{n}{end}" for n in (1, 2, 3) for end in ends} < set(processes)
    store = Store(facts.endpoints[0])
    bodies = {str(n): random.Random(n).randbytes(1000 + 37 * n) for n in range(12)}
    digests = {name: hashlib.md5(body).hexdigest() for name, body in bodies.items()}
    for name in [*bodies][:8]:
        store.put(name, bodies[name])
    devices = tmp_path / "work/services/backend/devices"

    def held() -> list[int]:
        """Return each server's number of objects, while the replicators move them."""
        folders = [os.walk((devices / f"o{n}").resolve()) for n in (1, 2, 3)]
        return [sum(name.endswith(".data") for _, _, names in one for name in names) for one in folders]

    wait_until(lambda: held() == [8, 8, 8])
    kit = lab._here._standing["backend"].kit
    assert kit.parts("object-2") == [f"object-2{end}" for end in ends]
    assert kit.parts("object") == [f"object-{n}{end}" for n in (1, 2, 3) for end in ends]
    assert kit.parts("proxy") == ["proxy"]
    assert kit.parts("") == [*processes]
    with pytest.raises(SvloadError, match="no part “object-4”"):
        kit.parts("object-4")
    groups = [processes[part] for part in kit.parts("object-2")]
    try:
        for group in groups:
            os.killpg(group, signal.SIGSTOP)
        for name in [*bodies][8:]:
            store.put(name, bodies[name])
        wait_until(lambda: held() == [12, 8, 12])  # two copies of three are enough
        assert {name: store.digest(name) for name in bodies} == digests
    finally:
        for group in groups:
            os.killpg(group, signal.SIGCONT)
    wait_until(lambda: held() == [12, 12, 12])
    assert {name: store.digest(name) for name in bodies} == digests


@pytest.mark.real
def test_one_object_server_is_limited_and_restarted(lab: Lab, tmp_path: Path, needs: Any) -> None:
    needs("root")
    pids = {process.name: process.pid for process in lab.up()["backend"].processes}
    journal = [entry for entry in read_entries(tmp_path / "agent") if entry["kind"] == "cgroup"]
    paths = {entry["name"]: entry["paths"] for entry in journal}
    assert set(paths) == {"backend", "backend.collector", "backend.object-2", "backend.rest"}
    mine = {"object-2", "object-2-replicator", "object-2-updater"}

    def members(group: str) -> set[str]:
        """Return which of the service's processes are in the group, in every hierarchy."""
        found = [{name for name, pid in pids.items() if pid in procs(path)} for path in paths[group].values()]
        return set.intersection(*found)

    assert members("backend.object-2") == mine
    assert members("backend.rest") == set(pids) - mine
    assert members("backend") == set()
    limits = {"cpus": 0.3, "memory_bytes": float(300 << 20)}
    assert lab.faults.act("limit", "backend", "object-2", limits) == limits
    assert lab.faults.act("limit", "backend", "", {"pids": 300.0}) == {"pids": 300}
    assert cgroups.read_back(paths["backend.object-2"]) == limits
    assert cgroups.read_back(paths["backend.rest"]) == {}
    store = Store(lab.facts()["backend"].endpoints[0])
    store.put("a", b"whole")
    assert store.digest("a") == hashlib.md5(b"whole").hexdigest()
    lab.faults.act("kill", "backend", "object-2", {})
    lab.faults.act("start", "backend", "object-2", {})
    pids = {process.name: process.pid for process in lab.facts()["backend"].processes}
    assert members("backend.object-2") == mine
    throttled_s = cgroups.throttled_s(paths["backend.object-2"])
    assert throttled_s is not None and throttled_s > 0, "to come up takes more than a third of a core"
    assert lab.faults.heal() == ["backend"]
    assert [cgroups.read_back(paths[name]) for name in ("backend", "backend.object-2")] == [{}, {}]
    with pytest.raises(SvloadError, match="no part “object-4”"):
        lab.faults.act("limit", "backend", "object-4", {"cpus": 1.0})
    assert lab.alive() == []
    lab.down()
    assert not [path for own in paths.values() for path in own.values() if Path(path).exists()]


@pytest.mark.real
def test_a_process_is_held_as_one_part_alone(tmp_path: Path, agent: Agent, needs: Any) -> None:
    """Cases of a run may limit parts that share processes, which the plan of a single case does not show."""
    needs("root", "memcached")
    lab = ring(tmp_path, agent, {"backend.object-2": ("cpus",), "backend.object": ("cpus",)})
    with pytest.raises(SvloadError, match="object-2 and object of backend can't both be limited"):
        lab.up()


@pytest.mark.real
def test_a_listing_gets_what_it_missed_while_its_server_was_away(lab: Lab, tmp_path: Path) -> None:
    store = Store(lab.up()["backend"].endpoints[0])
    store.put("known", b"before")
    lab.faults.act("kill", "backend", "container", {})
    store.put("missed", b"meanwhile")
    devices = tmp_path / "work/services/backend/devices"
    owed = [path for n in (1, 2, 3) for path in (devices / f"o{n}").resolve().glob("async_pending*/*/*")]
    assert owed, "each object server keeps what the container server did not take"
    lab.faults.act("start", "backend", "container", {})
    wait_until(lambda: store.call("GET", "/v1/AUTH_lab/c")[2].split() == [b"known", b"missed"])


def test_each_updater_has_the_device_of_its_server_alone() -> None:
    options = SwiftOptions(object_servers=3, object_replicas=3, updater_interval="7s")
    text = _daemons(options, Path("/devices/of-2"))
    assert "[object-updater]\ninterval = 7\ndevices = /devices/of-2\n" in text

"""Redis, MariaDB and Varnish behind a link of 5 MB/s and 10 ms: they come up and answer, clients see the
rate and the latency, and monitors read."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.bounds import HANG_S
from tests.servers import completed

from svload.host import Agent, start_agent
from svload.host.machine import fabric
from svload.lab import Lab
from svload.model.facts import Endpoint
from svload.model.study import ServiceSpec
from svload.watch import monitors_for

from .conftest import settings_of, spec

pytestmark = pytest.mark.real
LINK = {"rate": "5 MB/s", "latency": "10 ms"}
RATE, LATENCY_S = 5_000_000, 0.01
SIZE = 2_500_000


def redis_says(at: Endpoint, size: int) -> int:
    """SET then GET, so that the value crosses the link both ways."""
    with socket.create_connection((at.address, at.port), 10) as line, line.makefile("rwb") as both:
        both.write(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$%d\r\n%s\r\n" % (size, b"x" * size))
        both.flush()
        assert both.readline() == b"+OK\r\n"
        both.write(b"GET a\r\n")
        both.flush()
        assert both.readline() == b"$%d\r\n" % size
        return len(both.read(size))


def mariadb_says(at: Endpoint, size: int) -> int:
    client = ["mariadb", "--no-defaults", f"--host={at.address}", f"--port={at.port}", "--user=lab", "--password=lab"]  # fmt: skip
    ask = ["--batch", "--skip-column-names", "lab", f"--execute=SELECT REPEAT('x', {size})"]
    done = completed([*client, *ask], check=True)
    return len(done.stdout.strip())


def varnish_says(at: Endpoint, size: int) -> int:
    line = http.client.HTTPConnection(at.address, at.port, timeout=HANG_S)
    line.request("GET", f"/{size}")
    found = len(line.getresponse().read())
    line.close()
    return found


class Case(NamedTuple):
    """A linked server, with what it needs; `ways`: how often its answer crosses the link in `says`."""

    needed: tuple[str, ...]
    specs: tuple[ServiceSpec, ...]
    says: Callable[[Endpoint, int], int]
    ways: int


CASES = {
    "redis": Case(("redis-server",), (spec("store", "redis", link=LINK),), redis_says, 2),
    "mariadb": Case(("mariadbd", "mariadb-install-db", "mariadb"), (spec("store", "mariadb", link=LINK),), mariadb_says, 1),
    "varnish": Case(
        ("varnishd", "nginx"),
        (spec("site", "nginx", files={"/10": 10, f"/{SIZE}": SIZE}), spec("store", "varnish", of="site", storage="64 MiB", link=LINK)),
        varnish_says,
        1,
    ),
}  # fmt: skip


@pytest.fixture
def linked(tmp_path: Path, needs: Callable[..., None]) -> Iterator[Agent]:
    """Return an agent whose lab has its own network, which this thread has entered."""
    needs("root")
    if why := fabric.lacking(latency=True):
        pytest.skip(why)
    with start_agent(tmp_path / "agent", "test", own_network=True) as agent, agent.joined():
        yield agent


@pytest.mark.parametrize("name", CASES)
def test_its_link_is_seen(linked: Agent, tmp_path: Path, needs: Callable[..., None], name: str) -> None:
    case = CASES[name]
    needs(*case.needed)
    lab = Lab(case.specs, linked, tmp_path / "work", tmp_path / "cache", study_dir=tmp_path)
    try:
        facts = lab.up()["store"]
        [at] = facts.endpoints
        assert at.address.startswith("10.203.")
        held = {"link_rate_bytes_per_s": str(RATE), "link_latency_s": str(LATENCY_S)}
        assert settings_of(facts).items() >= held.items()
        case.says(at, 10)
        began = sampled(facts.model_dump(mode="json"))
        case.says(at, SIZE)
        ended = sampled(facts.model_dump(mode="json"))
        assert {"link", name} <= {monitor for monitor, _ in ended}
        sent = ended["link", "link_out_bytes_total"] - began["link", "link_out_bytes_total"]
        assert 1 < sent / SIZE < 1.2, "headers included"
        assert ended["link", "link_rate_bytes"] == RATE
        if case.ways == 2:
            came = ended["link", "link_in_bytes_total"] - began["link", "link_in_bytes_total"]
            assert 1 < came / SIZE < 1.2
        assert lab.counters()["store"].values["requests"] > 0
        assert lab.alive() == []
    finally:
        lab.down()


def sampled(facts: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return one reading of every monitor of the service."""
    found = {}
    for kind in monitors_for(facts):
        monitor = kind(facts["service"], facts)
        found |= {(kind.name, reading.metric): reading.value for reading in monitor.sample()}
        monitor.close()
    return found

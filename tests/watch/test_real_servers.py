"""Monitors of real servers report what was done to them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.bounds import HANG_S
from tests.servers import free_port, memcached, nginx, running, serving, varnish, wait_until

from svload.watch import Monitor, monitors_for

pytestmark = pytest.mark.real
GET = b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Case(NamedTuple):
    """A server by its command (of a folder, its port and one behind it), where its monitor asks, what is
    sent to it over one connection each, how its counters grow, and its limits."""

    command: Callable[[Path, int, int], list[str]]
    where: Callable[[Path, int], dict[str, Any]]
    says: list[bytes]
    grown: dict[str, float]
    limits: dict[str, float] = {}


def at_port(folder: Path, port: int) -> dict[str, Any]:
    return {"address": "127.0.0.1", "port": port}


CASES = {
    "memcached": Case(
        lambda folder, port, behind: memcached(port),
        at_port,
        [b"set a 0 0 1\r\nx\r\nget a\r\nget b\r\nget c\r\nquit\r\n"],
        {"hits_total": 1, "misses_total": 2, "sets_total": 1, "items": 1},
    ),
    "redis": Case(
        lambda folder, port, behind: [
            *("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)),
            *("--maxclients", "77", "--maxmemory", "9mb"),
        ],
        at_port,
        [b"SET a 1\r\nGET a\r\nGET b\r\nGET c\r\nNONSENSE\r\nQUIT\r\n"],
        {"hits_total": 1, "misses_total": 2, "keys": 1, "errors_total": 1, "connections_total": 1},
        {"connections_limit": 77, "limit_bytes": 9 << 20},
    ),
    "nginx": Case(
        lambda folder, port, behind: nginx(folder, port, "location /status { stub_status; }"),
        lambda folder, port: {"status_url": f"http://127.0.0.1:{port}/status", "connections_limit": 512},
        [GET % b"/status"] * 3,
        {"accepted_total": 3, "handled_total": 3},
    ),
    "varnish": Case(
        lambda folder, port, behind: varnish(folder / "varnish", port, behind, "-s", "default=malloc,32m"),
        lambda folder, port: {
            "dir": str(folder / "varnish"),
            "varnishstat": None,
            "varnishadm": "varnishadm",
        },
        [GET % b"/x.html"] * 4,
        {"cache_hit_total": 3, "cache_miss_total": 1},
    ),
}
PROGRAMS = {"redis": ("redis-server",), "varnish": ("varnishd", "varnishstat", "root")}


@pytest.mark.parametrize("name", CASES)
def test_a_monitor_counts_the_work_done(name: str, needs: Any, tmp_path: Path) -> None:
    needs(*PROGRAMS.get(name, (name,)))
    case, port = CASES[name], free_port()
    facts = {"service": "it", "admin": {name: case.where(tmp_path, port)}}
    (kind,) = monitors_for(facts)
    with serving() as behind, running(case.command(tmp_path, port, behind), port):
        monitor = kind("it", facts)
        wait_until(lambda: values(monitor).get("threads", 1) > 0)
        before = values(monitor)
        for text in case.says:
            with socket.create_connection(("127.0.0.1", port), HANG_S) as client:
                client.sendall(text)
                while client.recv(4096):
                    pass

        def grown() -> dict[str, float]:
            now = values(monitor)
            return {metric: now[metric] - before[metric] for metric in case.grown}

        # Varnish adds up a worker's counters when it becomes idle.
        wait_until(lambda: all(value >= case.grown[metric] for metric, value in grown().items()))
        assert grown() == case.grown
        assert case.limits.items() <= values(monitor).items()
        monitor.close()


def values(monitor: Monitor) -> dict[str, float]:
    found = {reading.metric: reading.value for reading in monitor.sample()}
    assert set(found) == set(monitor.metrics), "every documented metric is there, and no other"
    return found

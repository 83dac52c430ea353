"""Monitors against the real servers: what they report is what was done to them."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import free_port, running, wait_until

from svload.watch import Monitor, monitors_for

pytestmark = pytest.mark.real


def attached(service: str, admin: dict[str, Any]) -> Monitor:
    (kind,) = monitors_for({"service": service, "admin": admin})
    return kind(service, {"service": service, "admin": admin})


def values(monitor: Monitor) -> dict[str, float]:
    found = {reading.metric: reading.value for reading in monitor.sample()}
    assert set(found) == set(monitor.metrics), "every documented metric is there, and no other"
    return found


def test_memcached(needs: Any) -> None:
    needs("memcached")
    port = free_port()
    with running(["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port), "-U", "0"], port):
        monitor = attached("mc", {"memcached": {"address": "127.0.0.1", "port": port}})
        before = values(monitor)
        with socket.create_connection(("127.0.0.1", port), 5) as client:
            client.sendall(b"set a 0 0 1\r\nx\r\nget a\r\nget b\r\nget c\r\nquit\r\n")
            while client.recv(4096):
                pass
        after = values(monitor)
        monitor.close()
    assert {
        name: after[name] - before[name] for name in ("hits_total", "misses_total", "sets_total", "items")
    } == {
        "hits_total": 1,
        "misses_total": 2,
        "sets_total": 1,
        "items": 1,
    }


def test_redis(needs: Any, tmp_path: Path) -> None:
    needs("redis-server")
    port = free_port()
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(tmp_path),
    ]
    with running([*command, "--maxclients", "77", "--maxmemory", "9mb"], port):
        monitor = attached("store", {"redis": {"address": "127.0.0.1", "port": port}})
        before = values(monitor)
        with socket.create_connection(("127.0.0.1", port), 5) as client:
            client.sendall(b"SET a 1\r\nGET a\r\nGET b\r\nGET c\r\nNONSENSE\r\nQUIT\r\n")
            while client.recv(4096):
                pass
        after = values(monitor)
        monitor.close()
    wanted = {"hits_total": 1, "misses_total": 2, "keys": 1, "errors_total": 1, "connections_total": 1}
    assert {name: after[name] - before[name] for name in wanted} == wanted
    assert (after["connections_limit"], after["limit_bytes"]) == (77, 9 << 20)


def test_nginx(needs: Any, tmp_path: Path) -> None:
    needs("nginx")
    port = free_port()
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"daemon off; pid {tmp_path}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; server {{ listen 127.0.0.1:{port}; location /status {{ stub_status; }} }} }}\n"
    )
    with running(["nginx", "-p", str(tmp_path), "-c", str(config), "-e", "stderr"], port):
        monitor = attached(
            "web", {"nginx": {"status_url": f"http://127.0.0.1:{port}/status", "connections_limit": 512}}
        )
        before = values(monitor)
        for _ in range(3):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=HANG_S).read()
        after = values(monitor)
        monitor.close()
    assert after["requests_total"] - before["requests_total"] == 4
    assert after["accepted_total"] - before["accepted_total"] == 3


def test_varnish(needs: Any, tmp_path: Path) -> None:
    needs("varnishd", "varnishstat", "root")
    port, behind = free_port(), free_port()
    backend = [
        "python3",
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
        "--directory",
        str(tmp_path),
        str(behind),
    ]
    (tmp_path / "x.html").write_text("x")
    home = tmp_path / "varnish"
    front = [
        "varnishd",
        "-F",
        "-j",
        "none",
        "-n",
        str(home),
        "-a",
        f"http=127.0.0.1:{port}",
        "-T",
        f"127.0.0.1:{free_port()}",
        "-b",
        f"127.0.0.1:{behind}",
        "-s",
        "default=malloc,32m",
    ]
    with ExitStack() as stack:
        stack.enter_context(running(backend, behind))
        stack.enter_context(running(front, port))
        monitor = attached(
            "cache", {"varnish": {"dir": str(home), "varnishstat": None, "varnishadm": "varnishadm"}}
        )
        wait_until(lambda: values(monitor)["threads"] > 0)
        before = values(monitor)
        for _ in range(4):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/x.html", timeout=HANG_S).read()
        # A worker's counts are added up when it becomes idle.
        wait_until(lambda: values(monitor)["cache_hit_total"] - before["cache_hit_total"] >= 3)
        after = values(monitor)
        monitor.close()
    assert after["cache_hit_total"] - before["cache_hit_total"] == 3
    assert after["cache_miss_total"] - before["cache_miss_total"] == 1

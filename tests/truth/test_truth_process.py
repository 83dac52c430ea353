"""The known-truth server as a process: ready line, service, counters, end by a signal."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import completed, wait_until

from svload.host.process.readable import readable

pytestmark = pytest.mark.truth
Serve = Callable[..., dict[str, Any]]


def truth(folder: Path, *words: str, **config: Any) -> list[str]:
    """Return the command of a server with this configuration."""
    file = folder / "truth.json"
    file.write_text(json.dumps({"http_port": 0, "admin_port": 0, **config}))
    return [sys.executable, "-m", "svload.truth", "--config", str(file), *words]


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def counters(ready: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(ready["admin_port"], "GET", "/counters")[1])
    return found


def test_store_and_cache_count_the_same_requests(serve_truth: Serve) -> None:
    store = serve_truth()
    port = store["http_port"]
    assert ask(port, "PUT", "/v1/a/c")[0] == 201
    assert ask(port, "PUT", "/v1/a/c/o", b"hello")[0] == 201
    cache = serve_truth(role="cache", upstream=f"127.0.0.1:{port}")
    for _ in range(3):
        assert ask(cache["http_port"], "GET", "/v1/a/c/o") == (200, b"hello")
    wanted = {"hits": 2, "misses": 1, "upstream_requests": 1, "unfinished": 0}
    assert wanted.items() <= counters(cache).items()
    assert counters(store)["requests"] == 3


@pytest.mark.timing("server")
def test_service_time_is_what_was_asked(serve_truth: Serve) -> None:
    ready = serve_truth(service_time={"constant_ns": 2_000_000}, log=True)
    connection = http.client.HTTPConnection("127.0.0.1", ready["http_port"], timeout=HANG_S)
    took_ns = []
    for _ in range(50):
        before_ns = time.monotonic_ns()
        connection.request("GET", "/v1/a/c/o")
        connection.getresponse().read()
        took_ns.append(time.monotonic_ns() - before_ns)
    connection.close()
    rows = [json.loads(line) for line in ask(ready["admin_port"], "GET", "/log")[1].splitlines()]
    served_ns = sorted(row[2] - row[1] for row in rows)
    assert len(served_ns) == 50
    assert 2_000_000 <= served_ns[0] <= served_ns[25] < 2_500_000  # typically 60 µs above, which benches test
    assert sorted(took_ns)[25] >= served_ns[25]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_a_signal_at_once_with_a_request_under_way(tmp_path: Path, number: signal.Signals) -> None:
    hour = {"constant_ns": 3_600_000_000_000}
    command = truth(tmp_path, "--verbose", role="store", service_time=hour)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert readable(process.stdout.fileno(), HANG_S), "no ready line"
        ready = json.loads(process.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", ready["http_port"], timeout=HANG_S)
        connection.request("GET", "/v1/a/c/o")
        wait_until(lambda: counters(ready)["in_service"] == 1)
        process.send_signal(number)
        _, found = process.communicate(timeout=HANG_S)
        connection.close()
        assert process.returncode == 0
        final = json.loads(found)
        assert (final["requests"], final["unfinished"], final["answers"]) == (1, 1, 0)


def test_the_ready_line_can_go_elsewhere(tmp_path: Path) -> None:
    told, writable = os.pipe()
    command = truth(tmp_path, "--ready-fd", str(writable), role="store")
    with subprocess.Popen(command, pass_fds=[writable], stdout=subprocess.PIPE) as process:
        os.close(writable)
        try:
            assert readable(told, HANG_S)
            with os.fdopen(told) as lines:
                ready = json.loads(lines.readline())
            assert ask(ready["http_port"], "GET", "/healthcheck") == (200, b"OK")
            process.terminate()
            assert process.communicate(timeout=HANG_S)[0] == b""
        finally:
            process.kill()


def test_a_bad_configuration_names_the_field(tmp_path: Path) -> None:
    """The server's own tests have each field."""
    done = completed(truth(tmp_path, role="store", workers=0))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "workers" in done.stderr

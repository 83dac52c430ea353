"""The known-truth server as it is started: ready line, service, counters, end by a signal."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from svload.host.process.readable import readable

pytestmark = pytest.mark.truth


@contextmanager
def running(
    tmp_path: Path, *more: str, **config: Any
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    file = tmp_path / f"{config['role']}.json"
    file.write_text(json.dumps({"http_port": 0, "admin_port": 0, **config}))
    command = [sys.executable, "-m", "svload.truth", "--config", str(file), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert readable(process.stdout.fileno(), HANG_S), "no ready line"
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            yield process, json.loads(line)
        finally:
            process.kill()


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


def test_store_and_cache_count_the_same_requests(tmp_path: Path) -> None:
    with running(tmp_path, role="store") as (_, store):
        port = store["http_port"]
        assert ask(port, "PUT", "/v1/a/c")[0] == 201
        assert ask(port, "PUT", "/v1/a/c/o", b"hello")[0] == 201
        with running(tmp_path, role="cache", upstream=f"127.0.0.1:{port}") as (_, cache):
            for _ in range(3):
                assert ask(cache["http_port"], "GET", "/v1/a/c/o") == (200, b"hello")
            seen = counters(cache)
            assert (seen["hits"], seen["misses"], seen["upstream_requests"], seen["unfinished"]) == (
                2,
                1,
                1,
                0,
            )
            assert counters(store)["requests"] == 3


@pytest.mark.timing("server")
def test_service_time_is_what_was_asked(tmp_path: Path) -> None:
    with running(tmp_path, role="store", service_time={"constant_ns": 2_000_000}, log=True) as (_, ready):
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
    assert 2_000_000 <= served_ns[0] <= served_ns[25] < 2_500_000  # typically 60 µs above, which benches hold
    assert sorted(took_ns)[25] >= served_ns[25]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_a_signal_at_once_with_a_request_under_way(tmp_path: Path, number: signal.Signals) -> None:
    hour = {"constant_ns": 3_600_000_000_000}
    with running(tmp_path, "--verbose", role="store", service_time=hour) as (process, ready):
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
    file = tmp_path / "store.json"
    file.write_text(json.dumps({"role": "store", "http_port": 0}))
    readable, writable = os.pipe()
    command = [sys.executable, "-m", "svload.truth", "--config", str(file), "--ready-fd", str(writable)]
    with subprocess.Popen(command, pass_fds=[writable], stdout=subprocess.PIPE) as process:
        os.close(writable)
        try:
            assert select.select([readable], [], [], HANG_S)[0]
            with os.fdopen(readable) as lines:
                ready = json.loads(lines.readline())
            assert ask(ready["http_port"], "GET", "/healthcheck") == (200, b"OK")
            process.terminate()
            assert process.communicate(timeout=HANG_S)[0] == b""
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"role": "store", "http_port": 0, "workers": 0}, "workers"),
        ({"role": "cache", "http_port": 0}, "upstream"),
        ({"role": "store", "http_port": 0, "address": "0.0.0.0"}, "address"),
        ({"role": "store", "http_port": 0, "colour": 1}, "colour"),
    ],
)
def test_a_bad_configuration_names_the_field(tmp_path: Path, config: dict[str, Any], field: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "svload.truth", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert field in done.stderr

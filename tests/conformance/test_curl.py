"""The probe compared with curl itself (docs/method.md §6): alternated transfers with the same request
headers, equal sizes, equivalent times.

Each turn is two transfers by svload and two by one curl process, each over its own connection. Only the
second ones are compared, because what a process pays once (OpenSSL's own start, cold pages) is no part of a
transfer. The TLS handshake depends on each client's library (curl builds a context and reads the authority
for every connection: about 1 ms), so over HTTPS the order of times is compared, and all later times without
it.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import certified, completed, put

from svload.drive.probe import probe

pytestmark = pytest.mark.truth
SIZES = ("size_download", "size_header", "size_request")
TIMES = ("time_connect", "time_appconnect", "time_pretransfer", "time_starttransfer", "time_total")
SHARE, LEAST_S = 0.05, 50e-6
"""docs/method.md §6: medians within max(5 %, 50 µs)."""
WANTED = "{" + ", ".join(f'"{name}": %{{{name}}}' for name in (*SIZES, "time_namelookup", *TIMES)) + "}\n"
OBJECT = "/v1/a/c/o"
Row = dict[str, float]


@pytest.fixture
def ports(
    serve_truth: Callable[..., dict[str, Any]], tmp_path: Path, needs: Callable[..., None]
) -> dict[str, Any]:
    """Run a store with one object of 100 KiB, over both schemes; `ca` is the file of its authority."""
    needs("curl")
    tls = certified(tmp_path / "ca.pem", "localhost", "127.0.0.1")
    ready = serve_truth(https_port=0, tls=tls, service_time={"constant_ns": 10_000_000})
    put(f"http://127.0.0.1:{ready['http_port']}{OBJECT}", os.urandom(100 * 1024))
    return ready | {"ca": tmp_path / "ca.pem"}


def curl(scheme: str, port: int, ca: Path) -> Row:
    """Return curl's variables of a transfer over a new connection by a process that has made one before."""
    options = f"-sS -A curl/8 --cacert {ca} --resolve localhost:{port}:127.0.0.1".split()
    for host in ("localhost", "127.0.0.1"):
        options += ["-o", "/dev/null", f"{scheme}://{host}:{port}{OBJECT}"]
    done = completed(["curl", *options, "-w", WANTED], check=True)
    row: Row = json.loads(done.stdout.splitlines()[1])
    return row


def alternated(scheme: str, port: int, ca: Path, transfers: int) -> tuple[list[Row], list[Row]]:
    """Make this many transfers by svload and by curl, in turn."""
    ours, theirs = [], []
    for _ in range(transfers):
        rows = probe(f"{scheme}://127.0.0.1:{port}{OBJECT}", 2, ca_pem=ca.read_text())
        assert not any(row["error"] for row in rows)
        ours.append(rows[1])
        theirs.append(curl(scheme, port, ca))
    return ours, theirs


def without_handshake(row: Row) -> Row:
    """Return the row's times as if the handshake had taken no time."""
    handshake_s = max(row["time_appconnect"] - row["time_connect"], 0.0) if row["time_appconnect"] else 0.0
    shifted = ("time_appconnect", "time_pretransfer", "time_starttransfer", "time_total")
    return row | {name: row[name] - handshake_s for name in shifted if row[name]}


def medians(rows: list[Row], names: tuple[str, ...]) -> Row:
    return {name: statistics.median(row[name] for row in rows) for name in names}


def deviations(ours: list[Row], theirs: list[Row]) -> list[str]:
    """Return the times whose medians differ by more than docs/method.md §6 allows."""
    mine, its = (medians([without_handshake(row) for row in rows], TIMES) for rows in (ours, theirs))
    return [
        f"{name}: {mine[name] * 1e6:.0f} µs, curl {its[name] * 1e6:.0f} µs"
        for name in TIMES
        if abs(mine[name] - its[name]) > max(SHARE * its[name], LEAST_S)
    ]


def on_one_axis(rows: list[Row], scheme: str) -> None:
    """Check that curl's times lie on one axis from the start of the transfer; appconnect exists with TLS
    only."""
    for row in rows:
        names = ("namelookup", "connect", "pretransfer", "starttransfer", "total")
        steps = [row[f"time_{name}"] for name in names]
        assert steps == sorted(steps)
        shaken = row["time_connect"] < row["time_appconnect"] <= row["time_pretransfer"]
        assert shaken == (scheme == "https")


def handshake_s(rows: list[Row]) -> float:
    return statistics.median(row["time_appconnect"] - row["time_connect"] for row in rows)


@pytest.mark.parametrize("transfers", [20, pytest.param(200, marks=pytest.mark.timing)])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_probe_says_what_curl_says(ports: dict[str, Any], scheme: str, transfers: int) -> None:
    """Sizes are equal and times are on curl's axis; over 200 transfers on a quiet machine, times are
    equivalent too."""
    ours, theirs = alternated(scheme, ports[f"{scheme}_port"], ports["ca"], transfers)
    assert medians(ours, SIZES) == medians(theirs, SIZES)
    on_one_axis(ours, scheme)
    on_one_axis(theirs, scheme)
    if transfers < 200:
        return
    assert deviations(ours, theirs) == []
    if scheme == "https":
        its_s = handshake_s(theirs)
        assert handshake_s(ours) <= its_s + max(SHARE * its_s, LEAST_S)

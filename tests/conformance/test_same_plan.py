"""One plan and seed give the same requests at the same intended offsets, whatever the number of generators
and the server's speed. Checked by the server's own log."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
from tests.bounds import HANG_S
from tests.results import case_of

from svload import _native
from svload.drive.probe import rows_of
from svload.drive.share.cut import Share, build_shares
from svload.drive.share.timeline import timeline
from svload.drive.share.write import text_of
from svload.model.executors import ConstantArrivalRate
from svload.model.facts import Endpoint
from svload.model.traffic import Feeder, FeederPart, Group, Request, Text, VarPart

pytestmark = pytest.mark.truth
MS = 1_000_000
ROWS = 40
PATHS = [f"/v1/a/c/{number}" for number in range(ROWS)]
INPUTS = {"objects": {"path": ("utf8", PATHS), "size_bytes": ("u64", struct.pack(f"<{ROWS}Q", *[0] * ROWS))}}
PATH = (FeederPart(feeder="object", column="path"), Text(text="?vu="), VarPart(var="vu"), Text(text="&id="), VarPart(var="request.id"))  # fmt: skip
Received = list[tuple[str, int, str, int]]


class Server:
    """A known-truth server that keeps a log."""

    def __init__(self, ports: dict[str, Any]) -> None:
        self.http, self.admin = ports["http_port"], f"http://127.0.0.1:{ports['admin_port']}"

    def ask(self, path: str, body: bytes | None = None) -> bytes:
        with urlopen(self.admin + path, body, timeout=HANG_S) as answer:
            return bytes(answer.read())

    def received(self, start_ns: int) -> Received:
        """Return path, user, id and time of receipt in ns from the start of each request, sorted."""
        found = []
        for line in self.ask("/log?limit=1000000").splitlines():
            _, received_ns, _, _, target, *_ = json.loads(line)
            parts = urlsplit(target)
            query = parse_qs(parts.query)
            found.append((parts.path, int(query["vu"][0]), query["id"][0], received_ns - start_ns))
        return sorted(found)


@pytest.fixture
def server(serve_truth: Callable[..., dict[str, Any]]) -> Server:
    return Server(serve_truth(log=True, workers=64))


def load(
    server: Server, executor: ConstantArrivalRate, generators: int, seed: int = 11
) -> tuple[Received, list[dict[str, int]]]:
    """Load the server by one plan, cut into `generators` shares that run in parallel from a common start;
    return what it received and the engine's rows."""
    request = Request(name="get", scheme="http", host="store", path=PATH, expect_status=((200, 499),))
    group = Group(name="load", executor=executor, request=request, generators=generators, record="rows")
    config = case_of(group, name="case", feeders=(Feeder(name="object", table="objects"),))
    endpoints = {"http://store": Endpoint(scheme="http", address="127.0.0.1", port=server.http)}
    shares = build_shares(config, seed, timeline(config, 500 * MS), endpoints, ["127.0.0.0/8"])
    server.ask("/reset?what=counters,log", b"")
    start_ns = time.monotonic_ns() + 250 * MS

    def run(share: Share) -> list[dict[str, int]]:
        spec = replace(share.spec, start_at_ns=start_ns)
        return rows_of(_native.run_share(text_of(spec), INPUTS, lambda text: None)["samples"])

    with ThreadPoolExecutor(generators) as pool:
        rows = [row for some in pool.map(run, shares) for row in some]
    received = server.received(start_ns)
    assert len(received) == len(rows)
    return received, rows


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_open_loop_asks_the_same_at_the_same_offsets(server: Server, arrivals: Any) -> None:
    executor = ConstantArrivalRate(rate_rps=400, max_vus=300, arrivals=arrivals)
    loads = [load(server, executor, generators) for generators in (1, 1, 3)]
    once, rows = loads[0]
    assert 150 < len(once) < 260
    due = {row["seq"]: (row["due_ns"], row["row"]) for row in rows}
    requests = [row[:3] for row in once]
    for received, rows in loads:
        assert [row[:3] for row in received] == requests
        assert {row["seq"]: (row["due_ns"], row["row"]) for row in rows} == due
        assert all(at_ns >= due[number][0] for _, number, _, at_ns in received), "nothing before it is due"
    server.ask("/config", json.dumps({"service_time": {"constant_ns": 20 * MS}}).encode())
    slow, _ = load(server, executor, 3)
    assert [row[:3] for row in slow] == requests, "whatever the server does"
    other, _ = load(server, executor, 1, seed=12)
    assert {name for _, _, name, _ in other}.isdisjoint({name for _, _, name, _ in once})

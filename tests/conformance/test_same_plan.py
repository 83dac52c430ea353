"""One plan and seed give the same requests, whatever the number of generators and the server's speed.

Checked by the server's own log. Open loop: the same requests at the same intended offsets. Closed loop: each
user's sequence is a prefix of the same planned one.
"""

from __future__ import annotations

import http.client
import json
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.bounds import HANG_S
from tests.results import case_of

from svload import _native
from svload.drive.probe import rows_of
from svload.drive.share.cut import Share, build_shares
from svload.drive.share.timeline import timeline
from svload.drive.share.write import text_of
from svload.model.executors import ConstantArrivalRate, ConstantVus, Executor, ThinkTime
from svload.model.facts import Endpoint
from svload.model.traffic import Feeder, FeederPart, Group, Request, Text, VarPart

pytestmark = pytest.mark.truth
MS = 1_000_000
ROWS = 40
PATHS = [f"/v1/a/c/{number}" for number in range(ROWS)]
INPUTS = {"objects": {"path": ("utf8", PATHS), "size_bytes": ("u64", struct.pack(f"<{ROWS}Q", *[0] * ROWS))}}
PATH = (FeederPart(feeder="object", column="path"), Text(text="?vu="), VarPart(var="vu"), Text(text="&id="), VarPart(var="request.id"))  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """The requests of one load: the server's log (path, vu, id, received in ns from the start) and the
    engine's own rows."""

    log: list[tuple[str, int, str, int]]
    rows: list[dict[str, int]]

    def requests(self) -> list[tuple[str, int, str]]:
        return sorted(row[:3] for row in self.log)

    def by_user(self) -> dict[int, list[tuple[str, str]]]:
        """Return user → (path, id) of its requests in the order in which the server received them."""
        users: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for path, vu, name, _ in sorted(self.log, key=lambda row: row[3]):
            users[vu].append((path, name))
        return users


class Server:
    """A known-truth server that keeps a log."""

    def __init__(self, ports: dict[str, Any]) -> None:
        self.http, self.admin = ports["http_port"], ports["admin_port"]

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        line = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=HANG_S)
        try:
            line.request(method, path, body)
            answer = line.getresponse()
            assert answer.status == 200, (path, answer.status)
            return answer.read()
        finally:
            line.close()

    def log(self) -> list[list[Any]]:
        return [json.loads(line) for line in self.ask("GET", "/log?limit=1000000").splitlines()]


@pytest.fixture
def server(serve_truth: Callable[..., dict[str, Any]]) -> Server:
    return Server(serve_truth(log=True, workers=64))


def load(
    server: Server, executor: Executor, generators: int, seed: int = 11, duration_ns: int = 500 * MS
) -> Asked:
    """Load the server by one plan, cut into `generators` shares that run in parallel from a common start."""
    request = Request(name="get", scheme="http", host="store", path=PATH, expect_status=((200, 499),))
    group = Group(name="load", executor=executor, request=request, generators=generators, record="rows")
    config = case_of(group, name="case", feeders=(Feeder(name="object", table="objects"),))
    endpoints = {"http://store": Endpoint(scheme="http", address="127.0.0.1", port=server.http)}
    shares = build_shares(config, seed, timeline(config, duration_ns), endpoints, ["127.0.0.0/8"])
    server.ask("POST", "/reset?what=counters,log")
    start_ns = time.monotonic_ns() + 250 * MS
    with ThreadPoolExecutor(generators) as pool:
        rows = [row for some in pool.map(lambda share: _run(share, start_ns), shares) for row in some]
    log = []
    for _, received_ns, _, _, target, *_ in server.log():
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        log.append((parts.path, int(query["vu"][0]), query["id"][0], received_ns - start_ns))
    assert len(log) == len(rows)
    return Asked(log, rows)


def _run(share: Share, start_ns: int) -> list[dict[str, int]]:
    spec = replace(share.spec, start_at_ns=start_ns)
    return rows_of(_native.run_share(text_of(spec), INPUTS, lambda text: None)["samples"])


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_open_loop_asks_the_same_at_the_same_offsets(server: Server, arrivals: Any) -> None:
    executor = ConstantArrivalRate(rate_rps=400, max_vus=300, arrivals=arrivals)
    once, *others = (load(server, executor, generators) for generators in (1, 1, 3))
    assert 150 < len(once.log) < 260
    due = {row["seq"]: (row["due_ns"], row["row"]) for row in once.rows}
    for asked in (once, *others):
        assert asked.requests() == once.requests()
        assert {row["seq"]: (row["due_ns"], row["row"]) for row in asked.rows} == due
        late = [received_ns - due[number][0] for _, number, _, received_ns in asked.log]
        assert min(late) >= 0, "nothing arrives before it is due"
    server.ask("POST", "/config", json.dumps({"service_time": {"constant_ns": 20 * MS}}).encode())
    slow = load(server, executor, 3)
    assert slow.requests() == once.requests(), "whatever the server does"
    other = load(server, executor, 1, seed=12)
    assert {name for _, _, name, _ in other.log}.isdisjoint({name for _, _, name, _ in once.log})


@pytest.mark.parametrize("generators", [1, 3])
def test_closed_loop_walks_the_same_sequence_however_far_it_gets(server: Server, generators: int) -> None:
    users = 6
    executor = ConstantVus(vus=users, think_time=ThinkTime(uniform_ns=(2 * MS, 20 * MS)))
    fast = load(server, executor, 1)
    server.ask("POST", "/config", json.dumps({"service_time": {"constant_ns": 15 * MS}}).encode())
    slow = load(server, executor, generators)
    far, near = fast.by_user(), slow.by_user()
    assert set(far) == set(near) == set(range(users))
    for user, sequence in near.items():
        common = min(len(sequence), len(far[user]))
        assert far[user][:common] == sequence[:common] != []
        walked = [PATHS[(ROWS * user // users + step) % ROWS] for step in range(len(far[user]))]
        assert [path for path, _ in far[user]] == walked
    pauses = [_pauses(asked.rows) for asked in (fast, slow)]
    for user in near:
        count = min(len(asked[user]) for asked in pauses)
        assert pauses[0][user][:count] == pauses[1][user][:count], "think times are part of the plan"


def _pauses(rows: Sequence[dict[str, int]]) -> dict[int, list[int]]:
    """Return user → its planned think times in ns: from the end of a request to the next one's due time."""
    users: dict[int, list[dict[str, int]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["seq"]):
        users[row["vu"]].append(row)
    return {
        vu: [after["due_ns"] - before["done_ns"] for before, after in pairwise(own)]
        for vu, own in users.items()
    }

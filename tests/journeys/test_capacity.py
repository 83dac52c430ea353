"""`svload capacity` against a server whose capacity follows by arithmetic: search, limit, answer, exit
code; also killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.servers import put, speaking

from .stalls import pause
from .world import World, complete, findings, only_run, sealed

pytestmark = pytest.mark.truth
STUDY = """\
name: bears
question: How many users does it bear?
lab:
  server: {kit: truth, role: store, service_time: 10 ms, workers: 4, spin: 200 us}
factors:
  users: {open: [1, 64]}
traffic:
  people: {executor: constant-vus, vus: "${users}", request: {get: http://server/v1/a/c/o, expect_status: 404}}
measure: {duration: 1s, replicates: 3}
"""
HANGING = """\
name: hangs
lab:
  server: {at: "http://127.0.0.1:PORT"}
factors:
  users: {open: [1, 64]}
traffic:
  people: {executor: constant-vus, vus: "${users}", request: {get: http://server/, timeout: 30 s}}
measure: {duration: 1s, replicates: 3}
"""
USERS = 8
"""4 workers of 10 ms serve 400 a second, so each additional user adds 2.5 ms to the mean: 8 wait 20 ms, 9
wait 22.5 ms."""
LONG_S = 800.0
"""The bound of a whole search, which makes some dozens of trials."""
CRITERIA = "mean <= 21.2 ms and success_rate >= 99 %"


def plan_of(run: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((run / "plan").iterdir())}


def test_a_kill_in_the_middle_of_a_search_costs_nothing(world: World):
    """This holds for whatever the search finds on a busy machine."""
    asked = ("--that", "p50 <= 10 s", "--from", "1", "--to", "4", "--duration", "0.2s")
    with world.start("capacity", world.study(STUDY), *asked, "--out", str(world.runs)) as command:
        assert command.wait_for(lambda lines: sum(line.startswith("[") for line in lines) >= 2)
        os.kill(command.process.pid, signal.SIGKILL)
        command.end()
    assert world.silent() == []
    run = only_run(world)
    before, planned = sealed(run), plan_of(run)
    assert before
    ended = world.svload("resume")  # without a name: the search is the unfinished run
    found = complete(run, ended.stderr)["capacity"]
    assert before.items() <= sealed(run).items()
    assert planned.items() <= plan_of(run).items()
    names = [trial["trial"] for text in plan_of(run).values() for trial in json.loads(text)["trials"]]
    assert len(set(names)) == len(names), "no trial is planned twice"
    assert len(list(run.glob("trials/*/seal.json"))) == len(names)
    world.succeed("verify", str(run))
    assert world.svload("resume").returncode == 2, "nothing is left to go on with"
    assert [one["trial"] for one in found["trials"]] == names, "told in the order they ran"
    assert 'id="search-for"' in (run / "derived" / "report.html").read_text()


MOST = 24
"""Connections that the fake server serves at once."""


def hanging(room: threading.BoundedSemaphore, connection: socket.socket) -> None:
    """Answer on as many connections as there is room for; the others get no answer."""
    if not room.acquire(blocking=False):
        while connection.recv(1 << 16):
            pass
        return
    try:
        for line in connection.makefile("rb"):
            if line == b"\r\n":
                pause(0.005)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    finally:
        room.release()


@pytest.mark.timing
def test_a_search_keeps_its_time_where_requests_hang(world: World):
    """The study's timeout of half a minute exceeds the remaining time: the load is cut, the answer comes."""
    with speaking(partial(hanging, threading.BoundedSemaphore(MOST))) as port:
        study = world.study(HANGING.replace("PORT", str(port)))
        asked = ("--that", "p95 <= 10 s", "--for", "20s", "--out", str(world.runs))
        begun_s = time.monotonic()
        ended = world.svload("capacity", study, *asked, bound_s=LONG_S)
        took_s = time.monotonic() - begun_s
    found = complete(only_run(world), ended.stderr)["capacity"]
    assert took_s <= 30, found["sentence"]
    assert found["ended"]
    assert found["trials"][-1]["outcome"] == "breaks", "what was cut had users without an answer"


@pytest.mark.timing
def test_the_answer_is_the_arithmetic(world: World):
    asked = ("capacity", world.study(STUDY), "--that", CRITERIA, "--at-least", "6", "--out", str(world.runs))
    ended = world.svload(*asked, bound_s=LONG_S)
    run = only_run(world)
    found = complete(run, ended.stderr)["capacity"]
    assert ended.returncode == 0, (ended.stdout[-3000:], ended.stderr[-2000:])
    assert (found["state"], found["ended"]) == ("found", True), found["sentence"]
    assert found["low"] <= USERS + 1, found["sentence"]
    assert found["high"] >= USERS, found["sentence"]
    assert found["gate"]["outcome"] == "pass"
    assert "holds up to about" in ended.stdout.replace("\n", " ")
    assert "✓ holds" in ended.stdout
    assert "✗ breaks" in ended.stdout
    assert "holds up to" in (run / "derived" / "summary.md").read_text()


@pytest.mark.timing
def test_a_rate_is_limited_where_arrivals_pile_up(world: World, serve_truth: Callable[..., dict[str, Any]]):
    """4 workers of 10 ms: at most 400 arrivals a second. Its p95 stays below a second in so short a trial,
    but its backlog grows."""
    server = serve_truth(service_time={"constant_ns": 10_000_000}, workers=4)
    url = f"http://127.0.0.1:{server['http_port']}/v1/a/c/o"
    put(url)
    loads = ("--from", "50", "--to", "1600", "--tolerance", "20", "-d", "1s")
    asked = ("--rate", "--that", "p95 <= 1 s", *loads)
    own = ("--at-least", "800", "--out", str(world.runs))
    ended = world.svload("capacity", url, *asked, *own, bound_s=LONG_S)
    found = findings(only_run(world))["capacity"]
    assert found["state"] == "found", (found["sentence"], ended.stderr[-2000:])
    assert found["low"] <= 440, found["sentence"]
    assert found["high"] >= 380, found["sentence"]
    assert found["gate"]["outcome"] == "fail"
    assert ended.returncode == 1, "800 a second are needed, and surely too much"

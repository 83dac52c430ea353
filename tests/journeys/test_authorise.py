"""Targets that nobody authorised get no packet: named on the command line, in a study, or reached by a
redirect.

Everything runs on an island: a network namespace whose only neighbour is another one, with the outside host,
which counts every TCP segment that reaches it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from .island import OUTSIDE, Island
from .world import LONGER_THAN_ANY_WAIT, World

REDIRECTING = f"""
import http.server
class Away(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b"see http://{OUTSIDE}:8099/"
        self.send_response(302)
        self.send_header("Location", "http://{OUTSIDE}:8099/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Away)
print("ready", flush=True)
server.serve_forever()
"""


@pytest.mark.truth
def test_the_island_can_see_a_packet(island: Island):
    """The counter works: without this the zeros below would prove nothing."""
    before = island.segments_received()
    knock = f"import socket\ntry: socket.create_connection(('{OUTSIDE}', 8099), 2)\nexcept OSError: pass"
    subprocess.run(
        ["ip", "netns", "exec", island.here, sys.executable, "-c", knock], check=True, timeout=HANG_S
    )
    wait_until(lambda: island.segments_received() > before)


@pytest.mark.truth
@pytest.mark.parametrize("command", ["load", "probe"])
def test_an_outside_target_is_refused_before_any_packet(world: World, island: Island, command: str):
    ended = island.run(world, command, f"http://{OUTSIDE}:8099/")
    assert ended.returncode == 2
    assert f"--authorise {OUTSIDE}" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert island.segments_received() == 0


@pytest.mark.truth
@pytest.mark.parametrize(
    ("host", "port", "error"), [("10.99.9.9", 80, "connect_unreachable"), (OUTSIDE, 8099, "connect_refused")]
)
def test_an_unreached_host_is_one_line(world: World, island: Island, host: str, port: int, error: str):
    """Long before the load's own end, which is beyond all waits of the tests."""
    ended = island.run(
        world, "load", f"http://{host}:{port}/", "--authorise", host, "-d", LONGER_THAN_ANY_WAIT, "--quiet"
    )
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert error in ended.stderr


@pytest.mark.truth
def test_a_study_cannot_authorise_its_own_target(world: World, island: Island):
    path = _study(world, f"http://{OUTSIDE}:8099", 0)
    ended = island.run(world, "run", str(path), "--out", str(world.runs))
    assert ended.returncode == 2, ended.stderr[-1500:]
    assert f"--authorise {OUTSIDE}" in ended.stderr
    assert island.segments_received() == 0


@pytest.mark.truth
@pytest.mark.parametrize("follow", [0, 3])
def test_a_redirect_to_an_outside_target_sends_no_packet_there(world: World, island: Island, follow: int):
    path = _study(world, "http://127.0.0.1:8080", follow)
    with island.serving(island.here, REDIRECTING):
        ended = island.run(world, "run", str(path), "--out", str(world.runs))
    assert island.segments_received() == 0
    if follow:
        assert ended.returncode == 2, ended.stderr[-1500:]
        assert f"--authorise {OUTSIDE}" in ended.stderr


def _study(world: World, at: str, follow: int) -> Path:
    study = {
        "name": "away",
        "lab": {"shop": {"at": at}},
        "requests": {"get": {"get": "http://shop/", "follow_redirects": follow, "timeout": "2s"}},
        "traffic": {"users": {"executor": "constant-vus", "vus": 1, "think_time": "0.1s", "request": "get"}},
        "measure": {"duration": "1s", "replicates": 1},
    }
    path = world.root / "study.yaml"
    path.write_text(json.dumps(study))
    return path

"""Packet loss between the load and its server is read from the load's own network, and reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .island import OUTSIDE, Island
from .world import World, checks_of, complete, only_run

pytestmark = pytest.mark.truth
TAKING = """
import http.server
class Take(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8099), Take)
print("ready", flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize("lossy", [False, True])
def test_retransmits_are_rough(world: World, island: Island, needs: Callable[..., None], lossy: bool) -> None:
    """Eight users send bodies of several segments, through a queue that holds eight of them, or freely."""
    needs("tc")
    (world.root / "body").write_bytes(b"x" * 6_000)
    if lossy:
        island.lose()
    before = island.segments_sent_again()
    with island.serving(island.there, TAKING):
        ended = island.run(
            world, "load", f"http://{OUTSIDE}:8099/", "--authorise", OUTSIDE, "-n", "400", "-c", "8",
            "-X", "PUT", "--data-file", "body", "--out", str(world.runs),
        )  # fmt: skip
    (trial,) = complete(only_run(world), ended.stderr)["trials"]
    found = checks_of(trial)["tcp-loss"]
    assert found["measured"], found
    assert 0 <= found["value"] <= island.segments_sent_again() - before
    # A busy machine may answer so late that segments are also resent on a free path: then that is reported.
    assert (found["grade"] == "VALID") == (found["value"] == 0), found
    assert f"{found['value']:,.0f} of" in found["sentence"]
    if lossy:
        assert found["value"] > 0
        assert "waited for a retransmission" in found["sentence"]
        assert "tc -s qdisc" in found["remedy"]
        p99 = trial["metrics"]["load.response.p99"]["belief"]
        assert p99["grade"] == "WEAK"
        assert "tcp-loss" in p99["doubts"]

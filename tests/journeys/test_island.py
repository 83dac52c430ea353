"""Targets that nobody authorised get no packet, and packet loss is reported: all on an island, a network
namespace whose only neighbour is another one, with the outside host, which counts every TCP segment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.servers import program

from .island import OUTSIDE, Island
from .world import LONGER_THAN_ANY_WAIT, World, checks_of, complete, only_run

pytestmark = pytest.mark.truth

AWAY = f"http://{OUTSIDE}:8099/"
REDIRECTING = program(f"self.answer(b'see {AWAY}', 302, Location='{AWAY}elsewhere')")


@pytest.mark.parametrize("words", [("load", AWAY), ("probe", AWAY), ("run", "study.yaml", "--out", "runs")])
def test_an_outside_target_is_refused_before_any_packet(world: World, island: Island, words: tuple[str, ...]):
    """A study cannot authorise its own target."""
    _study(world, AWAY.rstrip("/"), 0)
    ended = island.run(world, *words)
    assert ended.returncode == 2
    assert f"--authorise {OUTSIDE}" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert island.segments_received() == 0


@pytest.mark.parametrize(
    ("host", "port", "error"), [("10.99.9.9", 80, "connect_unreachable"), (OUTSIDE, 8099, "connect_refused")]
)
def test_an_unreached_host_is_one_line(world: World, island: Island, host: str, port: int, error: str):
    """Long before the load's own end, which is beyond all waits of the tests. The counter of the other tests
    sees the packets of a load that is allowed."""
    ended = island.run(
        world, "load", f"http://{host}:{port}/", "--authorise", host, "-d", LONGER_THAN_ANY_WAIT, "--quiet"
    )
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert error in ended.stderr
    assert (island.segments_received() > 0) == (host == OUTSIDE)


@pytest.mark.parametrize("follow", [0, 3])
def test_a_redirect_to_an_outside_target_sends_no_packet_there(world: World, island: Island, follow: int):
    study = _study(world, "http://127.0.0.1:8080", follow)
    with island.serving(island.here, REDIRECTING, 8080):
        ended = island.run(world, "run", study, "--out", str(world.runs))
    assert island.segments_received() == 0
    if follow:
        assert ended.returncode == 2, ended.stderr[-1500:]
        assert f"--authorise {OUTSIDE}" in ended.stderr


def _study(world: World, at: str, follow: int) -> str:
    study = {
        "name": "away",
        "lab": {"shop": {"at": at}},
        "requests": {"get": {"get": "http://shop/", "follow_redirects": follow, "timeout": "2s"}},
        "traffic": {"users": {"executor": "constant-vus", "vus": 1, "think_time": "0.1s", "request": "get"}},
        "measure": {"duration": "1s", "replicates": 1},
    }
    return world.study(study)


TAKING = program("self.rfile.read(int(self.headers['Content-Length']))\nself.answer()", host="0.0.0.0")


@pytest.mark.parametrize("lossy", [False, True])
def test_retransmits_are_rough(world: World, island: Island, needs: Callable[..., None], lossy: bool) -> None:
    """Eight users send bodies of several segments, through a queue that holds eight of them, or freely."""
    needs("tc")
    (world.root / "body").write_bytes(b"x" * 6_000)
    if lossy:
        island.lose()
    before = island.segments_sent_again()
    with island.serving(island.there, TAKING, 8099):
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

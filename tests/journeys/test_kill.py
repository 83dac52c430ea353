"""kill -9 anywhere, then resume: sealed trials are byte-identical, the plan is complete, nothing is left;
nor is anything after Ctrl-C."""

from __future__ import annotations

import json
import signal
import time

import pytest
from tests.servers import wait_until

from .kills import VICTIMS, Moment, check_end, draw_moments, play, reached
from .stalls import ask
from .world import World, complete, only_run, sealed

pytestmark = pytest.mark.truth
NAMES = VICTIMS | {"server": "svload.truth"}
STUDY = """\
name: killed
lab:
  backend: {kit: truth, role: store, service_time: 1 ms}
  cache: {kit: truth, role: cache, of: backend, service_time: 0.5 ms}
data: {objects: {in: backend, containers: 2, count: 20, size: 1 KiB}}
feeders: {object: {from: objects, take: random}}
factors: {users: [1, 2, 3, 4, 5]}
requests: {fetch: {get: "http://cache${object.path}"}}
traffic: {users: {executor: constant-vus, vus: "${users}", request: fetch}}
measure: {duration: 0.2s, replicates: 2}
"""


@pytest.fixture
def study(world: World) -> str:
    """Write a study with ten trials of two servers."""
    return world.study(STUDY)


MOMENTS = draw_moments(seed=20, count=20, load_s=0.4, victims=tuple(NAMES))


@pytest.mark.long
@pytest.mark.parametrize("half", [0, 1])
def test_twenty_kills_lose_nothing(world: World, study: str, half: int):
    """Ten kills in each of two runs, on two workers in parallel; the last of each hit a complete plan."""
    assert len(MOMENTS) == 20
    moments = MOMENTS[half::2]
    assert {moment.victim for moment in moments} == set(NAMES)
    play(world, moments, (study,), NAMES)
    check_end(world, trials=10)


@pytest.mark.smoke
def test_ctrl_c_leaves_nothing_and_resume_goes_on(world: World, study: str):
    args = ("--only", "users-1,users-2", "--replicates", "2", "--duration", "1s")
    loading = Moment("controller", "load", 1, 0.0)
    with world.start("run", study, *args, "--out", str(world.runs)) as command:
        assert command.wait_for(lambda lines: reached(world, command, loading))
        command.process.send_signal(signal.SIGINT)
        assert command.end() == 130
    assert world.silent() == []
    assert any("svload resume" in line for line in command.lines)
    run = only_run(world)
    before = sealed(run)
    assert before
    complete(run, world.svload("resume", str(run)).stderr)
    assert before.items() <= sealed(run).items()
    assert len(list(run.glob("trials/*/seal.json"))) == 4


@pytest.mark.timing
def test_after_ctrl_c_the_server_hears_nothing_more(world: World, truth: dict[str, int]):
    """No drain: by the server's own counter nothing arrives later than half a second after Ctrl-C."""

    def requests() -> int:
        return int(json.loads(ask(f"http://127.0.0.1:{truth['admin_port']}/counters"))["requests"])

    url = f"http://127.0.0.1:{truth['http_port']}/v1/a/c/o"
    with world.start("load", url, "--vus", "8", "--duration", "60s") as command:
        wait_until(lambda: requests() >= 1000)
        command.process.send_signal(signal.SIGINT)
        pressed = time.monotonic()
        while time.monotonic() < pressed + 0.5:
            last = requests()
        assert command.end() == 130
        assert world.silent() == []
        assert time.monotonic() - pressed < 5
    assert last > 1000
    assert requests() == last
    assert "Interrupted" in command.lines[-1]

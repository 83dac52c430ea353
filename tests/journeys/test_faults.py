"""A server stopped and restarted during a trial: recorded and reported, not counted as a failure; a kill
-9 meanwhile leaves nothing."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import program, wait_until

from .world import World, complete, lab_of, only_run, sealed

pytestmark = pytest.mark.truth
SERVER = program()
FRONT = program(
    """
    for _ in range(count):
        try:
            back = http.client.HTTPConnection(next(turns), timeout=1)
            back.request("GET", "/")
            answer = back.getresponse()
            return self.answer(answer.read(), answer.status)
        except OSError:
            pass
        finally:
            back.close()
    self.answer(b"", 502)
    """,
    before="""
    import http.client
    turns = itertools.cycle(sys.argv[2].split(","))
    count = len(sys.argv[2].split(","))
    """,
)


def write_study(world: World, faults: list[dict[str, Any]], replicas: Any, **more: Any) -> str:
    request = {"get": "http://front/", "timeout": "2s"}
    study = {
        "name": "failing",
        "lab": {
            "web": {"run": f"{sys.executable} server.py ${{port}}", "ready": "GET /", "replicas": replicas},
            "front": {"run": f"{sys.executable} front.py ${{port}} ${{web.addresses}}", "ready": "tcp"},
        },
        "faults": faults,
        "traffic": {"users": {"executor": "constant-arrival-rate", "rate": "100/s", "request": request}},
        "measure": {"duration": "6s", "replicates": 1},
        **more,
    }
    return world.study(study, server=SERVER, front=FRONT)


@pytest.mark.parametrize("second_s", [0.25, pytest.param(1.0, marks=pytest.mark.timing)])
def test_one_of_two_servers_restarts_and_a_lone_one_fails(world: World, second_s: float) -> None:
    """Strict, with real seconds: how fast they stop, which requests fail, and until when."""
    at, strict = (f"{second_s * number * 1000:g} ms" for number in (2, 4)), second_s == 1
    faults = [{"at": at, do: "web[1]"} for at, do in zip(at, ("stop", "start"), strict=True)]
    measure = {"duration": f"{6 * second_s:g}s", "replicates": 1}
    thresholds = [
        {"when": {"servers": "2"}, "that": "fault_error_rate < 5 %"},
        {"when": {"servers": "1"}, "that": "recovery > 1 s"},
    ]
    more = {"factors": {"servers": [1, 2]}, "measure": measure, "thresholds": thresholds}
    found = world.run(write_study(world, faults, "${servers}", **more), "--trust")
    run = only_run(world)
    assert not list(run.glob("attempts/*")), "no failure of the lab"
    case = {one["levels"]["servers"]: one["case"] for one in found["cases"]}
    trials = {one["case"]: one for one in found["trials"]}
    for servers in ("1", "2"):
        one = trials[case[servers]]
        stop, start = lab_of(run, one["trial"])["faults"]
        assert (stop["do"], stop["target"], stop["planned_s"]) == ("stop", "web[1]", 2 * second_s)
        assert 2 * second_s <= stop["begun_s"] <= stop["done_s"] <= start["done_s"]
        assert 4 * second_s <= start["begun_s"] <= start["done_s"]
        why = world.svload("why", one["trial"], "--run", str(run)).stdout
        assert "planned faults:" in why
        assert "web[1] was started again at" in why
        assert not strict or stop["begun_s"] < 2.5
    alone, both = (trials[case[servers]]["metrics"] for servers in ("1", "2"))
    assert alone["users.fault_errors"]["value"] > 0
    if strict:
        assert alone["users.fault_error_rate"]["value"] > 0.9
        assert both["users.fault_error_rate"]["value"] < 0.05
        assert 1.9 <= alone["users.recovery"]["value"] < 4
        assert alone["users.fault_errors"]["value"] == pytest.approx(200, abs=60)
    text = [one["sentence"] for one in found["findings"] if one["kind"] == "fault"]
    assert len(text) == 2
    assert all("web[1] was stopped at" in one and "web[1] was started again at" in one for one in text)
    page = (run / "derived" / "report.html").read_text()
    assert "Planned faults: when each was due" in page
    assert page.count("web[1] was stopped") >= 4, "on the time axis and in the table"
    world.succeed("verify", str(run))


def test_what_a_trial_leaves_down_is_up_for_the_next_and_kill_and_pause_are_no_failures(world: World) -> None:
    faults = [
        {"at": "100 ms", "pause": "web[1]", "for": "100 ms"},
        {"at": "300 ms", "kill": "web"},
        {"at": "600 ms", "start": "web[1]"},
    ]
    study = write_study(world, faults, 2, measure={"duration": "1s", "replicates": 2})
    trials = world.run(study, "--trust")["trials"]
    labs = [lab_of(only_run(world), trial["trial"]) for trial in trials]
    assert len(labs) == 2
    for lab in labs:
        assert [one["do"] for one in lab["faults"]] == ["pause", "resume", "kill", "start"]
        assert all(one["done_s"] is not None for one in lab["faults"])
    first, second = ({one["pid"] for one in lab["services"][0]["processes"]} for lab in labs)
    assert not first & second, "each trial has ended them"


def test_a_fault_that_cannot_be_done_is_a_failed_attempt(world: World) -> None:
    study = write_study(world, [{"at": "500 ms", "stop": "web"}, {"at": "1s", "start": "web"}], 1)
    (world.root / "server.py").write_text(
        program(before="os.system(f'mkdir once-{sys.argv[1]}') and sys.exit(1)")
    )
    ended = world.svload("run", study, "--trust", "--out", str(world.runs), "--duration", "3s")
    assert ended.returncode == 3, ended.stderr[-2000:]
    assert "exited unexpectedly" in ended.stderr
    assert list(only_run(world).glob("attempts/*"))


def test_kill_9_during_a_fault_leaves_nothing(world: World, needs: Callable[..., None]) -> None:
    """Killed while one server is stopped, another paused, a third limited."""
    needs("root")
    faults = [
        {"at": "400 ms", "stop": "web[1]"},
        {"at": "400 ms", "pause": "web[2]", "for": "1s"},
        {"at": "400 ms", "limit": {"web[3]": {"cpus": 0.5, "memory": "512 MiB"}}, "for": "1s"},
        {"at": "1500 ms", "start": "web[1]"},
    ]
    study = write_study(world, faults, 3, measure={"duration": "1600 ms", "replicates": 2})
    with world.start("run", study, "--trust", "--out", str(world.runs)) as command:
        acts = lambda lines: sum(" was " in line and "(" in line for line in lines)  # noqa: E731
        assert command.wait_for(lambda lines: acts(lines) >= 3 + 6), command.lines[-10:]
        command.process.send_signal(signal.SIGKILL)
        command.end()
    run = only_run(world)
    before = sealed(run)
    assert before, "the first trial was sealed"
    assert world.silent() == []
    complete(run, world.svload("resume", str(run), "--trust").stderr)
    assert before.items() <= sealed(run).items()
    assert len(list(run.glob("trials/*/seal.json"))) == 2
    wait_until(lambda: not groups_left())


def groups_left() -> list[Path]:
    """Return groups of dead labs: another test's lab may run beside this one."""
    return [path for path in Path("/sys/fs/cgroup").glob("*/svload/*failing*") if path.is_dir()]

"""Studies of every kind from file to report: executors, generators, data as a factor, a drain."""

from __future__ import annotations

import json
import sys

import pytest
from tests.servers import program

from svload.model.results import TrialSummary
from svload.store import RunDir, read_events, read_trial

from .world import World, assert_valid, only_run

pytestmark = pytest.mark.truth

KINDS = """\
name: kinds
lab: {{server: {{at: "http://127.0.0.1:{port}"}}}}
requests:
  get: {{get: http://server/v1/a/c/o, expect_status: 404}}
  up: {{put: "http://server/v1/a/c/o${{iteration}}", body: {{random: {{uniform: [1 KiB, 300 KiB]}}}}, expect_status: [201, 404]}}
traffic:
  wave: {{executor: ramping-vus, stages: [{{duration: 0.5s, target: 6}}, {{duration: 0.5s, target: 0}}], pacing: 5ms, request: get, generators: 2}}
  tide: {{executor: ramping-arrival-rate, stages: [{{duration: 1s, target: 200/s}}], max_vus: 8, request: get}}
  batch: {{executor: shared-iterations, vus: 3, iterations: 40, request: get, generators: 2}}
  each: {{executor: per-vu-iterations, vus: 3, iterations: 10, think_time: {{lognormal: {{median: 2 ms, p99: 9 ms}}}}, request: get}}
  upload: {{executor: per-vu-iterations, vus: 2, iterations: 6, request: up}}
measure: {{duration: 120s, replicates: 1}}
"""


@pytest.mark.smoke
def test_every_executor_runs_and_is_judged(world: World, truth: dict[str, int]) -> None:
    trial = world.run(world.study(KINDS.format(port=truth["http_port"])), "--trust")["trials"][0]
    metrics = trial["metrics"]
    assert_valid(trial, "accounting")
    asked = {name: metrics[f"{name}.requests"]["value"] for name in ("batch", "each", "upload")}
    assert asked == {"batch": 40, "each": 30, "upload": 12}
    (seal,) = only_run(world).glob("trials/*/seal.json")
    assert json.loads(seal.read_text())["facts"]["groups"]["tide"]["due"] == pytest.approx(100, abs=1)
    assert metrics["wave.response.p50"]["value"] > 0
    assert "over all stages" in metrics["wave.response.p50"]["reason"]
    assert metrics["batch.throughput"]["value"] > 0
    page = (only_run(world) / "derived" / "report.html").read_text()
    assert {"iterations", "VUs"} <= set(page.split()), "in words"


ASKED = {"get": "http://store${object.path}"}


def ten(record: str) -> dict[str, object]:
    users = {"executor": "constant-vus", "vus": 40, "generators": 10, "think_time": "5ms", "record": record}
    probe = {"executor": "constant-vus", "vus": 1, "think_time": "20ms", "request": ASKED}
    return {
        "name": "ten",
        "lab": {"store": {"kit": "truth", "role": "store"}},
        "data": {"objects": {"in": "store", "count": 20, "size": "1 KiB"}},
        "feeders": {"object": {"from": "objects", "take": "walk"}},
        "traffic": {"users": {**users, "request": ASKED}, "probe": probe},
        "measure": {"duration": "0.5s", "replicates": 1},
    }


@pytest.mark.parametrize("record", ["rows", "histogram"])
def test_each_generator_is_kept_apart_and_all_are_the_group(world: World, record: str) -> None:
    found = world.run(world.study(ten(record)))
    run = only_run(world)
    for trial in sorted((run / "trials").iterdir()):
        summary = TrialSummary.read(trial / "summary.json")
        users = next(group for group in summary.groups if group.name == "users")
        assert [(part.group, part.generator) for part in summary.parts] == [("users", k) for k in range(10)]
        for name in ("due", "begun", "ok", "failed", "connections_opened", "bytes_received"):
            assert sum(getattr(part, name) for part in summary.parts) == getattr(users, name), name
        statuses = {key: sum(part.status.get(key, 0) for part in summary.parts) for key in users.status}
        assert statuses == users.status
        assert {part.share for part in summary.parts} <= {one.share for one in summary.generators}
        assert all(part.connections_opened == 4 for part in summary.parts), "four of the forty users each"
        assert all(0 < part.response_p50_ns <= part.response_p99_ns for part in summary.parts)
        assert sum(part.responses for part in summary.parts) <= users.ok
    [case] = found["cases"]
    assert [one["generator"] for one in case["generators"]] == list(range(10))
    assert "By generator" in (run / "derived" / "report.html").read_text()


STORED = """\
name: stored
lab:
  store: {kit: truth, role: store, service_time: 0.2 ms}
data:
  things: {in: store, containers: 2, count: "${stored.count}", size: "${stored.size}"}
factors:
  stored:
    few: {count: 5, size: 1 KiB}
    many: {count: 40, size: 3 KiB}
feeders:
  thing: {from: things, take: sequential}
traffic:
  readers:
    executor: shared-iterations
    vus: 2
    iterations: 80
    record: rows
    request: {get: "http://store${thing.path}", check: [status == 200, "size_bytes == ${thing.size_bytes}"]}
measure: {duration: 100s, replicates: 2}
"""


def test_each_trial_asks_for_what_its_level_says(world: World) -> None:
    found = world.run(world.study(STORED))
    levels = {one["case"]: one["levels"]["stored"] for one in found["cases"]}
    sql = "select case_name, body_bytes, count(*) as n from samples where error = 0 group by 1, 2"
    received = {(levels[row["case_name"]], row["body_bytes"], row["n"]) for row in world.query(sql)}
    assert received == {("few", 1024, 160), ("many", 3072, 160)}


WORKING = """
ends = time.thread_time() + CPU_S
while time.thread_time() < ends:
    pass
self.answer()
"""
DRAIN = """\
name: drain
lab:
  web: {{run: "{python} server.py ${{port}}"}}
traffic:
  people: {{executor: constant-vus, vus: 4, request: {{get: "http://web/", timeout: {timeout}}}}}
measure: {{duration: 0.5s, replicates: 2}}
"""


@pytest.mark.parametrize(("cpu_s", "waits"), [(0.2, True), (0.0, False)])
def test_what_timed_out_is_waited_for(world: World, cpu_s: float, waits: bool) -> None:
    study = DRAIN.format(python=sys.executable, timeout="300 ms" if waits else "60 s")
    world.run(world.study(study, server=program(WORKING.replace("CPU_S", str(cpu_s)))), "--trust")
    run = RunDir(only_run(world))
    assert len(run.sealed_trials()) == 2
    for name in run.sealed_trials():
        (people,) = read_trial(run.trial(name).path).summary.groups
        assert ("timeout_first_byte" in people.errors) is waits
        found = read_events(run.trial(name).events).events
        phases = {one.data["name"] for one in found if one.kind == "trial-phase"}
        assert ("drain" in phases) is waits
        notices = [one.data["text"] for one in found if one.kind == "notice"]
        # How long they work on, and so whether a notice appears, depends on the machine.
        assert waits or not any("until the servers had finished" in text for text in notices), notices

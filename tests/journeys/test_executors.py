"""Traffic of every kind through the whole river: load in stages, a fixed amount of
work, uploads; judged and reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .world import World, findings, known, only_run

pytestmark = pytest.mark.truth
STUDY = """\
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
measure: {{duration: 1.2s, replicates: 1}}
"""


def test_every_executor_runs_and_is_judged(world: World, truth: dict[str, int]) -> None:
    (world.root / "study.yaml").write_text(STUDY.format(port=truth["http_port"]))
    ended = world.svload("run", "study.yaml", "--out", str(world.runs))
    assert ended.returncode in (0, 1, 4), ended.stderr[-1500:]
    found = findings(only_run(world))
    trial = found["trials"][0]
    metrics = trial["metrics"]
    grades = {check["check"]: (check["grade"], check["sentence"]) for check in trial["verdict"]["checks"]}
    for name in ("identities", "little"):
        assert grades[name][0] == "VALID", grades[name]
    asked = {name: metrics[f"{name}.requests"]["value"] for name in ("batch", "each", "upload")}
    assert asked == {"batch": 40, "each": 30, "upload": 12}
    (seal,) = only_run(world).glob("trials/*/seal.json")
    assert json.loads(seal.read_text())["facts"]["groups"]["tide"]["due"] == pytest.approx(100, abs=1)
    assert metrics["wave.response.p50"]["value"] is None
    assert "over time" in metrics["wave.response.p50"]["reason"]
    assert known(metrics["batch.response.p50"]) != 0
    assert metrics["batch.throughput"]["value"] > 0
    assert {"iterations", "VUs"} <= set((only_run(world) / "derived" / "report.html").read_text().split()), (
        "in words"
    )
    assert world.silent() == []


def test_load_makes_so_many_iterations_and_stops(world: World, truth: dict[str, int]) -> None:
    url = f"http://127.0.0.1:{truth['http_port']}/info"
    ended = world.svload("load", url, "--iterations", "500", "--vus", "8", "--json")
    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout)
    assert (said["due"], said["begun"], said["requests"], said["ok"]) == (500, 500, 500, 500)
    assert 0 < said["duration_s"] < 60
    assert said["throughput_rps"] == pytest.approx(500 / said["duration_s"])
    assert said["response_ms"]["p50"] or "too few" in said["reasons"]["response_ms.p50"]
    few = world.svload("load", url, "--iterations", "3", "--json")
    assert json.loads(few.stdout)["requests"] == 3, "fewer than users"
    wrong = world.svload("load", url, "--iterations", "3", "--rate", "5")
    assert wrong.returncode == 2
    assert "--rate" in wrong.stderr
    assert world.silent() == []

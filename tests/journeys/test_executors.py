"""Traffic of every kind from study to report: load in stages, a fixed amount of work, uploads."""

from __future__ import annotations

import json

import pytest

from .world import World, assert_valid, only_run

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
measure: {{duration: 120s, replicates: 1}}
"""


@pytest.mark.smoke
def test_every_executor_runs_and_is_judged(world: World, truth: dict[str, int]) -> None:
    trial = world.run(world.study(STUDY.format(port=truth["http_port"])), "--trust")["trials"][0]
    metrics = trial["metrics"]
    assert_valid(trial, "accounting")
    asked = {name: metrics[f"{name}.requests"]["value"] for name in ("batch", "each", "upload")}
    assert asked == {"batch": 40, "each": 30, "upload": 12}
    (seal,) = only_run(world).glob("trials/*/seal.json")
    assert json.loads(seal.read_text())["facts"]["groups"]["tide"]["due"] == pytest.approx(100, abs=1)
    assert metrics["wave.response.p50"]["value"] > 0
    assert "over all stages" in metrics["wave.response.p50"]["reason"]
    assert metrics["batch.throughput"]["value"] > 0
    assert {"iterations", "VUs"} <= set((only_run(world) / "derived" / "report.html").read_text().split()), (
        "in words"
    )
    assert world.silent() == []

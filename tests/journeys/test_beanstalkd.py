"""Jobs are put, reserved and deleted by a study's dialogue; the queue's own counts are held against it and shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .world import World, assert_valid, checks_of, only_run

pytestmark = [pytest.mark.real, pytest.mark.smoke]

STUDY = """\
name: queue
lab: {queue: {kit: beanstalkd, max_job: 1 KiB}}
requests:
  job:
    tcp: tcp://queue
    dialogue:
      - send: "put 0 0 60 5\\r\\nhello\\r\\n"
      - match: "INSERTED [0-9]+\\r\\n"
      - send: "reserve-with-timeout 5\\r\\n"
      - match: "RESERVED ([0-9]+) 5\\r\\nhello\\r\\n"
        take: job
      - send: "delete ${job}\\r\\n"
      - expect: "DELETED\\r\\n"
traffic:
  users: {executor: per-vu-iterations, vus: 4, iterations: 100, request: job, think_time: 2ms}
thresholds: ["queue.job_timeouts == 0", "queue.jobs_ready.max <= 4"]
measure: {duration: 120s, replicates: 1}
"""


def test_a_queue_is_loaded_by_a_dialogue(world: World, needs: Callable[..., None]) -> None:
    needs("beanstalkd")
    (world.root / "study.yaml").write_text(STUDY)
    found = world.run("study.yaml")
    assert {threshold["outcome"] for threshold in found["thresholds"]} & {"failed", "no value"} == set()
    trial = found["trials"][0]
    assert trial["metrics"]["users.requests"]["value"] == 400
    assert trial["metrics"]["users.success_rate"]["value"] == 1
    assert_valid(trial, "reconciliation")
    assert "queue requests 1,200 against 1,200" in checks_of(trial)["reconciliation"]["sentence"]
    asked = "select metric, max(value) - min(value) as grown from monitors where monitor = 'beanstalkd' group by metric"
    told = world.succeed("query", str(only_run(world)), asked, "--json")
    for metric in ("puts_total", "jobs_ready", "thread_seconds_total"):
        assert metric in told.stdout

"""Exit codes, exactly: of `svload report` on planted runs, and of `svload run` where no range reaches the limit."""

from __future__ import annotations

import json

import pytest
from tests.support import make_run

from .world import World, complete, only_run

pytestmark = pytest.mark.truth


@pytest.mark.parametrize(
    ("faults", "code", "outcomes"),
    [({}, 0, {"passed"}), ({"*": "errors"}, 1, {"failed"}), ({"*": "no-hits"}, 4, {"refused"})],
    ids=["clean", "errors", "refused"],
)
def test_a_report_has_its_code(world: World, faults: dict[str, str], code: int, outcomes: set[str]) -> None:
    run = make_run(world.runs, cases=2, faults=faults)
    ended = world.svload("report", str(run.path), "--json")
    assert ended.returncode == code, ended.stderr
    told = json.loads(ended.stdout)
    assert {threshold["outcome"] for threshold in told["findings"]["thresholds"]} == outcomes


STUDY = """\
name: ends
lab: {{api: {{kit: truth, role: store, service_time: 20 ms, workers: 8}}}}
requests: {{get: {{get: http://api/v1/a/c/o, expect_status: 404}}}}
traffic: {{users: {{executor: shared-iterations, vus: 2, iterations: 100, request: get}}}}
measure: {{duration: 20s, replicates: 1}}
thresholds: {thresholds}
"""


@pytest.mark.parametrize(
    ("thresholds", "code", "outcomes"),
    [
        (["response.p50 < 10 s", "success_rate >= 99 %", "requests == 100"], 0, ["passed"] * 3),
        (["response.p50 < 0.5 ms", "success_rate >= 99 %"], 1, ["failed", "passed"]),
        (["success_rate < 50 %"], 1, ["failed"]),
        (["response.p99.9 < 10 s", "success_rate >= 99 %"], 4, ["open", "passed"]),
        (["response.p99.9 < 10 s", "response.p50 < 0.5 ms"], 1, ["open", "failed"]),
    ],
)
def test_thresholds_set_the_code(world: World, thresholds: list[str], code: int, outcomes: list[str]) -> None:
    """A response takes 20 ms at least, and a range is a thirtieth to five times its number at most."""
    (world.root / "study.yaml").write_text(STUDY.format(thresholds=json.dumps(thresholds)))
    ended = world.svload("run", "study.yaml", "--out", str(world.runs))
    found = complete(only_run(world), ended.stderr)
    assert [one["outcome"] for one in found["thresholds"]] == outcomes, found["thresholds"]
    assert ended.returncode == code, ended.stderr

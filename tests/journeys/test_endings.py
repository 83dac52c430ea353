"""Exact exit codes: `svload report` on planted runs."""

from __future__ import annotations

import json

import pytest
from tests.support import make_run

from .world import World

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
    found = json.loads(ended.stdout)
    assert {threshold["outcome"] for threshold in found["findings"]["thresholds"]} == outcomes

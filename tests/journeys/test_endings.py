"""Exit codes of `svload report` on planted runs, exactly: those of real loads depend on how busy the machine was."""

from __future__ import annotations

import json

import pytest
from tests.support import make_run

from .world import World

pytestmark = pytest.mark.truth


@pytest.mark.parametrize(
    ("faults", "code", "outcomes"),
    [
        ({}, 0, {"passed"}),
        ({"*": "errors"}, 1, {"failed"}),
        ({"*": "no-hits"}, 4, {"refused"}),
    ],
    ids=["clean", "errors", "refused"],
)
def test_a_run_is_reported_with_its_code(
    world: World, faults: dict[str, str], code: int, outcomes: set[str]
) -> None:
    run = make_run(world.runs, cases=2, faults=faults)
    ended = world.svload("report", str(run.path), "--json")
    assert ended.returncode == code, ended.stderr
    told = json.loads(ended.stdout)
    assert {threshold["outcome"] for threshold in told["findings"]["thresholds"]} == outcomes

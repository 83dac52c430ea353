"""Output of `svload plan`: the duration and its source, and concurrent requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.report.conftest import Shown

from svload import api
from svload.host.process import cgroups
from svload.report.terminal.tables import show_plan

STUDY = {
    "name": "open",
    "lab": {"web": {"at": "http://127.0.0.1:9"}},
    "factors": {"rate": [10, 20]},
    "requests": {"page": {"get": "http://web/", "timeout": "5s"}},
    "traffic": {
        "steady": {"executor": "constant-arrival-rate", "rate": "100/s", "request": "page"},
        "varied": {"executor": "constant-arrival-rate", "rate": "${rate}/s", "request": "page"},
        "said": {"executor": "constant-arrival-rate", "rate": "5/s", "max_vus": 7, "request": "page"},
        "closed": {"executor": "constant-vus", "vus": 3, "request": "page"},
    },
    "measure": {"duration": "1s", "replicates": 2},
}


GATE = {"factor": "rate", "baseline": "10", "metric": "closed.response.p50"}
GATE["fail_if"] = "worse by more than 5 %"


@pytest.fixture
def printed(tmp_path: Path, shown: Shown) -> Callable[..., str]:
    def plan(**changes: Any) -> str:
        (tmp_path / "study.yaml").write_text(json.dumps(STUDY | changes))
        return shown(show_plan, api.plan(str(tmp_path), api.Choices(out=tmp_path / "runs")), width=300)

    return plan


@pytest.mark.parametrize("changes", [{}, {"compare": [GATE]}], ids=["without a gate", "with one"])
def test_a_plan(printed: Callable[..., str], snapshot: SnapshotAssertion, changes: dict[str, Any]) -> None:
    """Each open group has a number of concurrent requests, a closed one has none; the duration, also of
    blocks that a gate may add."""
    assert printed(**changes) == snapshot


def test_one_trial_is_not_one_trials(printed: Callable[..., str]) -> None:
    found = printed(factors={"rate": [10]}, measure={"duration": "1s", "replicates": 1})
    assert "\n1 trial, about " in found


@pytest.mark.parametrize(
    ("old", "limited", "expected"), [(True, "write", 1), (True, "read", 0), (False, "write", 0)]
)
def test_a_limit_of_writes_that_will_not_hold_is_reported(
    printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch, old: bool, limited: str, expected: int
) -> None:
    monkeypatch.setattr(cgroups, "writes_escape", lambda: old)
    store = {"kit": "truth", "role": "store", "disk_rate": {limited: "10 MB/s"}}
    line = "web: disk_rate write makes every number WEAK at best here"
    assert printed(lab={"web": store}).count(line) == expected


@pytest.mark.parametrize("levels", [2, 6])
def test_repeats_are_reported_once(printed: Callable[..., str], snapshot: SnapshotAssertion, levels: int):
    text = printed(
        factors={"rate": [10, 20], "build": [f"v{number}" for number in range(levels + 1)]},
        exclude=[{"when": {"rate": 10}, "because": "slow ones are known"}],
        compare=[{"name": "builds", "factor": "build", "baseline": "v0", "metric": "closed.response.p50"}],
        measure={"duration": "1s", "replicates": 6},
    )
    assert text == snapshot

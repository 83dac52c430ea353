"""What `svload plan` prints: how long and by what it is known, and how many requests of
an open loop may be under way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svload import api
from svload.host.process import cgroups
from svload.report import show_plan

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


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "study.yaml").write_text(json.dumps(STUDY))
    show_plan(api.plan(str(tmp_path), api.Choices(out=tmp_path / "runs")))
    return capsys.readouterr().out


def test_every_open_group_has_its_places_and_a_closed_one_none(printed: str) -> None:
    lines = [line for line in printed.splitlines() if "in flight" in line]
    assert lines == [
        "steady: at most 500 requests in flight (rate × timeout)",
        "varied: at most 50 requests in flight in rate-10 (rate × timeout)",
        "said: at most 7 requests in flight (as the study says)",
        "varied: at most 100 requests in flight in rate-20 (rate × timeout)",
    ]


@pytest.mark.parametrize(
    ("old", "limited", "told"), [(True, "write", 1), (True, "read", 0), (False, "write", 0)]
)
def test_a_limit_of_writes_that_will_not_hold_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: bool,
    limited: str,
    told: int,
) -> None:
    monkeypatch.setattr(cgroups, "writes_escape", lambda: old)
    monkeypatch.setenv("COLUMNS", "300")
    store = {"kit": "truth", "role": "store", "disk_rate": {limited: "10 MB/s"}}
    study = {**STUDY, "lab": {"web": store}}
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    show_plan(api.plan(str(tmp_path), api.Choices(out=tmp_path / "runs")))
    assert capsys.readouterr().out.count("web: disk_rate write makes every number WEAK at best here") == told


def test_time_is_told_with_what_it_is_known_by(printed: str) -> None:
    (line,) = (line for line in printed.splitlines() if line.startswith("4 trials"))
    assert "about 7.42 s, 46 % of it without load" in line
    assert "(what its kits state; no earlier run is known)" in line
    assert "Blocks are added" not in printed


def test_blocks_that_a_gate_may_add_are_told_with_their_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    gate = {
        "factor": "rate",
        "baseline": "10",
        "metric": "closed.response.p50",
        "fail_if": "worse by more than 5 %",
    }
    (tmp_path / "study.yaml").write_text(json.dumps({**STUDY, "compare": [gate]}))
    show_plan(api.plan(str(tmp_path), api.Choices(out=tmp_path / "runs")))
    (line,) = (one for one in capsys.readouterr().out.splitlines() if one.startswith("Blocks are added"))
    assert line == "Blocks are added until the intervals are narrow enough: at most 16 trials, about 29.7 s."


@pytest.mark.parametrize(("levels", "lines"), [(2, 2), (6, 1)])
def test_many_comparisons_and_left_out_cases_that_say_the_same_are_told_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    levels: int,
    lines: int,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    names = [f"v{number}" for number in range(levels + 1)]
    study = {
        **STUDY,
        "factors": {"rate": [10, 20], "build": names},
        "exclude": [{"when": {"rate": 10}, "because": "slow ones are known"}],
        "compare": [{"name": "builds", "factor": "build", "baseline": "v0", "metric": "closed.response.p50"}],
        "measure": {"duration": "1s", "replicates": 6},
    }
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    show_plan(api.plan(str(tmp_path), api.Choices(out=tmp_path / "runs")))
    printed = capsys.readouterr().out
    assert printed.count("decidable, minimum detectable effect unknown") == lines
    assert sum("builds" in line for line in printed.splitlines()) == levels
    told = printed.count("slow ones are known")
    assert told == (levels + 1 if levels == 2 else 1)
    assert levels == 2 or "7 cases are not run: slow ones are known (" in printed

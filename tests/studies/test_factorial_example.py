"""The committed run of the second paper's study: whole, and what its README says came out."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from svload import api
from svload.model.results import CaseResult, Findings
from svload.store import RunDir, open_pack, verify_run

STUDY = Path(__file__).parents[2] / "studies/002-factorial-redis"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return open_pack(STUDY / "example/factorial-short.svload.zip", tmp_path_factory.mktemp("factorial"))


@pytest.fixture(scope="module")
def findings(run: RunDir) -> Findings:
    return api.runs.analyse(run)


@pytest.fixture(scope="module")
def ours(findings: Findings) -> dict[str, CaseResult]:
    return {case.case: case for case in findings.cases}


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("factorial_tables", STUDY / "tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_it_is_whole(run: RunDir, findings: Findings) -> None:
    assert verify_run(run) == []
    assert findings.complete
    assert findings.sealed_trials == 108


def test_the_law_and_the_limits_are_told(findings: Findings) -> None:
    said = [one.sentence for one in findings.findings if one.kind == "law"]
    factorial = [one for one in said if one.startswith("scenario factorial")]
    assert len(factorial) == 3
    for sentence in factorial:
        assert "did not make the server faster" in sentence
        assert "N = X·(R + Z) holds within 1 %" in sentence
    for sentence in (one for one in said if one.startswith("scenario calculationsStored")):
        assert "Z* is not bracketed by the levels" in sentence, "it is full at every level"
    limits = [one.sentence for one in findings.findings if one.kind == "limit"]
    assert any("F-0.8-0: the CPU quota of web (web) was full" in one for one in limits)


def test_think_time_is_decided(findings: Findings) -> None:
    made = [one for one in findings.claims if one.name.startswith("think time where factorials are made")]
    assert len(made) == 2
    for claim in made:
        assert claim.outcome == "decided"
        assert claim.ratio.high is not None and claim.ratio.high < 0.4


def test_no_direction_is_opposite_and_two_demands_predict_the_rest(
    ours: dict[str, CaseResult], tables: ModuleType
) -> None:
    told = "\n".join(table.markdown() for table in tables.tables(ours))
    assert "opposite" not in told
    assert told.count("agrees") == 6
    rows = [
        line.strip("| ").split(" | ")
        for line in tables.predictions(ours).markdown().splitlines()
        if line.startswith("| ")
    ]
    off = {row[0]: abs(float(row[3].rstrip("%"))) for row in rows if row[0][:2] in ("F-", "S-")}
    assert len(off) == 18
    assert max(value for cell, value in off.items() if cell.startswith("F")) < 13
    assert max(off.values()) < 23


def test_the_readme_shows_its_numbers(ours: dict[str, CaseResult], tables: ModuleType) -> None:
    readme = (STUDY / "README.md").read_text(encoding="utf-8")
    rows = [line for line in tables.beside(ours).markdown().splitlines() if line.startswith(("| F-", "| S-"))]
    assert len(rows) == 18
    assert [row for row in rows if row not in readme] == []

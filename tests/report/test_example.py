"""The pack of the committed example, svLoad on real Swift and Varnish, is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload import api
from svload.model.results import Findings
from svload.store import RunDir, open_pack, verify_run

pytestmark = pytest.mark.look

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
PACK = EXAMPLE / "svload-real.svload.zip"
NOISE = {"generator-harm", "hiccups", "run-queue", "steal", "others-cpu", "calibration"}
"""Checks that a noisy machine may fail. A refused trial was repeated once."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return open_pack(PACK, tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module")
def findings(run: RunDir) -> Findings:
    """Return the findings, recomputed from the sealed files by the present analysis."""
    return api.runs.analyse(run)


def test_it_is_whole_and_undamaged(run: RunDir, findings: Findings) -> None:
    assert verify_run(run) == []
    assert findings.complete
    assert len([case for case in findings.cases if case.excluded is None]) == 20
    excluded = {case.case: case.excluded for case in findings.cases if case.excluded is not None}
    assert set(excluded) == {"TC4", "TC5", "TC16", "TC17"}
    assert set(excluded.values()) == {"the same URL can be missed only once"}


def test_the_factors_acted_by_the_servers_own_counters(findings: Findings) -> None:
    """Hits, misses, repeats, TLS sessions, connections, requests and statuses caused no refusal."""
    for trial in findings.trials:
        grades = {check.check: check for check in trial.verdict.checks}
        assert {"manipulation", "reconciliation", "accounting"} <= set(grades)
        for name in ("manipulation", "reconciliation", "accounting"):
            assert name not in grades or grades[name].grade == "VALID", (trial.trial, grades[name].sentence)
        refusing = {check.check for check in trial.verdict.checks if check.grade == "REFUSED"}
        assert refusing <= NOISE, (trial.trial, refusing)

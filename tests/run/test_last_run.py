"""`svload plan` expects the duration and noise of the last finished run, and reads no other runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.run.test_gates import write_study

from svload import api, run
from svload.analysis import ANALYSIS_VERSION
from svload.model.events import Event
from svload.store import Journal, RunDir

BESIDE_S = 2.5


def finished(study: str, out: Path, interval: tuple[float, float] = (1.1, 1.3), **changed: Any) -> RunDir:
    """Make a run of the study: every trial took `BESIDE_S` beside its load, and one claim has that
    interval."""
    lock = api.load_lock(study, api.Choices())
    made = run.begin(lock, out)
    with Journal(made.events) as journal:
        for trial in made.planned_trials():
            made.trial(trial.trial).path.mkdir()
            made.trial(trial.trial).seal.write_text("{}")
            sealed = {"trial": trial.trial, "case": trial.case, "beside_s": BESIDE_S}
            journal.write(Event("trial-sealed", sealed))
    ratio = {"value": 1.2, "low": interval[0], "high": interval[1], "n": 7}
    claim = {
        "name": "users: 2 against 1", "factor": "users", "baseline": "1", "treatment": "2", "metric": "response.p50",
        "pairs": [], "blocks": 7, "ratio": ratio, "p": 0.01, "p_adjusted": 0.02, "mde": 0.1,
        "sentence": "It is slower.",
    }  # fmt: skip
    planned = api.plan(study, api.Choices(out=out / "none"))["comparisons"]
    found = {"claims": [claim | {"name": one["name"]} for one in planned]}
    made.findings_path.write_text(json.dumps({"analysis_version": ANALYSIS_VERSION} | found | changed))
    return made


def test_it_expects_what_the_last_run_took_and_its_noise(tmp_path: Path) -> None:
    study, out = write_study(tmp_path, None, 7), tmp_path / "runs"
    before = api.plan(study, api.Choices(out=out))
    assert "kits" in before["estimated_from"]
    assert {one["mde"] for one in before["comparisons"]} == {None}
    finished(study, out)
    after = api.plan(study, api.Choices(out=out))
    assert after["estimated_from"] == "measured in the last run"
    assert after["estimated_s"] - after["estimated_load_s"] == pytest.approx(21 * BESIDE_S, abs=1)
    assert all(0.01 < one["mde"] < 1 for one in after["comparisons"])


@pytest.mark.parametrize("changed", [{"analysis_version": 0}, {"claims": [{"name": "?"}]}, {"claims": None}])
def test_another_analysis_says_nothing_of_noise(tmp_path: Path, changed: dict[str, Any]) -> None:
    study, out = write_study(tmp_path, None, 7), tmp_path / "runs"
    finished(study, out, **changed)
    planned = api.plan(study, api.Choices(out=out))
    assert planned["estimated_from"] == "measured in the last run"
    assert {one["mde"] for one in planned["comparisons"]} == {None}


def test_a_run_that_was_not_finished_is_no_last_run(tmp_path: Path) -> None:
    study, out = write_study(tmp_path, None, 7), tmp_path / "runs"
    made = finished(study, out)
    made.trial(made.planned_trials()[0].trial).seal.unlink()
    assert "kits" in api.plan(study, api.Choices(out=out))["estimated_from"]

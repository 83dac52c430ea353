"""A gate that no outcome could decide is a mistake before the run; without fail_if it is only told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svload import api
from svload.model.errors import ExitCode, SvloadError


def write_study(folder: Path, fail_if: str | None, replicates: int) -> str:
    compare = {"factor": "users", "baseline": 1, "metric": "response.p50"} | (
        {"fail_if": fail_if} if fail_if else {}
    )
    study = {
        "name": "gate",
        "lab": {"web": {"at": "http://127.0.0.1:9"}},
        "factors": {"users": [1, 2, 4]},
        "traffic": {"load": {"executor": "constant-vus", "vus": "${users}", "request": "GET http://web/"}},
        "measure": {"duration": "1s", "replicates": replicates},
        "compare": [compare],
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps(study))
    return str(path)


@pytest.mark.parametrize(("replicates", "refused"), [(2, True), (3, False)])
def test_an_undecidable_gate_of_a_factor_with_three_levels_is_refused(
    tmp_path: Path, replicates: int, refused: bool
):
    study = write_study(tmp_path, "worse by more than 5 %", replicates)
    planned = api.plan(study, api.Choices())
    hopeless = [
        entry for entry in planned["comparisons"] if entry["gated"] and entry["state"] == "undecidable"
    ]
    assert bool(hopeless) == refused
    if refused:
        with pytest.raises(SvloadError) as caught:
            api.run_study(study, api.Choices(out=tmp_path / "runs"), lambda event: None)
        assert {problem.code for problem in caught.value.problems} == {"study-undecidable"}
        assert caught.value.exit_code == ExitCode.USAGE
        assert not (tmp_path / "runs").exists()


def test_without_fail_if_it_is_only_told(tmp_path: Path):
    planned = api.plan(write_study(tmp_path, None, 2), api.Choices())
    assert all(entry["state"] == "undecidable" and not entry["gated"] for entry in planned["comparisons"])

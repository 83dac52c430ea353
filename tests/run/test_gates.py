"""A gate that no outcome could decide is an error before the run; without fail_if it is a notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from svload import api
from svload.cli.app import app
from svload.model.errors import ExitCode, SvloadError


def write_study(folder: Path, fail_if: str | None, replicates: int, **measure: str) -> str:
    compare = {"factor": "users", "baseline": 1, "metric": "response.p50"}
    compare |= {"fail_if": fail_if} if fail_if else {}
    study = {
        "name": "gate",
        "lab": {"web": {"at": "http://127.0.0.1:9"}},
        "factors": {"users": [1, 2, 4]},
        "traffic": {"load": {"executor": "constant-vus", "vus": "${users}", "request": "GET http://web/"}},
        "measure": {"duration": "1s", "replicates": replicates, **measure},
        "compare": [compare],
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps(study))
    return str(path)


def refused_run(study: str, folder: Path, code: str = "study-undecidable", **chosen: Any) -> SvloadError:
    """Return why the study is refused, and check that nothing was written."""
    with pytest.raises(SvloadError) as caught:
        api.run_study(study, api.Choices(out=folder / "runs", **chosen), lambda event: None)
    assert {problem.code for problem in caught.value.problems} == {code}
    assert not (folder / "runs").exists()
    return caught.value


@pytest.mark.parametrize(("replicates", "refused"), [(2, True), (3, False)])
def test_an_undecidable_gate_of_three_levels_is_refused(tmp_path: Path, replicates: int, refused: bool):
    study = write_study(tmp_path, "worse by more than 5 %", replicates)
    planned = api.plan(study, api.Choices())["comparisons"]
    assert any(entry["gated"] and entry["state"] == "undecidable" for entry in planned) == refused
    if refused:
        assert refused_run(study, tmp_path).exit_code == ExitCode.USAGE


def test_without_fail_if_it_is_only_reported(tmp_path: Path):
    planned = api.plan(write_study(tmp_path, None, 2), api.Choices())
    assert all(entry["state"] == "undecidable" and not entry["gated"] for entry in planned["comparisons"])


def test_a_gate_of_trials_that_run_as_listed_is_refused(tmp_path: Path):
    study = write_study(tmp_path, "worse by more than 5 %", 6, order="as-listed")
    told = str(refused_run(study, tmp_path))
    assert "trials run as listed" in told and "Remove order: as-listed, or drop fail_if." in told
    ungated = api.plan(write_study(tmp_path, None, 6, order="as-listed"), api.Choices())
    assert {(entry["state"], entry["gated"]) for entry in ungated["comparisons"]} == {("undecidable", False)}


CONFOUNDED = """\
name: limits
lab: {web: {kit: truth, role: store, cpus: "${cpus.limit}"}}
factors: {cpus: {one: {limit: 1.0, vus: 4}, half: {limit: 0.5, vus: LOAD}}}
traffic: {users: {executor: constant-vus, vus: "${cpus.vus}", request: GET http://web/}}
measure: {duration: 1s, replicates: 6}
compare: [{factor: cpus, baseline: one, metric: throughput, fail_if: worse by more than 5 %}]
"""


@pytest.mark.parametrize(("load", "state"), [(8, "confounded"), (4, "decidable")])
def test_a_gate_of_confounded_levels_is_refused(tmp_path: Path, load: int, state: str):
    path = tmp_path / "study.yaml"
    path.write_text(CONFOUNDED.replace("LOAD", str(load)))
    (planned,) = api.plan(str(path), api.Choices())["comparisons"]
    assert (planned["state"], planned["gated"]) == (state, True)
    ended = CliRunner().invoke(app, ["plan", str(path)])
    assert ended.exit_code == (ExitCode.USAGE if state == "confounded" else ExitCode.DONE)
    if state == "confounded":
        assert "web.cpus and traffic at once" in str(refused_run(str(path), tmp_path))


BUILDS = """\
name: builds
lab: {web: {kit: truth, role: store, workers: "${workers}"}}
factors: {workers: [1, 2]}
traffic: {users: {executor: constant-vus, vus: 2, request: GET http://web/}}
measure: {duration: 1s, replicates: 6ORDER}
compare: [{factor: workers, baseline: 1, metric: response.p50, fail_if: worse by more than 5 %}]
"""


def builds(folder: Path, order: str = "") -> str:
    path = folder / "study.yaml"
    path.write_text(BUILDS.replace("ORDER", order))
    return str(path)


FLEET = ("", Path("machines.yaml"), False, "other machines make the load")


@pytest.mark.parametrize(
    ("order", "inventory", "turns", "why"),
    [("", None, True, ""), FLEET, (", order: trials", None, False, "")],
)
def test_a_gate_takes_turns(tmp_path: Path, order: str, inventory: Path | None, turns: bool, why: str):
    planned = api.plan(builds(tmp_path, order), api.Choices(inventory=inventory))
    assert (planned["turns"] is not None, planned["why_trials"]) == (turns, why)


def test_the_plan_says_in_one_line_why_trials_run_one_after_the_other(tmp_path: Path):
    path = builds(tmp_path)
    Path(path).write_text(Path(path).read_text().replace("role: store,", "role: store, port: 8123,"))
    found = " ".join(CliRunner().invoke(app, ["plan", path]).stdout.split())
    assert "Trials run one after the other, not in turns, because " in found
    assert "only one of them can have this port (lab.web.port)." in found


def test_turns_of_a_fleet_are_refused_before_the_run(tmp_path: Path):
    path = builds(tmp_path, ", order: turns")
    error = refused_run(path, tmp_path, "fleet-cannot", inventory=Path("x"))
    assert "A load by turns is not supported when other machines" in str(error)

"""What `svload plan` and `run` say before anything starts: gates, expected times, full disks, misfits."""

from __future__ import annotations

import json
from collections import namedtuple
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve
from tests.support import make_run
from typer.testing import CliRunner

from svload import api, run, study
from svload.analysis import ANALYSIS_VERSION
from svload.cli.app import app
from svload.model.conditions import Machine
from svload.model.errors import ExitCode, Problem, SvloadError
from svload.model.events import Event
from svload.model.study import CaseConfig
from svload.model.units import show_size
from svload.run import execution, misfits, too_long
from svload.store import Journal, RunDir

GATE = "worse by more than 5 %"


def written(folder: Path, study: str | dict[str, Any]) -> str:
    path = folder / "study.yaml"
    path.write_text(study if isinstance(study, str) else json.dumps(study))
    return str(path)


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
    return written(folder, study)


def refused_run(study: str, folder: Path, code: str = "study-undecidable", **chosen: Any) -> SvloadError:
    """Return why the study is refused, and check that nothing was written."""
    with pytest.raises(SvloadError) as caught:
        api.run_study(study, api.Choices(out=folder / "runs", **chosen), lambda event: None)
    assert {problem.code for problem in caught.value.problems} == {code}
    assert not (folder / "runs").exists()
    return caught.value


@pytest.mark.parametrize(
    ("replicates", "measure", "states", "reason"),
    [
        (2, {}, {"undecidable"}, ""),
        (3, {}, {"decidable"}, None),
        (6, {"order": "as-listed"}, {"undecidable"}, "Remove order: as-listed, or drop fail_if."),
    ],
)
def test_an_undecidable_gate_of_three_levels_is_refused(
    tmp_path: Path, replicates: int, measure: dict[str, str], states: set[str], reason: str | None
):
    """Without `fail_if` it is only reported."""
    for fail_if in (None, GATE):
        study = write_study(tmp_path, fail_if, replicates, **measure)
        planned = api.plan(study, api.Choices())["comparisons"]
        assert {(one["state"], one["gated"]) for one in planned} == {(one, bool(fail_if)) for one in states}
    if reason is not None:
        error = refused_run(study, tmp_path)
        assert (error.exit_code, reason in str(error)) == (ExitCode.USAGE, True)


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
    path = written(tmp_path, CONFOUNDED.replace("LOAD", str(load)))
    (planned,) = api.plan(path, api.Choices())["comparisons"]
    assert (planned["state"], planned["gated"]) == (state, True)
    ended = CliRunner().invoke(app, ["plan", path])
    assert ended.exit_code == (ExitCode.USAGE if state == "confounded" else ExitCode.DONE)
    if state == "confounded":
        assert "web.cpus and traffic at once" in str(refused_run(path, tmp_path))


BUILDS = """\
name: builds
lab: {web: {kit: truth, role: store, workers: "${workers}"}}
factors: {workers: [1, 2]}
traffic: {users: {executor: constant-vus, vus: 2, request: GET http://web/}}
measure: {duration: 1s, replicates: 6ORDER}
compare: [{factor: workers, baseline: 1, metric: response.p50, fail_if: worse by more than 5 %}]
"""


@pytest.mark.parametrize(
    ("order", "inventory", "turns", "why"),
    [
        ("", None, True, ""),
        ("", Path("machines.yaml"), False, "other machines generate the load"),
        (", order: trials", None, False, ""),
    ],
)
def test_a_gate_takes_turns(tmp_path: Path, order: str, inventory: Path | None, turns: bool, why: str):
    path = written(tmp_path, BUILDS.replace("ORDER", order))
    planned = api.plan(path, api.Choices(inventory=inventory))
    assert (planned["turns"] is not None, planned["why_trials"]) == (turns, why)
    fleet = written(tmp_path, BUILDS.replace("ORDER", ", order: turns"))
    error = refused_run(fleet, tmp_path, "fleet-cannot", inventory=Path("x"))
    assert "A load by turns is not supported when other machines" in str(error)


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
    made = finished(study, out)
    after = api.plan(study, api.Choices(out=out))
    assert after["estimated_from"] == "measured in the last run"
    assert after["estimated_s"] - after["estimated_load_s"] == pytest.approx(21 * BESIDE_S, abs=1)
    assert all(0.01 < one["mde"] < 1 for one in after["comparisons"])
    made.trial(made.planned_trials()[0].trial).seal.unlink()
    unfinished = api.plan(study, api.Choices(out=out))
    assert "kits" in unfinished["estimated_from"]


@pytest.mark.parametrize("changed", [{"analysis_version": 0}, {"claims": [{"name": "?"}]}, {"claims": None}])
def test_another_analysis_says_nothing_of_noise(tmp_path: Path, changed: dict[str, Any]) -> None:
    study, out = write_study(tmp_path, None, 7), tmp_path / "runs"
    finished(study, out, **changed)
    planned = api.plan(study, api.Choices(out=out))
    assert planned["estimated_from"] == "measured in the last run"
    assert {one["mde"] for one in planned["comparisons"]} == {None}


Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(("free", "refused"), [(1_000, True), (10**12, False)])
def test_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, refused: bool) -> None:
    monkeypatch.setattr(execution.shutil, "disk_usage", lambda path: Usage(2 * free, free, free))
    monkeypatch.setattr(execution, "machine_lock", stop_here)
    monkeypatch.setattr("svload.lab.kits.external.must_answer", lambda *args: None)
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    events: list[str] = []
    study = write_study(tmp_path, None, 4)
    choices = api.Choices(out=tmp_path / "runs")
    if not refused:
        with pytest.raises(EnoughDisk):
            api.run_study(study, choices, lambda event: events.append(event.kind))
        return
    result = api.run_study(study, choices, lambda event: events.append(event.kind))
    assert result.exit_code == ExitCode.LAB_FAILED
    (problem,) = result.outcome.error.problems
    assert problem.code == "disk-full"
    assert f"has {show_size(free)} free" in str(problem)
    assert "about 0" not in str(problem)
    assert "run-started" not in events
    assert not (tmp_path / "state" / "labs").exists(), "no lab was begun"


def test_a_resumed_run_needs_room_for_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of its trials is left, and the disk has room for half of all."""
    run = RunDir(make_run(tmp_path, cases=2, replicates=2, faults={"TC1.r2": "unsealed"}).path)
    monkeypatch.setattr(execution.shutil, "disk_usage", lambda path: Usage(1_000, 500, 500))
    monkeypatch.setattr(execution, "machine_lock", stop_here)
    options = execution.Options(lambda event: None, lambda run, trial: {}, need_bytes=1_000)
    with pytest.raises(EnoughDisk):
        execution.execute(run, options)


def test_what_a_killed_run_left_is_put_back_by_who_has_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's lock is free once that run is dead, before its agent has put back its changes."""
    steps = []

    def lock(*args: object, **options: object) -> AbstractContextManager[None]:
        steps.append("lock")
        return nullcontext()

    def put_back(emit: object) -> None:
        steps.append("put back")
        raise EnoughDisk

    monkeypatch.setattr(execution, "machine_lock", lock)
    monkeypatch.setattr(execution, "put_back", put_back)
    run = RunDir(make_run(tmp_path, cases=2, replicates=1, faults={"TC1.r1": "unsealed"}).path)
    with pytest.raises(EnoughDisk):
        execution.execute(run, execution.Options(lambda event: None, lambda run, trial: {}))
    assert steps == ["lock", "put back"]


class EnoughDisk(Exception):
    """Raised instead of taking the machine's lock, which follows the check of the disk."""


def stop_here(*args: object, **options: object) -> None:
    raise EnoughDisk


def test_a_closed_port_is_tried_before_queueing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "machine_lock", stop_here)
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    choices = api.Choices(out=tmp_path / "runs")
    result = api.run_study(write_study(tmp_path, None, 4), choices, lambda event: None)
    assert result.exit_code == ExitCode.LAB_FAILED
    assert "nothing answers at" in str(result.outcome.error)


OFFERS = {"memory_bytes": 1 << 30, "open_files": 20_000, "local_ports": 28_232, "port_reuse_s": 60.0}
MACHINE = Machine(kernel="6.1", cores=8, load_cores=2, **OFFERS)


def config(folder: Path, **group: Any) -> CaseConfig:
    """Return the one case of a study with one group."""
    text = {
        "name": "fit",
        "lab": {"api": {"kit": "truth", "role": "store"}},
        "traffic": {"load": {"request": "GET http://api/", **group}},
        "measure": {"duration": "1s", "replicates": 1},
    }
    written(folder, text)
    lock = study.load_study(folder)
    return study.resolve(lock, lock.valid_cases[0])


FITS: list[dict[str, Any]] = [
    {"executor": "constant-vus", "vus": 19_000},
    {"executor": "constant-vus", "vus": 28_000, "generators": 2},
    {"executor": "constant-vus", "vus": 25_000, "generators": 10},  # they run as one generator per core
    {"executor": "constant-arrival-rate", "rate": "470/s", "connection": "new"},
    {"executor": "constant-arrival-rate", "rate": "5000/s"},
    {"executor": "constant-arrival-rate", "rate": "500000/s"},
    {"executor": "constant-arrival-rate", "rate": "5000000/s", "http2": True, "streams": 16},
]
MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"executor": "constant-vus", "vus": 19_990}, "20,000 files"),
    ({"executor": "constant-vus", "vus": 29_000, "generators": 2}, "28,232 local ports"),
    ({"executor": "constant-vus", "vus": 28_000}, "28,000 connections at once"),
    ({"executor": "constant-arrival-rate", "rate": "480/s", "connection": "new"}, "470.533"),
    (
        {"executor": "constant-arrival-rate", "rate": "1100000/s", "generators": 5},
        "asks for 1,100,000 requests a second, but 2 cores for load",
    ),
]


@pytest.mark.parametrize(("group", "words"), [*((group, "") for group in FITS), *MISFITS])
def test_what_does_not_fit_is_one_clear_line(tmp_path: Path, group: dict[str, Any], words: str) -> None:
    problems = misfits([config(tmp_path, **group)] * 3, MACHINE)
    assert len(problems) == bool(words)
    for problem in problems:
        assert problem.code == "plan-too-large"
        assert words in problem.sentence
        assert problem.remedy.endswith(".")
        assert "\n" not in str(problem)
    if group.get("generators") == 10:
        assert misfits([config(tmp_path, **group)], evolve(MACHINE, load_cores=1))


def test_a_measurement_of_weeks_is_not_asked_to_be_longer(tmp_path: Path) -> None:
    """But a short one behind a long ramp has more intervals than a series holds."""

    def measured(ramp: str, seconds: int) -> tuple[Problem, ...]:
        users = config(tmp_path, executor="constant-vus", vus=2, ramp_up=ramp)
        return too_long([evolve(users, measure__duration_ns=seconds * 10**9)])

    for days in (13, 90):
        (problem,) = measured("0s", days * 86_400)
        assert "shorter together" in problem.remedy
        assert "longer" not in problem.remedy
    (problem,) = measured("5h", 1)
    assert "5 h 1 min, which is more than 1,000,000 intervals of 1.67 ms" in str(problem)
    assert measured("5h", 600) == ()

"""Reasons to refuse before anything starts: a disk that is too small, cases that don't exist."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest
from tests.run.test_gates import write_study
from tests.support import make_run

from svload import api
from svload.model.errors import ExitCode, SvloadError
from svload.model.units import show_size
from svload.run import execution
from svload.store import RunDir

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


class EnoughDisk(Exception):
    """Raised instead of taking the machine's lock, which follows the check of the disk."""


def stop_here(*args: object, **options: object) -> None:
    raise EnoughDisk


def test_a_case_that_there_is_not_is_named_with_those_there_are(tmp_path: Path) -> None:
    study = write_study(tmp_path, None, 4)
    with pytest.raises(SvloadError) as caught:
        api.load_lock(study, api.Choices(only=("users-1", "case-9")))
    assert caught.value.exit_code == ExitCode.USAGE
    assert "no case case-9" in str(caught.value)
    assert "users-1, users-2, users-4" in str(caught.value)
    kept = api.load_lock(study, api.Choices(only=("users-2",)))
    assert [case.name for case in kept.valid_cases] == ["users-2"]
    assert {case.excluded for case in kept.cases if case.name != "users-2"} == {"left out by --only"}


def test_a_closed_port_is_tried_before_queueing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "machine_lock", stop_here)
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    choices = api.Choices(out=tmp_path / "runs")
    result = api.run_study(write_study(tmp_path, None, 4), choices, lambda event: None)
    assert result.exit_code == ExitCode.LAB_FAILED
    assert "nothing answers at" in str(result.outcome.error)

"""Which run `svload resume` continues if none is named."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from tests.evolve import evolve
from tests.run.test_before import write_study
from tests.support import make_run

from svload import api
from svload.drive.generator import read_inputs
from svload.model.errors import SvloadError
from svload.run import begin
from svload.run.inputs import row_count, tables_of, write_table
from svload.run.trust import Allowed, allow_file
from svload.store import hold_run, write_artefact


def test_a_run_whose_plan_is_all_does_not_go_on(tmp_path: Path):
    """It was killed between its last seal and the line that it is complete: `--for` adds trials only to
    turns."""
    run = make_run(tmp_path, cases=2, replicates=1)
    write_artefact(run.lock_path, evolve(run.lock(), measure__within_s=60.0))
    run.events.write_text("")
    with pytest.raises(SvloadError) as caught:
        api.resume(None, api.Choices(out=tmp_path), lambda event: None)
    assert caught.value.problems[0].code == "run-not-found"


def test_resume_refuses_another_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    run = make_run(tmp_path, cases=2, replicates=2, faults={"*.r2": "unsealed"})
    run.lock_path.write_text(run.lock_path.read_text().replace('"seed"', ' "seed"', 1))
    allow_file(run.lock_path, run.lock(), Allowed(True))
    with pytest.raises(SvloadError, match=r"it changed after TC\d\.r1 was sealed"):
        api.resume(run.name, api.Choices(out=tmp_path), lambda event: None)


@pytest.mark.parametrize(
    "value",
    ["a", "", "two\nlines", "a\rb", "\r\n", '"quoted", "twice"', '"\n', "\u2028", "x" * 200_000],
    ids=lambda value: repr(value)[:12],
)
def test_generators_read_the_rows_that_were_written(tmp_path: Path, value: str):
    path = write_table(tmp_path, "t", {"value": [value, "last"]})
    assert read_inputs(path) == {"value": ("utf8", [value, "last"])}
    assert row_count(path) == 2


def test_a_table_that_was_half_written_is_made_again_unless_trials_were_measured_with_it(tmp_path: Path):
    whole = write_table(tmp_path, "whole", {"path": ["/a", "/b"]})
    torn = write_table(tmp_path, "torn", {"path": ["/a", "/b"]})
    torn.write_bytes(torn.read_bytes()[:-2])
    write_table(tmp_path, "alone", {"path": ["/a"]}).with_suffix(".sha256").unlink()
    assert tables_of(tmp_path, measured=False) == {"whole": whole}
    with pytest.raises(SvloadError, match=r"alone.csv is damaged: its digest does not match"):
        tables_of(tmp_path)


def test_a_run_is_held_by_one_and_swept_of_what_the_dead_left(tmp_path: Path):
    run = make_run(tmp_path, cases=1, replicates=2, faults={"*.r2": "unsealed"})
    with subprocess.Popen(["true"]) as process:
        gone, alive = process.pid, os.getppid()
    left = [
        run.plan / f".000.json.{gone}.tmp",
        run.trial("TC0.r2").path / f".summary.json.{gone}.tmp",
        run.derived / f".report.{gone}.xlsx",
        run.derived / f".report.html.{gone}",
        tmp_path / f".latest.{run.name}",
    ]
    kept = [run.derived / f".report.html.{alive}", run.derived / ".mine"]
    kept.append(run.trial("TC0.r1").path / f".summary.json.{gone}.tmp")
    for path in left + kept:
        path.touch()
    with hold_run(run):
        assert [path for path in left + kept if path.exists()] == kept
        with pytest.raises(SvloadError, match="Another svload is working on"), hold_run(run):
            pass
    with hold_run(run):
        pass


def test_a_run_that_cannot_begin_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, artefact: object) -> None:
        if path.name == "study.lock.json":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("svload.run.execution.write_artefact", full)
    with pytest.raises(OSError, match="No space left"):
        begin(api.load_lock(write_study(tmp_path, None, 2), api.Choices()), tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []

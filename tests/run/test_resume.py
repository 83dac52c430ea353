"""Which run `svload resume` without a name goes on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload import api
from svload.model.errors import SvloadError
from svload.store import unfinished_runs
from svload.testing import make_run


def test_the_newest_unfinished_run_is_found_and_a_finished_one_is_not(tmp_path: Path):
    make_run(tmp_path, cases=2, replicates=1)
    assert unfinished_runs(tmp_path) == []
    with pytest.raises(SvloadError) as caught:
        api.resume(None, api.Choices(out=tmp_path), lambda event: None)
    assert caught.value.problems[0].code == "run-not-found"
    open_run = make_run(tmp_path, cases=2, replicates=1, faults={"*.r1": "unsealed"})
    assert [run.path.name for run in unfinished_runs(tmp_path)] == [open_run.path.name]


def test_under_another_lock_than_what_is_sealed_nothing_goes_on(tmp_path: Path):
    run = make_run(tmp_path, cases=2, replicates=2, faults={"*.r2": "unsealed"})
    run.lock_path.write_text(run.lock_path.read_text().replace('"seed"', ' "seed"', 1))
    with pytest.raises(SvloadError, match=r"it changed after TC\d\.r1 was sealed"):
        api.resume(run.name, api.Choices(out=tmp_path), lambda event: None)

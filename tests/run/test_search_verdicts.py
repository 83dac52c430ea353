"""What a policy decides from is the verdict on all trials, whatever was kept from one question to the next."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.evolve import evolve
from tests.support import make_run

from svload.api.runs import FinalVerdicts
from svload.store import RunDir


@pytest.mark.parametrize("compared", [True, False])
def test_the_kept_is_the_judged(compared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked after all trials but the last, then after all."""
    if not compared:
        of_study = RunDir.lock
        monkeypatch.setattr(RunDir, "lock", lambda run: evolve(of_study(run), comparisons=()))
    made = make_run(tmp_path, cases=2, replicates=2, duration_s=0.4)
    run = RunDir(made.path)
    last = made.sealed_trials()[-1]
    kept = tmp_path / "kept"
    shutil.move(run.trial(last).path, kept)
    ask = FinalVerdicts()
    before = ask(run).trials
    assert before == FinalVerdicts()(run).trials and last not in before
    shutil.move(kept, run.trial(last).path)
    assert ask(run).trials == FinalVerdicts()(run).trials
    assert last in ask(run).trials

"""What a policy decides from is the verdict on all trials, whatever was kept from one question to the next."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.evolve import evolve
from tests.support import make_run

from svload.analysis.judge import sealed_at
from svload.api.runs import FinalVerdicts
from svload.model.events import Event
from svload.store import Journal, RunDir, read_trial


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


def test_the_time_of_a_run_begins_with_the_execution_that_sealed_its_first_trial(tmp_path: Path) -> None:
    """The first of three was stopped before; a day later the second sealed all, and the third nothing."""
    run = RunDir(make_run(tmp_path, cases=1, replicates=2, duration_s=0.4).path)
    sealed_s = sealed_at(read_trial(run.trial(name)) for name in run.sealed_trials()).values()
    with Journal(run.events) as journal:
        for wall in (min(sealed_s) - 86_400, min(sealed_s) - 5, max(sealed_s) + 5):
            journal.write(Event("placement", {}, wall=wall))
    assert FinalVerdicts()(run).begun_s == min(sealed_s) - 5

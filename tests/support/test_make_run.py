from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support import SyntheticRun, make_run

from svload.drive import witness
from svload.model.columns import bucket
from svload.store import read_events, read_trial, verify_run
from svload.store.foreign.tabulate import buckets_of
from svload.watch import load_monitors
from svload.watch.sampler import METRICS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    return make_run(tmp_path_factory.mktemp("runs"), replicates=2)


def test_buckets_agree_with_the_model() -> None:
    values = [0, 1, 127, 128, 129, 255, 256, 257, 10**6, 10**9 + 1, 2**40 - 1, 2**40, 2**44 + 12345]
    assert buckets_of(np.array(values)).tolist() == [bucket(value) for value in values]


def test_it_is_a_whole_run_for_the_real_readers(run: SyntheticRun) -> None:
    assert verify_run(run) == [] and len(run.sealed_trials()) == 12
    assert set(run.sealed_trials()) == {plan.trial for plan in run.planned_trials()}
    assert {plan.block for plan in run.planned_trials()[:6]} == {0}
    assert [event.kind for event in read_events(run.events).events][-1] == "run-ended"


def test_the_same_arguments_give_the_same_tables(tmp_path: Path) -> None:
    twins = [make_run(tmp_path, cases=1, replicates=1, seed=seed) for seed in (5, 5, 6)]
    tables = [twin.trial("TC0.r1").table("samples").read_bytes() for twin in twins]
    assert tables[0] == tables[1] != tables[2]


def test_hostile_names_stay_in_their_folders(tmp_path: Path) -> None:
    hostile = {"faults": {"*": "hostile-names"}, "factors": {"where": ["a", "b"]}}
    run = make_run(tmp_path, replicates=1, cases=8, **hostile)
    assert verify_run(run) == [] and len(run.sealed_trials()) == 8
    assert any("<script>" in case.name for case in run.lock().cases)
    assert len(list(run.trials.iterdir())) == 8
    assert {path.parent for path in run.trials.rglob("seal.json")} == set(run.trials.iterdir())


def test_an_unknown_fault_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no fault"):
        make_run(tmp_path, faults={"*": "nothing"})


def test_readings_have_the_names_that_monitors_give(run: SyntheticRun) -> None:
    known = {kind.name: set(kind.metrics) for kind in load_monitors()}
    known |= {"sampler": set(METRICS), "generator": set(witness.METRICS)}
    monitors = read_trial(run.trial("TC0.r1")).monitors
    for monitor, metric in set(zip(monitors["monitor"], monitors["metric"], strict=True)):
        assert metric in known[monitor]

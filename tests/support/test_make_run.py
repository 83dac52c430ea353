from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support import SyntheticRun, make_run
from tests.support.buckets import bucket_bounds

from svload.drive import witness
from svload.model.columns import HISTOGRAM_METRICS, bucket
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
    assert verify_run(run) == []
    assert len(run.sealed_trials()) == 12
    assert set(run.sealed_trials()) == {plan.trial for plan in run.planned_trials()}
    assert {plan.block for plan in run.planned_trials()[:6]} == {0}
    assert [event.kind for event in read_events(run.events).events][-1] == "run-ended"


def test_every_request_is_accounted_for(run: SyntheticRun) -> None:
    for name in run.sealed_trials():
        trial = read_trial(run.trial(name))
        for index, group in enumerate(trial.summary.groups):
            assert group.due == group.begun + group.waiting + group.dropped
            assert group.begun == group.ok + group.failed + group.in_flight
            mine = trial.intervals["group"] == index
            for total in ("due", "begun", "ok", "failed"):
                assert int(trial.intervals[total][mine].sum()) == getattr(group, total)
            assert int(trial.rows["asked"][trial.rows["group"] == index].sum()) == group.begun
            lag = (trial.histograms["group"] == index) & (
                trial.histograms["metric"] == HISTOGRAM_METRICS.index("generator_lag")
            )
            assert int(trial.histograms["count"][lag].sum()) == group.begun
            assert group.request_ns + group.think_ns + group.lag_ns + group.wait_ns == group.active_ns
        assert len(trial.samples["due_ns"]) == trial.summary.groups[1].begun
        counted = {
            s: trial.lab.after[s].values["requests"] - trial.lab.before[s].values["requests"]
            for s in trial.lab.after
        }
        written = sum(group.written for group in trial.summary.groups)
        assert written in counted.values()


def test_the_medians_are_those_that_were_stated(tmp_path: Path) -> None:
    run = make_run(tmp_path, replicates=3, cases=["slow", "fast"], duration_s=3, between_runs_sigma=0.01)
    assert run.truth.ratio("fast", "slow") == pytest.approx(0.25)
    for name in run.sealed_trials():
        trial = read_trial(run.trial(name))
        stated_ns = run.truth.cases[trial.case].median_ns["probe"] * run.truth.trials[name].noise
        response = trial.samples["done_ns"] - trial.samples["due_ns"]
        error = 1.2533 * run.truth.cases[trial.case].sigma / np.sqrt(len(response))
        assert abs(np.log(np.median(response) / stated_ns)) < 4 * error
        chosen = (trial.histograms["group"] == 0) & (trial.histograms["metric"] == 0)
        pairs = sorted(
            zip(
                trial.histograms["bucket"][chosen].tolist(),
                trial.histograms["count"][chosen].tolist(),
                strict=True,
            )
        )
        cumulated = np.cumsum([count for _, count in pairs])
        low, high = bucket_bounds(pairs[int(np.searchsorted(cumulated, cumulated[-1] / 2))][0])
        assert abs(np.log((low + high) / 2 / stated_ns)) < 0.08


def test_the_same_arguments_give_the_same_tables(tmp_path: Path) -> None:
    twins = [make_run(tmp_path, cases=1, replicates=1, seed=seed) for seed in (5, 5, 6)]
    tables = [twin.trial("TC0.r1").table("samples").read_bytes() for twin in twins]
    assert tables[0] == tables[1] != tables[2]


def test_hostile_names_stay_in_their_folders(tmp_path: Path) -> None:
    run = make_run(
        tmp_path, replicates=1, cases=8, faults={"*": "hostile-names"}, factors={"where": ["a", "b"]}
    )
    assert verify_run(run) == []
    assert len(run.sealed_trials()) == 8
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

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support import FAULTS, SyntheticRun, make_run
from tests.support.traffic import buckets_of

from svload.drive import witness
from svload.model.columns import HISTOGRAM_METRICS, bucket, bucket_bounds
from svload.model.results import TrialSummary
from svload.store import TrialData, read_events, read_trial, verify_run
from svload.watch import load_monitors
from svload.watch.sampler import METRICS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    return make_run(tmp_path_factory.mktemp("runs"), replicates=2)


def planted(tmp_path: Path, fault: str, **more: object) -> tuple[SyntheticRun, TrialData, TrialData]:
    """Return a run with `fault` in TC1.r1 (a cache hit over http), that trial, and its clean twin TC1.r2."""
    made = make_run(tmp_path, replicates=2, cases=2, faults={"TC1.r1": fault}, **more)
    return made, read_trial(made.trial("TC1.r1")), read_trial(made.trial("TC1.r2"))


def groups(summary: TrialSummary) -> dict[str, dict[str, int]]:
    return {group.name: group.model_dump() for group in summary.groups}


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


def test_more_cases_add_a_factor_and_leave_the_rest_out(tmp_path: Path) -> None:
    lock = make_run(tmp_path, cases=8, replicates=1).lock()
    assert len(lock.valid_cases) == 8
    assert len(lock.cases) == 12
    assert [factor.name for factor in lock.factors] == ["variant", "protocol", "server"]


def test_no_hits_contradicts_the_level(tmp_path: Path) -> None:
    _, bad, good = planted(tmp_path, "no-hits")
    ratio = {
        trial.trial: (trial.lab.after["cache"].values["hits"] - trial.lab.before["cache"].values["hits"])
        / (trial.lab.after["cache"].values["requests"] - trial.lab.before["cache"].values["requests"])
        for trial in (bad, good)
    }
    assert ratio == {"TC1.r1": 0.0, "TC1.r2": 1.0}


def test_generator_limited_shows_in_the_lag_alone(tmp_path: Path) -> None:
    _, bad, good = planted(tmp_path, "generator-limited")
    lag = [np.median(trial.samples["begun_ns"] - trial.samples["ready_ns"]) for trial in (bad, good)]
    service = [np.median(trial.samples["done_ns"] - trial.samples["begun_ns"]) for trial in (bad, good)]
    assert lag[0] > 20 * lag[1]
    assert service[0] == pytest.approx(service[1], rel=0.2)


def test_too_short_leaves_one_request_a_user(tmp_path: Path) -> None:
    _, bad, good = planted(tmp_path, "too-short")
    assert 1 <= groups(bad.summary)["probe"]["begun"] <= 10
    assert bad.samples["seq"].max() == 0
    assert groups(good.summary)["probe"]["begun"] > 100


def test_warming_falls_over_the_whole_trial(tmp_path: Path) -> None:
    _, bad, _ = planted(tmp_path, "warming")
    response = bad.samples["done_ns"] - bad.samples["due_ns"]
    tenth = len(response) // 10
    assert np.median(response[:tenth]) > 3 * np.median(response[-tenth:])


def test_a_broken_identity_is_broken(tmp_path: Path) -> None:
    _, bad, _ = planted(tmp_path, "identity-broken")
    one = groups(bad.summary)["background"]
    assert one["begun"] != one["ok"] + one["failed"] + one["in_flight"]


def test_overload_grows_a_backlog_with_a_clean_generator(tmp_path: Path) -> None:
    _, bad, good = planted(tmp_path, "overloaded", load="open")
    one = groups(bad.summary)["background"]
    assert one["waiting"] > 0.1 * one["due"]
    assert one["lag_ns"] < 0.02 * one["request_ns"]
    assert groups(good.summary)["background"]["waiting"] == 0
    with pytest.raises(ValueError, match="open"):
        make_run(tmp_path, faults={"*": "overloaded"})


def test_errors_are_a_share_of_all_kinds(tmp_path: Path) -> None:
    _, bad, _ = planted(tmp_path, "errors")
    one = groups(bad.summary)["background"]
    assert one["failed"] == sum(one["errors"].values())
    assert set(one["errors"]) == {"connect_refused", "status", "timeout_first_byte"}
    assert 0.02 < one["failed"] / one["begun"] < 0.09


def test_count_mismatch_is_five_per_cent(tmp_path: Path) -> None:
    _, bad, _ = planted(tmp_path, "count-mismatch")
    counted = bad.lab.after["cache"].values["requests"] - bad.lab.before["cache"].values["requests"]
    assert counted / sum(group.written for group in bad.summary.groups) == pytest.approx(0.95, abs=0.001)


def test_unsealed_and_damaged_are_seen_by_the_store(tmp_path: Path) -> None:
    run = make_run(tmp_path, replicates=2, cases=2, faults={"TC0.r1": "unsealed", "TC1.*": "damaged"})
    assert run.unsealed_trials() == ("TC0.r1",)
    assert [problem.details["path"] for problem in verify_run(run)] == [
        run.trial(name).table("samples") for name in run.sealed_trials() if name.startswith("TC1")
    ]


def test_hostile_names_stay_in_their_folders(tmp_path: Path) -> None:
    run = make_run(
        tmp_path, replicates=1, cases=8, faults={"*": "hostile-names"}, factors={"where": ["a", "b"]}
    )
    assert verify_run(run) == []
    assert len(run.sealed_trials()) == 8
    assert any("<script>" in case.name for case in run.lock().cases)
    assert len(list(run.trials.iterdir())) == 8
    assert {path.parent for path in run.trials.rglob("seal.json")} == set(run.trials.iterdir())


def test_what_is_planted_in_a_case_stands_in_the_lock(tmp_path: Path) -> None:
    run = make_run(tmp_path, replicates=1, cases=2, faults={"TC1": "too-short"})
    assert run.lock().plants == {"TC1": "too-short"}
    assert json.loads((run.path / "truth.json").read_text())["trials"]["TC1.r1"]["fault"] == "too-short"


def test_an_unknown_fault_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no fault"):
        make_run(tmp_path, faults={"*": "nothing"})


def test_every_fault_has_a_test_here() -> None:
    text = Path(__file__).read_text()
    assert [fault for fault in FAULTS if f'"{fault}"' not in text] == []


def test_readings_have_the_names_that_monitors_give(run: SyntheticRun) -> None:
    known = {kind.name: set(kind.metrics) for kind in load_monitors()}
    known |= {"sampler": set(METRICS), "generator": set(witness.METRICS)}
    monitors = read_trial(run.trial("TC0.r1")).monitors
    for monitor, metric in set(zip(monitors["monitor"], monitors["metric"], strict=True)):
        assert metric in known[monitor]

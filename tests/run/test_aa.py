"""The plan of an A/A run: one case of each load, two trials a pair, restarted where a comparison would restart."""

from __future__ import annotations

from typing import Any

import pytest
from tests.evolve import evolve
from tests.support import make_run

from svload.model.study import Comparison, Lock
from svload.run import aa_batch, aa_lock, compares_restarts


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> Lock:
    return make_run(tmp_path_factory.mktemp("aa"), replicates=1, duration_s=0.1).lock()


def split(lock: Lock, change: Any) -> Lock:
    factors = tuple(
        evolve(factor, change=change) if factor.name == "protocol" else factor for factor in lock.factors
    )
    comparison = Comparison(name="tls", factor="protocol", baseline="http", metric="probe.response.p50")
    return evolve(lock, factors=factors, comparisons=(comparison,))


def test_only_the_wanted_cases_are_left_and_pairs_are_replicates(lock: Lock) -> None:
    planned = aa_lock(lock, ("TC1",), 20)
    assert [case.name for case in planned.valid_cases] == ["TC1"]
    assert planned.measure.replicates == 40
    assert (planned.comparisons, planned.thresholds) == ((), ())
    trials = aa_batch(planned, restarts=False).trials
    assert [trial.trial for trial in trials] == [f"TC1.r{number}" for number in range(1, 41)]
    assert not any(trial.restart for trial in trials)


def test_it_restarts_before_each_trial_where_a_comparison_restarts(lock: Lock) -> None:
    trials = aa_batch(aa_lock(lock, ("TC1",), 20), restarts=True).trials
    assert [trial.restart for trial in trials] == [False] + [True] * 39
    assert len({trial.whole_plot for trial in trials}) == 40


@pytest.mark.parametrize(
    ("change", "restarts"), [("request", False), ("live", False), ("restart", True), ("rebuild", True)]
)
def test_which_comparisons_restart(lock: Lock, change: str, restarts: bool) -> None:
    assert compares_restarts(split(lock, change)) is restarts


def test_what_is_left_out_says_why(lock: Lock) -> None:
    left = next(case for case in aa_lock(lock, ("TC1",), 20).cases if case.name == "TC0")
    assert "same load" in left.excluded

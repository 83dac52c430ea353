"""Who stood still in the first half of a run, after a settled start, did not warm up: what was late is kept,
and a generator's own doing judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, bench_of, check, with_readings, with_table
from tests.support import make_run

from svload.analysis.judge import trial_cut
from svload.model.columns import HISTOGRAM_METRICS, bucket
from svload.store import TrialData

FIRST, EARLY, ACROSS_HALF = (0, 30), (150, 170), (290, 320)
"""Intervals of 10 ms in which nothing was done."""
LATE_NS = 200_000_000


@pytest.fixture(scope="module", params=["open", "closed"])
def long(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Bench]:
    run = make_run(
        tmp_path_factory.mktemp(request.param), cases=1, replicates=1, load=request.param, duration_s=6.0
    )
    return request.param, bench_of(run)


def stalled(trial: TrialData, *metrics: str, stop: tuple[int, int] = EARLY) -> TrialData:
    """The background's answers and these of its histograms are late in the stop, and its intervals say so."""
    inside = lambda table: (  # noqa: E731
        (table["group"] == 0) & (table["interval"] >= stop[0]) & (table["interval"] < stop[1])
    )

    def buckets(table: Any) -> Any:
        late = np.isin(table["metric"], [HISTOGRAM_METRICS.index(name) for name in ("response", *metrics)])
        return np.where(inside(table) & late, bucket(LATE_NS), table["bucket"])

    def sums(table: Any) -> Any:
        return np.where(inside(table), LATE_NS * (table["ok"] + table["failed"]), table["response_sum_ns"])

    trial = with_table(trial, "histograms", bucket=buckets)
    return with_table(trial, "intervals", response_sum_ns=sums)


def test_a_slow_start_is_cut_and_a_stalled_server_is_not(long: tuple[str, Bench]) -> None:
    _, bench = long
    trial = bench.trial("TC0.r1")
    config = bench.config(trial)
    slow = trial_cut(stalled(trial, stop=FIRST), config)
    assert (slow.method, slow.cut_ns >= 10_000_000 * (FIRST[1] - 10)) == ("MSER-5", True)
    stall = trial_cut(stalled(trial), config)
    assert (stall.cut_ns, "a stall after a settled start" in stall.method) == (0, True)
    assert "a stall" in check(stalled(trial), config, "warm-up").sentence


def test_a_stopped_generator_is_not_cut(long: tuple[str, Bench]) -> None:
    load, bench = long
    trial = bench.trial("TC0.r1")
    config = bench.config(trial)
    stopped = stalled(trial, "generator_lag") if load == "open" else stalled(trial)
    if load == "closed":
        # The gap is told by the witness's next look.
        gap = lambda at, old: np.where((at > 1.7) & (at <= 1.8), 0.4, old)  # noqa: E731
        stopped = with_readings(stopped, "generator", "hiccup_seconds", gap)
    own = trial_cut(stopped, config)
    assert (own.cut_ns, "generator's own" in own.method) == (0, True)
    assert "generator's own" in check(stopped, config, "warm-up").sentence


def test_a_stop_across_the_half_is_no_unsettled_trial(tmp_path: Path) -> None:
    bench = bench_of(make_run(tmp_path, cases=1, replicates=1, load="open", duration_s=6.0))
    trial = bench.trial("TC0.r1")
    config = bench.config(trial)
    servers = stalled(trial, stop=ACROSS_HALF)
    assert (trial_cut(servers, config).cut_ns, trial_cut(servers, config).at_half) == (0, False)
    assert check(servers, config, "warm-up").grade == "VALID"
    own = trial_cut(stalled(trial, "generator_lag", stop=ACROSS_HALF), config)
    assert (own.cut_ns, own.at_half) == (0, False)


def test_a_late_generator_after_the_warm_up_leaves_the_cut(long: tuple[str, Bench]) -> None:
    """Only what would be dropped is looked at."""
    _, bench = long
    trial = bench.trial("TC0.r1")
    config = bench.config(trial)
    late = with_readings(trial, "generator", "hiccup_seconds", lambda at, old: np.where(at > 5, 0.3, old))
    assert trial_cut(late, config) == trial_cut(trial, config)

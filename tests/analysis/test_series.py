"""Warm-up cut and drift on series whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analysis.conftest import Bench
from tests.evolve import evolve

from svload.analysis.judge import matched_cuts, trial_cut
from svload.analysis.series import (
    Cut,
    backlog_grows,
    backlog_growth,
    case_cut,
    drift,
    is_stall,
    mser5,
    provisional_cut,
    theil_sen,
)
from svload.analysis.view import kept_window, look

SECOND = 1_000_000_000


def brute_mser5(x: np.ndarray) -> int:
    y = x[: len(x) // 5 * 5].reshape(-1, 5).mean(axis=1)
    scores = [((y[d:] - y[d:].mean()) ** 2).sum() / (len(y) - d) ** 2 for d in range(len(y) // 2 + 1)]
    return int(np.argmin(scores)) * 5


@pytest.mark.parametrize("seed", range(5))
def test_mser5_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(603) + 3 * np.exp(-np.arange(603) / 40)
    assert mser5(x)[0] == brute_mser5(x)


def test_mser5_finds_the_end_of_a_step() -> None:
    x = np.random.default_rng(1).normal(1, 0.1, 1000)
    x[:200] += 1
    dropped, at_half = mser5(x)
    assert 195 <= dropped <= 230
    assert not at_half


def test_mser5_says_when_the_first_half_was_not_enough() -> None:
    x = 5 - 4 * np.arange(600) / 600 + np.random.default_rng(2).normal(0, 0.1, 600)
    assert mser5(x)[1]
    assert mser5(np.ones(12)) == (0, False)


@pytest.mark.parametrize(
    ("end", "height", "found"), [(0.6, 1.0, True), (0.7, 1.0, True), (0.6, 0.2, False), (0.85, 1.0, False)]
)
def test_a_warm_up_that_ends_in_the_third_quarter_is_too_long(end: float, height: float, found: bool) -> None:
    x = np.random.default_rng(6).normal(1, 0.3, 600)
    x[: int(600 * end)] += height
    assert mser5(x)[1] is found


def test_a_hiccup_in_an_even_series_is_no_warm_up() -> None:
    x = np.random.default_rng(7).normal(32, 0.01, 600)
    x[330] = 20
    assert not mser5(x)[1]


def test_a_steady_series_is_hardly_cut() -> None:
    rng = np.random.default_rng(3)
    found = [mser5(rng.standard_normal(600)) for _ in range(100)]
    assert sum(at_half for _, at_half in found) == 0
    assert np.median([cut for cut, _ in found]) < 30


@pytest.mark.parametrize("at", [0.05, 0.2, 0.4])
def test_a_stall_after_a_settled_start_is_no_warm_up(at: float) -> None:
    x = np.random.default_rng(8).exponential(1, 600) + 1
    x[int(600 * at) : int(600 * at) + 40] = 300
    dropped, _ = mser5(x)
    assert dropped >= int(600 * at) + 35, "MSER-5 alone drops it"
    assert is_stall(x, dropped)


def test_a_warm_up_is_no_stall() -> None:
    rng = np.random.default_rng(9)
    for scale in (10, 80):
        for rise in (0.5, 5.0, 100.0):
            x = rng.exponential(1, 600) + 1 + rise * np.exp(-np.arange(600) / scale)
            assert not is_stall(x, mser5(x)[0])
    slow_start = np.concatenate([np.full(40, 300.0), rng.exponential(1, 560)])
    assert not is_stall(slow_start, mser5(slow_start)[0]), "what stands still from the start warms up"
    steady = [correlated(rng, 600, 0.9, 0.3) for _ in range(100)]
    assert not any(is_stall(x, mser5(x)[0]) for x in steady)


def cut(cut_s: float, at_half: bool = False) -> Cut:
    return Cut(round(cut_s * SECOND), at_half, "MSER-5", "load")


def test_one_cut_for_a_case_is_the_median_and_that_of_the_slowest_it_is_compared_with() -> None:
    """The largest cut of many replicates would grow with their number: 26 % of a steady series with twelve."""
    cuts = [cut(1), cut(3), cut(2), cut(5, at_half=True)]
    decided = case_cut(cuts, 10 * SECOND)
    assert {one.cut_ns for one in decided} == {round(2.5 * SECOND)}
    assert [one.grade for one in decided] == ["VALID", "VALID", "VALID", "WEAK"]
    assert {one.cut_ns for one in case_cut(cuts, 10 * SECOND, 4 * SECOND)} == {4 * SECOND}
    assert {one.cut_ns for one in case_cut(cuts, 10 * SECOND, 1 * SECOND)} == {round(2.5 * SECOND)}


def test_a_case_is_too_short_by_the_median_of_its_cuts() -> None:
    decided = case_cut([cut(1), cut(5, True), cut(5, True), cut(5, True)], 10 * SECOND)
    assert {one.grade for one in decided} == {"REFUSED"}
    decided = case_cut([cut(1), cut(1), cut(5, True), cut(5, True)], 10 * SECOND)
    assert [one.grade for one in decided] == ["VALID", "VALID", "WEAK", "WEAK"]
    assert case_cut([cut(5, True)], 10 * SECOND)[0].grade == "REFUSED"


def test_a_provisional_verdict_leaves_chance_to_the_replicates() -> None:
    assert provisional_cut(cut(5, True), 10 * SECOND).grade == "WEAK"
    assert provisional_cut(Cut(5 * SECOND, True, "first cycle"), 10 * SECOND).grade == "REFUSED"
    assert provisional_cut(cut(1), 10 * SECOND).grade == "VALID"


def test_few_observations_lose_the_first_cycle_of_the_users(closed: Bench) -> None:
    trial = closed.trial("TC4.r1")
    window = kept_window(trial.summary)
    probe = next(one for one in look(trial, closed.config(trial), window) if one.name == "probe")
    assert len(probe.rows) < 600
    found = trial_cut(trial, closed.config(trial))
    # Users start spread over their think time of 20 ms, and a cycle is 20 ms and a response.
    median_ns = closed.run.truth.cases["TC4"].median_ns["probe"]
    assert 40e6 < found.cut_ns < 40e6 + 3 * median_ns
    assert "first cycle" in found.method


def test_a_growing_backlog_has_no_warm_up(open_loop: Bench) -> None:
    trial = open_loop.trial("TC1.r1")
    assert trial_cut(trial, open_loop.config(trial)).cut_ns == 0
    background = look(trial, open_loop.config(trial), kept_window(trial.summary))[0]
    assert min(backlog_growth(background)) == pytest.approx(1 - 1 / 1.5, abs=0.06)
    assert backlog_grows(background)
    clean = open_loop.trial("TC0.r1")
    assert not backlog_grows(look(clean, open_loop.config(clean), kept_window(clean.summary))[0])


def test_theil_sen_is_the_slope_despite_outliers() -> None:
    line = 3.0 + 0.5 * np.arange(50)
    line[::10] += 100
    assert theil_sen(line)[0] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("change", "unsteady"), [(0.09, False), (0.12, True), (-0.12, True), (0.0, False)])
def test_drift_needs_ten_percent(change: float, unsteady: bool) -> None:
    x = 1 + change * (np.arange(600) / 600 - 0.5) + np.random.default_rng(4).normal(0, 0.02, 600)
    found = drift(x)
    assert found.relative == pytest.approx(change, abs=0.01)
    assert found.unsteady is unsteady


def test_noise_alone_is_seldom_a_drift() -> None:
    rng = np.random.default_rng(5)
    found = [drift(np.exp(0.3 * rng.standard_normal(100))) for _ in range(300)]
    assert sum(one is not None and one.unsteady for one in found) / 300 < 0.1
    assert drift([1.0, 2.0]) is None
    assert drift(np.zeros(100)) is None


def test_a_late_minimum_counts_where_it_is_three_times_below() -> None:
    noise = np.random.default_rng(3).normal(0, 1, 1000)
    late = np.arange(1000) >= 600
    for clear, step in ((2.5, 2.25), (3.5, 2.7)):
        score = ratio_of_minima(10 + noise + step * late)
        assert score == pytest.approx(clear, rel=0.1)
        assert mser5(10 + noise + step * late)[1] == (clear > 3)


def ratio_of_minima(x: np.ndarray) -> float:
    """MSER-5's least value in the first half over that in the third quarter."""
    y = x.reshape(-1, 5).mean(axis=1)
    scores = [((y[d:] - y[d:].mean()) ** 2).sum() / (len(y) - d) ** 2 for d in range(len(y) * 3 // 4)]
    return float(min(scores[: len(y) // 2 + 1]) / min(scores[len(y) // 2 + 1 :]))


@pytest.mark.parametrize(("above", "stalls"), [(11, True), (16, False)])
def test_a_stall_begins_after_a_first_tenth_at_the_level_that_is_kept(above: int, stalls: bool) -> None:
    x = np.ones(900)
    x[:above], x[200:210] = 2.0, 50.0
    assert is_stall(x, 300) == stalls


def test_the_level_that_is_kept_is_its_95th_percentile() -> None:
    x = np.ones(900)
    x[300:324], x[:300], x[200:210] = 2.0, 1.5, 50.0
    assert not is_stall(x, 300), "4 % of what is kept are higher, and the head lies above the rest"
    x[300:336] = 2.0
    assert is_stall(x, 300)


def correlated(rng: np.random.Generator, size: int, rho: float, spread: float) -> np.ndarray:
    """exp of a steady AR(1) series of that standard deviation."""
    noise = rng.standard_normal(size) * np.sqrt(1 - rho**2)
    series = np.empty(size)
    series[0] = rng.standard_normal()
    for at in range(1, size):
        series[at] = rho * series[at - 1] + noise[at]
    return np.exp(spread * series)


@pytest.mark.parametrize(
    ("size", "rho", "most"),
    [(30, 0.0, 0.12), (100, 0.5, 0.1), (100, 0.9, 0.15), (300, 0.9, 0.13), (600, 0.97, 0.1)],
)
def test_a_steady_series_seldom_drifts_however_correlated(size: int, rho: float, most: float) -> None:
    rng = np.random.default_rng(8)
    found = [drift(correlated(rng, size, rho, 0.5)) for _ in range(200)]
    assert sum(one is not None and one.unsteady for one in found) / 200 <= most


@pytest.mark.parametrize("shape", ["line", "curve"])
@pytest.mark.parametrize("size", [100, 600])
def test_a_warm_up_is_still_found_in_a_correlated_series(shape: str, size: int) -> None:
    rng = np.random.default_rng(9)
    at = np.arange(size) / size
    level = 1 + 0.4 * (at - 0.5) if shape == "line" else 1 + 0.8 * np.exp(-4 * at)
    found = [drift(level * correlated(rng, size, 0.5, 0.1)) for _ in range(60)]
    assert sum(one is not None and one.unsteady for one in found) >= 57


def test_an_interval_for_several_series_is_wider() -> None:
    x = 1 + 0.8 * np.arange(30) / 30 + np.random.default_rng(11).normal(0, 0.1, 30)
    alone, among = drift(x), drift(x, 0.025 / 4)
    assert among.interval[0] < alone.interval[0] < alone.interval[1] < among.interval[1]


def test_compared_cases_are_read_over_one_window(closed: Bench) -> None:
    """The clean study compares nothing, and each of its cases has its own."""
    own = {"TC0": [cut(1), cut(1)], "TC1": [cut(2), cut(4)]}
    windows = dict.fromkeys(own, 10 * SECOND)
    for compared, expected in ((closed.lock.comparisons, {3}), ((), {1, 3})):
        lock = evolve(closed.lock, comparisons=compared)
        found = matched_cuts(own, windows, lock)
        assert {one.cut_ns // SECOND for cuts in found.values() for one in cuts} == expected

"""Percentiles, intervals and tests between runs, checked against brute force and simulation."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from scipy import stats
from tests.analysis.test_series import autoregressive

from svload.analysis.inference import (
    autocorrelation_times,
    batch_means,
    holm,
    least_detectable,
    replicates_for,
    sign_flip_p,
    welch_interval,
)
from svload.analysis.quantiles import least_n_eff, order_statistics, percentile, ranked_values, reaches
from svload.model.results import Estimate


def test_sixteen_blocks_are_enumerated_and_seventeen_drawn() -> None:
    assert sign_flip_p(np.ones(16)) == 2 / 2**16
    assert sign_flip_p(np.ones(17)) > 2 / 2**17, "a draw counts the observed one too"
    noise = np.random.default_rng(4).standard_normal(20)
    options = {"permutation_type": "samples", "n_resamples": 50_000, "random_state": 1}
    exact = stats.permutation_test((noise,), lambda x, axis=-1: np.sum(x, axis=axis), **options).pvalue
    assert sign_flip_p(noise) == sign_flip_p(noise) == pytest.approx(exact, abs=0.02)


def test_batch_means_take_twenty_batches() -> None:
    x = np.random.default_rng(5).normal(10, 1, 400).cumsum()
    by_hand = x.reshape(20, 20).mean(axis=1)
    assert float(batch_means(x).variance[0]) == pytest.approx(by_hand.var(ddof=1) / 20)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_replicates_that_an_interval_needs_follow_from_t() -> None:
    assert replicates_for(1.0, 4) == 5, "one more at least"
    half = stats.t.ppf(0.975, 2) / sqrt(3)
    found = replicates_for(2.0, 3)
    assert stats.t.ppf(0.975, found - 1) / sqrt(found) <= half / 2
    assert stats.t.ppf(0.975, found - 2) / sqrt(found - 1) > half / 2
    assert replicates_for(1e6, 3) is None
    assert replicates_for(sqrt(900 / 100), 100) is not None
    assert replicates_for(sqrt(1200 / 100), 100) is None, "nobody makes so many"


def test_welch_is_scipys() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.normal(1, 1, 7), rng.normal(0, 3, 5)
    difference, interval = welch_interval(a, b)
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert difference == pytest.approx(a.mean() - b.mean())
    assert interval == pytest.approx((expected.low, expected.high))
    assert welch_interval([1.0], [2.0]) == (-1.0, None)


def test_least_detectable_effect_has_the_promised_power() -> None:
    blocks, sd = 8, 0.05
    effect = least_detectable(sd, blocks)
    rng = np.random.default_rng(8)
    draws = rng.normal(log(1 + effect), sd, (4000, blocks))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / sqrt(blocks))
    power = np.mean(np.abs(t) > stats.t.ppf(0.975, blocks - 1))
    assert 0.77 < power < 0.87
    assert least_detectable(sd, 1) is None


MS = 1_000_000


@pytest.mark.parametrize("p", [0.01, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999])
def test_a_quantile_is_median_unbiased(p: float) -> None:
    values = np.random.default_rng(5).exponential(1.0, 203) * 1e9
    expected = np.quantile(values, p, method="median_unbiased")
    assert ranked_values(values).quantile(p) == pytest.approx(expected)
    assert reaches(p, 203) is (p < 0.999)


def test_failures_rank_above_every_limit() -> None:
    population = ranked_values(np.arange(1, 951) * MS, total=1000)
    assert percentile(population, 0.95).value == pytest.approx(0.95)
    assert percentile(population, 0.9).value == pytest.approx(0.9, abs=1e-3)
    beyond = percentile(population, 0.951)
    assert (beyond.value, beyond.reason) == (None, "> timeout (5 % failed)")
    assert percentile(ranked_values(np.array([])), 0.5).value is None, "nothing was due"


@pytest.mark.parametrize(
    ("p", "least"), [(0.5, 6), (0.75, 13), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)]
)
def test_a_percentile_below_the_least_sample_is_marked(p: float, least: int) -> None:
    """The clean case has just enough requests for both ends; the planted one has one less."""
    assert least_n_eff(p) == least
    assert max(p, 1 - p) ** least <= 0.025 < max(p, 1 - p) ** (least - 1)
    below, enough = (percentile(ranked_values(np.arange(1, n + 1)), p) for n in (least - 1, least))
    assert below.value is not None
    assert (below.why, below.weak, below.need) == ("too few", True, least)
    assert None in (below.low, below.high)
    assert (enough.why, None not in (enough.value, enough.low, enough.high)) == ("", True)


def test_the_effective_sample_decides_and_not_the_count() -> None:
    population = ranked_values(np.arange(1, 1001) * MS)
    assert percentile(population, 0.95, tau=1000 / 71).why == "too few"
    graded = percentile(population, 0.95, tau=1000 / 80)
    assert graded.value == pytest.approx(0.95, rel=1e-3)
    assert (graded.why, graded.weak) == ("", True)
    assert not percentile(population, 0.95, tau=1000 / 201).weak
    assert percentile(population, 0.95, tau=1000 / 199).weak


def test_order_statistics_of_the_median_are_the_tables() -> None:
    # Sign-test tables (two-sided, 0.025 a tail): n = 6 → (1, 6), 10 → (2, 9), 20 → (6, 15), 100 → (40, 61).
    low, high = order_statistics(0.5, np.array([6, 10, 20, 100]))
    assert low.tolist() == [1, 2, 6, 40]
    assert high.tolist() == [6, 9, 15, 61]


@pytest.mark.parametrize(("p", "true"), [(0.5, 0.0), (0.9, 1.2816)])
def test_intervals_of_correlated_values_cover_where_independence_would_not(p: float, true: float) -> None:
    """docs/method.md §2: order statistics that assume independence cover about 43 % here, at ρ = 0.9."""
    rng = np.random.default_rng(2)
    naive = honest = given = 0
    for _ in range(150):
        x = autoregressive(rng, 4000, 0.9)
        population = ranked_values(np.exp(x) * 1e9)
        quantile = np.quantile(x, p, method="inverted_cdf")
        (tau,) = autocorrelation_times(x[None, :] > quantile)
        plain, good = percentile(population, p), percentile(population, p, float(tau))
        assert plain.high is not None
        naive += plain.low <= np.exp(true) <= plain.high
        if good.low is not None and good.high is not None:
            given += 1
            honest += good.low <= np.exp(true) <= good.high
    assert given > 100
    assert honest / given > 0.88
    assert naive / 150 < 0.6


@pytest.mark.parametrize("busy", [0.5, 0.9])
def test_p99s_of_a_busy_server_are_shown_whatever_the_run_was_like(busy: float) -> None:
    """When p99s at 90 % utilisation were shown only for runs that happened to be calm, they read 28 % low,
    and their intervals contained the truth in 31 %."""
    found = [_queue(busy, seed) for seed in range(60)]
    true = -np.log(0.01) / (1000 / busy - 1000)
    assert all(one.value is not None for one in found)
    median = np.median([one.value for one in found])
    assert median == pytest.approx(true, rel=0.03 if busy < 0.6 else 0.2)
    held = [(one.low or 0.0) <= true <= (one.high or np.inf) for one in found]
    assert np.mean(held) > 0.85
    assert (sum(one.why == "too few" for one in found) > 30) is (busy > 0.6)


def _queue(busy: float, seed: int) -> Estimate:
    """Return the p99 of 20 s of one exponential server, 1,000 requests a second, in its steady state."""
    dice = np.random.default_rng([seed, int(100 * busy)])
    due = np.cumsum(dice.exponential(1e-3, 36_000))
    work = np.cumsum(spent := dice.exponential(busy * 1e-3, 36_000))
    took = (work + np.maximum.accumulate(due - (work - spent)) - due)[(due >= 10) & (due < 30)]
    population = ranked_values(took * 1e9)
    (tau,) = autocorrelation_times(took[None, :] > np.quantile(took, 0.99))
    return percentile(population, 0.99, float(tau))


def test_batch_means_of_intervals_weigh_their_counts() -> None:
    counts = np.tile([1, 3], 300)
    found = batch_means(counts * 2.0, counts)
    assert found.ratio[0] == pytest.approx(2.0)
    assert found.variance[0] == pytest.approx(0.0)

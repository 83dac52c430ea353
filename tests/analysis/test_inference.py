"""Tests between runs against brute force, tables and simulation."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
from scipy import stats

from svload.analysis.inference import (
    batch_means,
    holm,
    least_detectable,
    replicates_for,
    sd_of_interval,
    sign_flip_p,
    t_interval,
    welch_interval,
)


def test_many_blocks_are_drawn_and_never_give_zero() -> None:
    rng = np.random.default_rng(4)
    noise = rng.standard_normal(20)
    exact = stats.permutation_test(
        (noise,),
        lambda x, axis=-1: np.sum(x, axis=axis),
        permutation_type="samples",
        n_resamples=50_000,
        random_state=1,
    ).pvalue
    assert sign_flip_p(noise) == pytest.approx(exact, abs=0.02)
    assert 0 < sign_flip_p(np.full(30, 0.5)) < 1e-3
    assert sign_flip_p(noise) == sign_flip_p(noise)


def test_sixteen_blocks_are_enumerated_and_seventeen_drawn() -> None:
    assert sign_flip_p(np.ones(16)) == 2 / 2**16
    assert sign_flip_p(np.ones(17)) > 2 / 2**17, "a draw counts the observed one too"


def test_batch_means_take_twenty_batches() -> None:
    x = np.random.default_rng(5).normal(10, 1, 400).cumsum()
    by_hand = x.reshape(20, 20).mean(axis=1)
    assert float(batch_means(x).variance[0]) == pytest.approx(by_hand.var(ddof=1) / 20)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_t_interval_is_students() -> None:
    x = [1.0, 2.0, 4.0, 5.0]
    expected = stats.t.interval(0.95, 3, loc=np.mean(x), scale=stats.sem(x))
    assert t_interval(x) == pytest.approx(expected)
    assert t_interval([1.0]) is None


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


def test_the_noise_behind_an_interval_can_be_read_back() -> None:
    logs = [0.01, 0.05, 0.03, 0.08, 0.02, 0.06]
    interval = t_interval(logs)
    assert sd_of_interval(exp(interval[0]), exp(interval[1]), len(logs)) == pytest.approx(
        np.std(logs, ddof=1)
    )


def test_t_intervals_cover() -> None:
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(1000):
        interval = t_interval(rng.normal(0.3, 1.0, 6))
        hits += interval[0] <= 0.3 <= interval[1]
    assert 0.93 < hits / 1000 < 0.97

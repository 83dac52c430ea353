"""Tests between runs against brute force, tables and simulation."""

from __future__ import annotations

from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy import stats

from svload.analysis.inference import (
    hodges_lehmann,
    least_detectable,
    permutation_over_cases_p,
    permutation_p,
    replicates_for,
    sd_of_interval,
    sign_flip_p,
    sign_test_p,
    t_interval,
    welch_interval,
    welch_over_cases,
)
from svload.analysis.multiplicity import (
    benjamini_hochberg,
    holm,
    smallest_permutation_p,
    smallest_sign_flip_p,
)


def brute_force(values: list[float]) -> float:
    observed = abs(sum(values)) - 1e-12
    signs = list(product((1, -1), repeat=len(values)))
    return sum(
        abs(sum(s * v for s, v in zip(sign, values, strict=True))) >= observed for sign in signs
    ) / len(signs)


@pytest.mark.parametrize(
    "values", [[0.1, 0.2, 0.3, 0.4], [0.5, -0.1, 0.2, 0.7, -0.3], [1.0], [0.0, 0.0, 0.0], [0.3] * 8]
)
def test_sign_flips_are_exact(values: list[float]) -> None:
    assert sign_flip_p(values) == brute_force(values)


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


def test_four_blocks_can_never_reach_five_percent() -> None:
    assert smallest_sign_flip_p(4) == 0.125
    assert sign_flip_p([1.0, 1.0, 1.0, 1.0]) == 0.125


@pytest.mark.parametrize(("claims", "blocks"), [(1, 6), (2, 7), (10, 9), (12, 9), (22, 10)])
def test_blocks_with_which_sign_flips_alone_would_decide_are_those_of_the_method(
    claims: int, blocks: int
) -> None:
    assert claims * smallest_sign_flip_p(blocks) <= 0.05 < claims * smallest_sign_flip_p(blocks - 1)


def test_signs_that_lean() -> None:
    assert sign_test_p(0, 5) == 2 / 32
    assert sign_test_p(0, 4) == 0.125
    assert sign_test_p(3, 3) == 1.0
    assert sign_test_p(2, 9) == pytest.approx(stats.binomtest(2, 11).pvalue)
    assert sign_test_p(0, 0) == 1.0


def test_welch_over_one_case_is_welch_and_over_several_their_mean() -> None:
    rng = np.random.default_rng(11)
    a, b = rng.normal(1, 1, 7), rng.normal(0, 3, 5)
    found = welch_over_cases([a], [b])
    assert found is not None
    expected = stats.ttest_ind(a, b, equal_var=False)
    mean, se, freedom = found
    assert (mean, mean / se, freedom) == pytest.approx((a.mean() - b.mean(), expected.statistic, expected.df))
    both = welch_over_cases([a, a + 1], [b, b])
    assert both is not None and both[0] == pytest.approx(mean + 0.5)
    assert both[1] == pytest.approx(se / sqrt(2))
    assert welch_over_cases([a], [b[:1]]) is None


def test_permutations_over_cases_relabel_within_each() -> None:
    rng = np.random.default_rng(12)
    t, b = [rng.normal(n, 1, 6) for n in (5, 50)], [rng.normal(n, 1, 6) for n in (0, 45)]
    assert permutation_over_cases_p(t, b) < 0.001
    assert permutation_over_cases_p([t[0]], [b[0]]) == permutation_p(t[0], b[0])
    assert permutation_over_cases_p([b[0], t[1]], [b[0], t[1]]) == 1.0


@pytest.mark.parametrize(("claims", "side"), [(1, 4), (2, 5), (10, 6), (22, 6)])
def test_unblocked_runs_needed_are_those_of_the_method(claims: int, side: int) -> None:
    assert (
        claims * smallest_permutation_p(side, side)
        <= 0.05
        < claims * smallest_permutation_p(side - 1, side - 1)
    )


def test_permutations_are_exact() -> None:
    treatment, baseline = [5.0, 6.0, 7.0], [1.0, 2.0, 3.0]
    exact = stats.permutation_test(
        (treatment, baseline),
        lambda x, y, axis: np.mean(x, axis) - np.mean(y, axis),
        vectorized=True,
        n_resamples=np.inf,
    )
    assert permutation_p(treatment, baseline) == pytest.approx(exact.pvalue) == pytest.approx(0.1)


def test_permutations_of_many_runs_are_drawn() -> None:
    rng = np.random.default_rng(5)
    assert permutation_p(rng.normal(1, 1, 20), rng.normal(0, 1, 20)) < 0.05
    assert permutation_p(rng.normal(0, 1, 20), rng.normal(0, 1, 20)) > 0.05


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert holm([]) == []


def test_hodges_lehmann_is_not_moved_by_one_wild_block() -> None:
    assert hodges_lehmann([1, 2, 3, 4, 1000]) == 3.0
    assert hodges_lehmann([1.0, 2.0]) == 1.5


def test_t_interval_is_students() -> None:
    x = [1.0, 2.0, 4.0, 5.0]
    expected = stats.t.interval(0.95, 3, loc=np.mean(x), scale=stats.sem(x))
    assert t_interval(x) == pytest.approx(expected)
    assert t_interval([1.0]) is None


def test_replicates_that_an_interval_needs_follow_from_t() -> None:
    assert replicates_for(1.0, 4) == 5, "one more at least"
    half = stats.t.ppf(0.975, 2) / sqrt(3)
    found = replicates_for(2.0, 3)
    assert found is not None
    assert stats.t.ppf(0.975, found - 1) / sqrt(found) <= half / 2
    assert stats.t.ppf(0.975, found - 2) / sqrt(found - 1) > half / 2
    assert replicates_for(1e6, 3) is None


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
    assert effect is not None
    rng = np.random.default_rng(8)
    draws = rng.normal(log(1 + effect), sd, (4000, blocks))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / sqrt(blocks))
    power = np.mean(np.abs(t) > stats.t.ppf(0.975, blocks - 1))
    assert 0.77 < power < 0.87
    assert least_detectable(sd, 1) is None


def test_the_noise_behind_an_interval_can_be_read_back() -> None:
    logs = [0.01, 0.05, 0.03, 0.08, 0.02, 0.06]
    interval = t_interval(logs)
    assert interval is not None
    assert sd_of_interval(exp(interval[0]), exp(interval[1]), len(logs)) == pytest.approx(
        np.std(logs, ddof=1)
    )


def test_t_intervals_cover() -> None:
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(1000):
        interval = t_interval(rng.normal(0.3, 1.0, 6))
        assert interval is not None
        hits += interval[0] <= 0.3 <= interval[1]
    assert 0.93 < hits / 1000 < 0.97

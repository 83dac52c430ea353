"""Properties of the statistics behind every verdict and claim."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.buckets import bucket_bounds

from svload.analysis.inference import sign_flip_p
from svload.analysis.quantiles import bucket_edges, ranked_counts, ranked_values
from svload.model.columns import bucket

TIMES = st.lists(st.integers(1, 60_000_000_000), min_size=1, max_size=300)
P = st.sampled_from([0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999])
EFFECTS = st.lists(st.integers(-1000, 1000), min_size=1, max_size=8)
fast = settings(max_examples=60, deadline=None)


def histogram(values: list[int]) -> np.ndarray:
    return np.bincount([bucket(value) for value in values], minlength=1 << 13)


@fast
@given(TIMES, TIMES, P, st.integers(0, 200))
def test_merged_percentiles_are_within_0_8_percent(a: list[int], b: list[int], p: float, failed: int) -> None:
    total = len(a) + len(b) + failed
    exact = ranked_values(np.array(a + b), total).quantile(p)
    merged = ranked_counts(histogram(a) + histogram(b), total).quantile(p)
    assert (exact is None) == (merged is None)
    if exact is not None and merged is not None:
        assert abs(merged - exact) <= 0.008 * exact


@fast
@given(st.integers(0, 2**44))
def test_every_value_lies_in_its_bucket(value: int) -> None:
    low, high = (float(edge[0]) for edge in bucket_edges(np.array([bucket(value)])))
    assert low <= value < high
    assert (int(low), int(high)) == bucket_bounds(bucket(value))


@fast
@given(EFFECTS)
def test_sign_flip_p_is_brute_force(values: list[int]) -> None:
    flips = [
        abs(sum(sign * value for sign, value in zip(signs, values, strict=True)))
        for signs in product((1, -1), repeat=len(values))
    ]
    assert sign_flip_p(values) == sum(flip >= abs(sum(values)) for flip in flips) / len(flips)

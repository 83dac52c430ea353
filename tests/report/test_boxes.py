"""Boxes with Tukey's fences, beside values whose quartiles are known."""

from __future__ import annotations

import numpy as np
import pytest

from svload.report.charts.rows import box_of


def test_what_lies_beyond_the_fences_is_outside() -> None:
    box = box_of(np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 100]))
    assert (box.p25, box.p50, box.p75) == pytest.approx((3.25, 5.5, 7.75))
    assert (box.low, box.high, box.outside) == (1.0, 9.0, (100.0,))


def test_alike_values_have_none_outside() -> None:
    assert box_of(np.full(9, 2.0)) == (2.0, 2.0, 2.0, 2.0, 2.0, ())

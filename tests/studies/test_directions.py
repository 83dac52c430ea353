"""Beside a paper's ratio: what ours is said to do, and that a flat one has no direction to agree with."""

from __future__ import annotations

import pytest

from svload import api
from svload.model.results import Estimate


def known(low: float, high: float) -> Estimate:
    return Estimate(value=(low + high) / 2, low=low, high=high, n=6)


TEN = known(9.9, 10.1)


@pytest.mark.parametrize(
    ("second", "theirs", "told"),
    [
        (known(14, 16), 1.4, "agrees"),
        (known(14, 16), 0.7, "opposite"),
        (known(6, 7), 0.7, "agrees"),
        (known(6, 7), 1.4, "opposite"),
        (known(9.8, 12), 1.4, "not told apart"),
        # the paper's stays: 25.1 and 24.8, 25.3, 25.7 downloads/s; 223.80 and 223.65 requests/s
        (known(14, 16), 0.988, "ours alone moves"),
        (known(6, 7), 0.988, "ours alone moves"),
        (known(14, 16), 1.02, "ours alone moves"),
        (known(9.9, 10.2), 1.008, "agrees: both stay"),
        (known(9.8, 10.0), 223.65 / 223.80, "agrees: both stay"),
        (known(10.15, 10.2), 1.02, "agrees: both stay"),  # told apart, and yet by less than is flat
        (known(8, 13), 1.008, "not told apart"),  # too wide to say that it stays
        # just beyond: a direction
        (known(14, 16), 1.051, "agrees"),
        (known(14, 16), 0.949, "opposite"),
    ],
)
def test_where_ours_goes(second: Estimate, theirs: float, told: str) -> None:
    assert api.direction(TEN, second, theirs) == told


@pytest.mark.parametrize("theirs", [1.4, 1.0])
def test_what_we_lack_has_no_direction(theirs: float) -> None:
    assert api.direction(None, TEN, theirs) == "not measured"
    assert api.direction(TEN, Estimate(value=None, reason="refused"), theirs) == "not measured"
    assert api.direction(TEN, Estimate(value=15.0, n=1), theirs) == "no interval"

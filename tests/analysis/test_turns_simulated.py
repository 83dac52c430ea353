"""A few gates of the simulation of benches/turns.py."""

from __future__ import annotations

import pytest
from benches.turns import ENDS, Cell, drawn_blocks, ended, shares, simulated
from scipy import stats

GATES = 20
MOST_ALARMS = stats.binom.ppf(0.999, GATES, 0.06) / GATES


@pytest.mark.slow
def test_turns_decide_what_trials_leave_open_on_a_core_with_two_speeds() -> None:
    cell = Cell("log-normal", "closed", 20)
    turns, trials = (shares(simulated(cell, GATES, way)[0], 0.02, 1, way) for way in (True, False))
    assert turns.false_alarms <= MOST_ALARMS
    assert turns.fails == 1
    assert turns.equal_passes > 0.8
    assert trials.equal_passes < 0.5
    assert turns.margin_passes <= MOST_ALARMS


def test_a_gate_that_ends_where_it_is_decided_is_seldom_wrong_and_ends_soon() -> None:
    """The planted case is the interval's own level, looked at after each block."""
    faster, calm, at_margin, slower = (
        ended(drawn_blocks(ratio, 0.04, 0.06, 1000), *ENDS) for ratio in (0.5, 1, 1.05, 1.15)
    )
    assert calm.fails <= 0.005
    assert at_margin.fails <= 0.065
    assert at_margin.passes <= 0.05
    assert slower.fails > 0.99
    assert slower.blocks < 12
    assert faster.passes > 0.99
    assert faster.blocks < 7
    careless = ended(drawn_blocks(1.05, 0.04, 0.06, 1000), 0.05, 0.05)
    assert careless.fails > 0.065
    assert careless.passes > 0.05

"""A few gates of the simulation of benches/turns.py, and its judgement of measured blocks."""

from __future__ import annotations

import numpy as np
import pytest
from benches.turns import Blocks, Cell, drawn_gates, estimators, judged, shares, simulated
from scipy import stats

GATES = 20
MOST_ALARMS = stats.binom.ppf(0.999, GATES, 0.06) / GATES


@pytest.mark.slow
def test_turns_decide_what_trials_leave_open_on_a_core_with_two_speeds() -> None:
    cell = Cell("log-normal", "closed", 20)
    turns, trials = (shares(simulated(cell, GATES, way)[0], 0.02, 1) for way in (True, False))
    assert turns.false_alarms <= MOST_ALARMS
    assert turns.fails == 1
    assert turns.equal_passes > 0.8
    assert trials.equal_passes < 0.5
    assert turns.margin_passes <= MOST_ALARMS


def test_blocks_taken_for_what_starts_are_called_different() -> None:
    """The planted case: rounds of one start, counted as if each were a start of its own."""
    rng = np.random.default_rng(1)
    start = 0.04 * rng.standard_normal((400, 1))
    rounds = start + 0.02 * rng.standard_normal((400, 12))
    named = judged(Blocks(rounds, np.zeros_like(rounds), rounds)).names_a_difference()
    assert named.mean() > 0.5
    starts = 0.04 * rng.standard_normal((400, 12))
    assert judged(Blocks(starts, np.full_like(starts, 0.02), starts)).names_a_difference().mean() < 0.09


def test_measured_blocks_make_both_tables() -> None:
    rng = np.random.default_rng(2)
    blocks = []
    for _ in range(16):
        weather = np.exp(0.4 * rng.standard_normal(10))
        a, b = ([[2000 * w * f * n, 4000 * w * f * n, 0.1] for w, n in zip(weather, np.exp(0.01 * rng.standard_normal(10)), strict=True)] for f in (1, 1.15))  # fmt: skip
        blocks.append({"design": "0.25", "kind": "burn", "ratio": 1.15, "level": 0.35, "A": a, "B": b})
    line = estimators(blocks).splitlines()[-1]
    assert line.startswith("| burn, 1.15 | 35 % | 0.25 | 16 | 1.1")
    gates = drawn_gates(blocks, draws=20).splitlines()[-1]
    assert "| turns | 100 / 0 / 100" in gates

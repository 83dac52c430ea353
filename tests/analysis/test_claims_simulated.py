"""A tenth of the simulation of benches/claims.py with its seed: false alarms and coverage of every cell that
is held to the limits, and gates at their margin.

Two hundred runs are few: a deviation counts as a failure only if a rule just within its limits would show it
less than once in a thousand times.
"""

from __future__ import annotations

import numpy as np
import pytest
from benches.claims import BUSY, COVERAGE_MIN, DEMO, FALSE_ALARMS_MAX, QUIET, RUNS, Cell, cells, gate, judge
from scipy import stats

TENTH = RUNS // 10
HELD = [cell for cell in cells() if cell.held]
MOST_ALARMS = stats.binom.ppf(0.999, TENTH, FALSE_ALARMS_MAX) / TENTH
LEAST_COVERED = stats.binom.ppf(0.001, TENTH, COVERAGE_MIN) / TENTH
MOST_PASSED = stats.binom.ppf(0.999, TENTH, 0.03) / TENTH


@pytest.mark.parametrize("cell", HELD, ids=lambda cell: f"{cell.world.name} {cell.cases}x{cell.blocks}")
def test_a_cell_keeps_its_limits(cell: Cell) -> None:
    row = judge(cell, TENTH)
    assert row.false_alarms <= MOST_ALARMS
    assert row.coverage >= LEAST_COVERED
    assert row.falsely_none <= MOST_PASSED


@pytest.mark.parametrize("percentile", [0.5, 0.95])
@pytest.mark.parametrize("world", [QUIET, DEMO, BUSY], ids=lambda world: world.name)
def test_a_build_at_the_margin_hardly_ever_passes(world: object, percentile: float) -> None:
    _, passes, fails = gate(world, 1.05, TENTH, percentile)
    assert float(np.mean(passes)) <= MOST_PASSED
    assert float(np.mean(fails)) <= MOST_ALARMS


def test_a_gate_adds_blocks_until_it_can_answer() -> None:
    used, passes, _ = gate(QUIET, 1.0, TENTH, 0.5)
    assert 8 < used.mean() < 11
    assert float(np.mean(passes)) > 0.9
    _, _, fails = gate(DEMO, 1.15, TENTH, 0.5)
    assert float(np.mean(fails)) > 0.9

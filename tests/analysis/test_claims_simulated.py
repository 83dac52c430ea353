"""A tenth of the simulation of benches/claims.py with its seed: false alarms and coverage of every
cell that is held to the limits.

Two hundred runs say as much: what a rule just within its limits would show more often than once in
a thousand is no failure here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from benches.claims import COVERAGE_MIN, FALSE_ALARMS_MAX, RUNS, Cell, cells, judge, simulate
from scipy import stats

TENTH = RUNS // 10
HELD = [cell for cell in cells() if cell.held]
MOST_ALARMS = stats.binom.ppf(0.999, TENTH, FALSE_ALARMS_MAX) / TENTH
LEAST_COVERED = stats.binom.ppf(0.001, TENTH, COVERAGE_MIN) / TENTH


@pytest.mark.parametrize(
    "cell", HELD, ids=lambda cell: f"{cell.name} {cell.cases}x{cell.blocks} {cell.bring_ups}"
)
def test_a_cell_keeps_its_limits(cell: Cell) -> None:
    row = judge(cell, TENTH)
    assert row.new[0] <= MOST_ALARMS
    assert row.new[1] >= LEAST_COVERED


def test_a_rule_that_ignores_bring_ups_is_caught() -> None:
    """The planted case: one bring-up, taken for twelve independent blocks."""
    row = judge(next(cell for cell in cells() if cell.bring_ups == 1), TENTH)
    assert row.new[0] > MOST_ALARMS
    assert row.new[1] < LEAST_COVERED


def test_lost_trials_cost_pairs_and_not_blocks() -> None:
    cell = next(
        cell for cell in cells() if cell.name == "20 % lost at random" and (cell.cases, cell.blocks) == (8, 8)
    )
    row = judge(cell, TENTH)
    assert row.new[2] > 0.9
    assert row.old[2] < 0.05


def test_the_same_seed_is_the_same_data() -> None:
    import numpy as np

    cell = HELD[0]
    one, two = (simulate(cell, 0.0, 5, np.random.default_rng(1)) for _ in range(2))
    assert (one.logs == two.logs).all()


def test_the_table_that_is_committed_is_of_these_cells() -> None:
    text = (Path(__file__).resolve().parents[2] / "benches" / "claims.md").read_text(encoding="utf-8")
    assert "MISSED" not in text
    assert f"{RUNS:,} runs a cell" in text
    rows = [
        line for line in text.splitlines() if line.startswith("| ") and "×" in line and "cases ×" not in line
    ]
    assert len(rows) == len(list(cells()))

"""A few gates of the simulation of benches/turns.py, and its judgement of measured blocks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benches.turns import (
    ENDS,
    Block,
    Blocks,
    Cell,
    blocks_in,
    blocks_of,
    drawn_blocks,
    drawn_gates,
    ended,
    estimators,
    judged,
    shares,
    simulated,
)
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


def test_blocks_taken_for_what_starts_are_called_different() -> None:
    """The planted case: rounds of one start, counted as if each were a start of its own."""
    rng = np.random.default_rng(1)
    start = 0.04 * rng.standard_normal((400, 1))
    rounds = start + 0.02 * rng.standard_normal((400, 12))
    named = judged(Blocks(rounds, np.zeros_like(rounds), rounds)).names_a_difference()
    assert named.mean() > 0.5
    starts = 0.04 * rng.standard_normal((400, 12))
    assert judged(Blocks(starts, np.full_like(starts, 0.02), starts)).names_a_difference().mean() < 0.09


def _block(weather: np.ndarray, ratio: float, rng: np.random.Generator) -> Block:
    noise = 0.01 * rng.standard_normal((len(weather), 2))
    return Block("burn", ratio, 35, "turns", np.log(ratio) + noise, tuple(weather))


@pytest.mark.parametrize(("ratio", "gate"), [(1.15, " / 0 / 100,"), (1.0, " / 100 / 0,")])
def test_measured_blocks_make_both_tables(ratio: float, gate: str) -> None:
    rng = np.random.default_rng(2)
    blocks = [_block(np.full(10, 0.4), ratio, rng) for _ in range(16)]
    line = estimators(blocks).splitlines()[-1]
    assert line.startswith(f"| burn, {ratio} | 35 % | 40 % | turns | 16 | {ratio:.1f}")
    gates = drawn_gates(blocks, draws=20).splitlines()[-1]
    assert gates.count(gate) == 6


def test_the_blocks_of_a_run_are_those_of_both_percentiles() -> None:
    """A round without a percentile is left out, and a block that only one of the claims has."""

    def pair(block: int, *rounds: tuple[float | None, float]) -> SimpleNamespace:
        turns = [SimpleNamespace(baseline=a, treatment=b, strangers=0.2) for a, b in rounds]
        return SimpleNamespace(block=block, log_ratio=0.1, rounds=turns, strangers=0.3)

    middle = [pair(1, (1.0, 2.0), (None, 2.0)), pair(2, (1.0, 1.0))]
    high = [pair(1, (2.0, 2.0), (2.0, 2.0))]
    found = SimpleNamespace(claims=[SimpleNamespace(evidence=middle), SimpleNamespace(evidence=high)])
    [turns] = blocks_of(found, "burn", 1.0, 20, "turns")  # type: ignore[arg-type]
    assert turns.rounds.tolist() == [[pytest.approx(0.6931, abs=1e-3), 0.0]]
    assert turns.strangers == (0.2, 0.2)
    [trials] = blocks_of(found, "burn", 1.0, 20, "trials")  # type: ignore[arg-type]
    assert trials.rounds.tolist() == [[0.1, 0.1]]


def test_a_file_of_blocks_gives_log_ratios_by_turn(tmp_path: Path) -> None:
    sides = {"A": [[2.0, 4.0, 0.1], [2.0, 2.0, 0.5]], "B": [[2.0, 2.0, 0.3], [4.0, 2.0, 0.2]]}
    path = tmp_path / "blocks.json"
    path.write_text(json.dumps([{"design": "0.25", "kind": "burn", "ratio": 1.15, "level": 0.35, **sides}]))
    [block] = blocks_in(path)
    assert (block.level, block.order, block.strangers) == (35, "0.25", (0.3, 0.5))
    assert block.rounds.tolist() == [[0.0, pytest.approx(-np.log(2))], [pytest.approx(np.log(2)), 0.0]]


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

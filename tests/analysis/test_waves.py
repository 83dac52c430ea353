"""A wave that a reader sees is no steady state; noise and wandering queues are no waves."""

from __future__ import annotations

import numpy as np
import pytest

from svload.analysis.waves import of_cycles, wave_in

SIZE = 600


def noise(rho: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal(SIZE) * np.sqrt(1 - rho**2)
    found = np.empty(SIZE)
    found[0] = rng.standard_normal()
    for at in range(1, SIZE):
        found[at] = rho * found[at - 1] + steps[at]
    return found


@pytest.mark.parametrize("cycles", [3, 5, 12, 25])
def test_a_wave_under_noise_is_seen(cycles: int) -> None:
    turn = 2 * np.pi * cycles * np.arange(SIZE) / SIZE
    found = wave_in(10 * (1 + 0.2 * np.sin(turn)) + 2 * noise(0.0, cycles))
    assert found.cycles == cycles
    assert found.amplitude == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.98])
def test_steady_series_are_no_waves(rho: float) -> None:
    seen = sum(wave_in(10 + 4 * noise(rho, seed)) is not None for seed in range(60))
    assert seen <= 3


def test_small_waves_few_cycles_and_short_series_are_none() -> None:
    turn = 2 * np.pi * np.arange(SIZE) / SIZE
    assert wave_in(10 * (1 + 0.05 * np.sin(10 * turn))) is None
    assert wave_in(10 * (1 + 0.5 * np.sin(2 * turn))) is None
    assert wave_in(np.ones(50)) is None
    assert wave_in(np.zeros(SIZE)) is None


def test_the_rhythm_of_a_users_cycle_is_no_wave() -> None:
    """25 cycles in the window, seen on means of two each."""
    turn = 2 * np.pi * 25 * np.arange(SIZE) / SIZE
    swing = 10 * (1 + 0.5 * np.sin(turn))
    assert wave_in(swing) is not None
    assert wave_in(swing, 25 // 2) is None, "too few points"
    faster = 10 * (1 + 0.5 * np.sin(2 * turn))
    assert wave_in(faster, 50 // 2) is None


WINDOW_S, INTERVAL_S = 10.0, 0.02


def completions(ends_s: np.ndarray) -> np.ndarray:
    """By interval."""
    edges = np.linspace(0, WINDOW_S, round(WINDOW_S / INTERVAL_S) + 1)
    return np.histogram(ends_s, edges)[0].astype(float)


def sleeping(cycle_s: float, apart: float) -> np.ndarray:
    """Four users of a server that sleeps a fixed time, each so much of a cycle behind the one before."""
    ends = np.arange(0, WINDOW_S + cycle_s, cycle_s)
    return completions(np.concatenate([ends + user * apart * cycle_s for user in range(4)]))


CYCLES_S = (0.0102, 0.026, 0.0515, 0.06, 0.073, 0.13)


@pytest.mark.parametrize("apart", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("cycle_s", CYCLES_S)
def test_users_of_a_server_that_sleeps_a_fixed_time_make_no_wave(cycle_s: float, apart: float) -> None:
    counts = sleeping(cycle_s, apart)
    assert wave_in(counts, *of_cycles(counts.sum() / 4)) is None


def test_counted_on_short_points_they_would() -> None:
    seen = [cycle_s for cycle_s in CYCLES_S if wave_in(sleeping(cycle_s, 0.0), min(60, int(5 / cycle_s)))]
    assert seen


@pytest.mark.parametrize(("cycle_s", "swings"), [(0.01, 14), (0.02, 10), (0.05, 5), (0.1, 4)])
def test_users_of_a_server_that_swings_do(cycle_s: float, swings: int) -> None:
    """Its time swings by half, so that completions do."""
    ends, now_s = [], 0.0
    while now_s < WINDOW_S:
        now_s += cycle_s / (1 + 0.5 * np.sin(2 * np.pi * swings * now_s / WINDOW_S))
        ends.append(now_s)
    counts = completions(np.concatenate([np.array(ends)] * 4))
    found = wave_in(counts, *of_cycles(counts.sum() / 4))
    assert found.cycles == swings


@pytest.mark.parametrize("cycles", [0.0, 3.0, 39.0, 40.0, 200.0, 600.0, 1e6])
def test_a_point_holds_as_many_cycles_as_make_its_edges_small(cycles: float) -> None:
    points, least = of_cycles(cycles)
    assert points <= 60
    assert least >= max(0.1, points / max(cycles, 1.0))
    assert (points >= 20) is (cycles >= 40), "too few points are none"
    assert (least == 0.1) is (cycles >= 200 or points == 0)


def test_a_line_that_climbs_is_drift_and_no_wave() -> None:
    assert wave_in(np.linspace(5, 15, SIZE) + 0.1 * noise(0.0, 1)) is None

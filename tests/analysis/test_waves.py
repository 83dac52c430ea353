"""A wave that a reader sees is no steady state; noise and wandering queues are no waves."""

from __future__ import annotations

import numpy as np
import pytest

from svload.analysis.waves import wave_in

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
    assert found is not None
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


def test_a_line_that_climbs_is_drift_and_no_wave() -> None:
    assert wave_in(np.linspace(5, 15, SIZE) + 0.1 * noise(0.0, 1)) is None

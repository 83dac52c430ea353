"""Detection of waves in a series: a wave that is visible on the page is no steady state (docs/method.md §3,
the server).

Fisher's test for the largest ordinate of a periodogram (1929), relative to the spectrum of an AR(1) with the
same autocorrelation; on as many means as the page draws. Queues that wander without a period do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
from numpy.typing import ArrayLike

from svload.analysis import limits
from svload.analysis.inference import bin_means
from svload.analysis.laws.levels import Floats

POINTS = 60
"""The most points that the page draws of a line over time."""
_LEAST_POINTS = 20
_MOST_RHO = 0.95


@dataclass(frozen=True)
class Wave:
    """A wave: its `amplitude` over the median, to either side; its number of `cycles` in the window."""

    amplitude: float
    cycles: int


def of_cycles(cycles: float) -> tuple[int, float]:
    """Return (points, least amplitude) for completions of users who go through this many cycles each.

    The stretch between two edges holds one cycle of a user more or less, and of all users where they are in
    step: a count swings by that much without the server's help, one over the cycles of a point. So points are
    long, where cycles allow it.
    """
    points = min(POINTS, max(int(cycles * limits.WAVES), _LEAST_POINTS), int(cycles / limits.WAVE_POINT))
    return points, max(limits.WAVES, points / max(cycles, 1.0))


def wave_in(values: ArrayLike, points: int = POINTS, least: float = limits.WAVES) -> Wave | None:
    """Find the wave of evenly spaced values, on this many means of them, with at least this amplitude; None
    where there is none, or there are too few values."""
    x = np.asarray(values, dtype=float)
    if not _LEAST_POINTS <= points <= len(x):
        return None
    y = bin_means(x, points)
    middle = float(np.median(y))
    if middle <= 0:
        return None
    at = np.arange(points)
    y = y - np.polyval(np.polyfit(at, y, 1), at)
    spectrum = np.fft.rfft(y)[1 : (points + 1) // 2]
    power = np.abs(spectrum) ** 2
    cycles = int(np.argmax(power)) + 1
    amplitude = 2 * sqrt(float(power[cycles - 1])) / points / middle
    if amplitude < least or cycles < limits.WAVE_CYCLES:
        return None
    whitened = power / _remembered(y, spectrum[cycles - 1], cycles)
    share = float(whitened[cycles - 1] / whitened.sum())
    return Wave(amplitude, cycles) if _fisher_p(share, len(power)) < limits.WAVES_P else None


def _remembered(y: Floats, line: complex, cycles: int) -> Floats:
    """Return the spectrum of an AR(1) with the lag-1 correlation of what remains without the line."""
    points = len(y)
    turn = 2 * np.pi * cycles * np.arange(points) / points
    rest = y - 2 / points * (line.real * np.cos(turn) - line.imag * np.sin(turn))
    spread = float((rest**2).sum())
    rho = float((rest[1:] * rest[:-1]).sum()) / spread if spread > 0 else 0.0
    rho = min(max(rho + (1 + 4 * max(rho, 0.0)) / points, 0.0), _MOST_RHO)
    frequency = 2 * np.pi * np.arange(1, (points + 1) // 2) / points
    return np.asarray(1 / (1 + rho**2 - 2 * rho * np.cos(frequency)))


def _fisher_p(share: float, ordinates: int) -> float:
    """Return the chance that the largest of this many ordinates of noise has at least this share of their
    sum."""
    terms = range(1, min(ordinates, int(1 / share)) + 1)
    total: float = sum(
        (-1) ** (j - 1) * comb(ordinates, j) * max(1 - j * share, 0.0) ** (ordinates - 1) for j in terms
    )
    return min(max(total, 0.0), 1.0)

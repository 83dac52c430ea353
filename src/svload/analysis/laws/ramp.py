"""The breakpoint of a ramp: the load at which response or errors leave the line that they followed (segmented
regression: Hinkley 1969).

y = a + b·load + c·max(load − B, 0) + d·max(load − B, 0)², B by search: beyond its limit a closed loop's
response rises in a line, an open one's in a parabola, since its backlog is the sum of the excess arrivals. It
is reported only if the second piece is surely the better fit (F test) and matters: response at the ramp's end
is a quarter above the line, errors are one in a hundred. The interval resamples the residuals in blocks of
neighbours, since seconds of a ramp depend on each other (Künsch 1989).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import fdtrc

from svload.analysis import limits
from svload.analysis.inference import bin_means, resampled_blocks
from svload.analysis.laws.levels import Floats

What = Literal["response", "errors"]
_MOST_POINTS = 240
_LEAST_POINTS = 20
_CANDIDATES = 96
_RESAMPLES = 400
_PARAMETERS = 5
"""Including the break itself."""
_EDGE = 0.04


@dataclass(frozen=True)
class Breakpoint:
    """Where one series leaves its line: the load with its 95 % interval, or None and why."""

    what: What
    at: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def breakpoint_of(load: Floats, values: Floats, what: What) -> Breakpoint:
    """Find the breakpoint of a series over a rising load (users, or arrivals a second), one value per moment;
    `errors` are shares of one."""
    known = np.isfinite(load) & np.isfinite(values)
    x, y = (
        bin_means(one, min(len(one), _MOST_POINTS)) if len(one) else one
        for one in (np.asarray(load, dtype=float)[known], np.asarray(values, dtype=float)[known])
    )
    if len(x) < _LEAST_POINTS or x.max() <= x.min():
        return Breakpoint(what, None, reason=f"fewer than {_LEAST_POINTS} moments of a rising load")
    weight = 1 / np.maximum(_smoothed(y), 1e-12) if what == "response" else np.ones(len(y))
    low, high = np.quantile(x, [_EDGE, 1 - _EDGE])
    at = np.linspace(low, high, _CANDIDATES)
    hinges = [_Hinge(x, one, weight) for one in at]
    line = _Hinge(x, None, weight)
    left = np.array([hinge.left(y) for hinge in hinges])
    best = int(np.argmin(left))
    hinge = hinges[best]
    if not _better(line.left(y), float(left[best]), len(x)) or not _matters(hinge, x, y, at[best], what):
        return Breakpoint(
            what, None, reason=f"{'response' if what == 'response' else 'errors'} did not leave the line"
        )
    fit = hinge.fit(y)
    redrawn = fit[:, None] + resampled_blocks((y - fit) * weight, _RESAMPLES).T / weight[:, None]
    lefts = np.stack([one.left(redrawn) for one in hinges])
    found = at[np.argmin(lefts, axis=0)]
    ends = np.quantile(found, [limits.TAIL, 1 - limits.TAIL])
    step = float(at[1] - at[0]) / 2
    return Breakpoint(what, float(at[best]), float(ends[0]) - step, float(ends[1]) + step)


class _Hinge:
    """Least squares on a line, or on a line with a hinge at `at` and a parabola beyond it."""

    def __init__(self, x: Floats, at: float | None, weight: Floats) -> None:
        columns = [np.ones(len(x)), x - x.mean()]
        beyond = np.maximum(x - at, 0.0) if at is not None else np.zeros(0)
        columns += [beyond, beyond**2] if at is not None else []
        self._weight = weight
        self._design = np.stack(columns, axis=1)
        self._q, self._r = np.linalg.qr(self._design * weight[:, None])

    def left(self, y: Floats) -> Floats:
        """Return the weighted sum of squared residuals, of one series or of each column."""
        scaled = (y.T * self._weight).T
        return np.asarray((scaled**2).sum(axis=0) - ((self._q.T @ scaled) ** 2).sum(axis=0))

    def coefficients(self, y: Floats) -> Floats:
        """Return level, slope, and what the hinge adds to the slope and as a parabola."""
        return np.asarray(np.linalg.lstsq(self._r, self._q.T @ (y * self._weight), rcond=None)[0])

    def fit(self, y: Floats) -> Floats:
        return np.asarray(self._design @ self.coefficients(y))


def _better(line: Floats, hinge: float, points: int) -> bool:
    freedom = points - _PARAMETERS
    f = (float(line) - hinge) / (_PARAMETERS - 2) / max(hinge / freedom, 1e-300)
    return float(fdtrc(_PARAMETERS - 2, freedom, f)) < limits.BREAK_P


def _matters(hinge: _Hinge, x: Floats, y: Floats, at: float, what: What) -> bool:
    """Return whether the second piece ends far above the first one's line."""
    level, slope, turn, parabola = hinge.coefficients(y)
    beyond = x.max() - at
    added = turn * beyond + parabola * beyond**2
    if what == "errors":
        return bool(added >= limits.BREAK_ERRORS)
    return bool(added >= limits.BREAK_RESPONSE * max(level + slope * (x.max() - x.mean()), 1e-12))


def _smoothed(y: Floats) -> Floats:
    """Return running medians of nine: the level that deviations are relative to."""
    padded = np.pad(y, 4, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, 9), axis=1))

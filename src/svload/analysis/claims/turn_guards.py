"""What a ratio of sides that take turns cannot detect, and the control that would show it (benches/turns.md).

Turns represent servers that are loaded part of the time: each turn begins with an idle server. Where that may
hide a difference, neither "no difference" nor a pass is reported, unless the effect is too far from its
margin for what may be hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, isfinite, log1p, nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svload.analysis import limits
from svload.analysis.claims.statistic import Effect, apart, effect_of, half_width, p_of
from svload.analysis.claims.turns import Requests, Turns, log_ratio
from svload.analysis.quantiles import Floats
from svload.model.units import show_percent

CPU = "CPU"
_OTHERWISE = "; measure with order: trials"


@dataclass(frozen=True)
class Guard:
    """Something that turns can't show: why, as a clause, and by how much the log ratio of a load without
    turns may differ from theirs, in either direction. Infinite: nothing is known about its size."""

    why: str
    off: float = inf

    def holds_back(self, interval: tuple[float, float] | None, low: float | None, high: float | None) -> bool:
        """Return whether the effect may lie beyond these margins though its interval does not."""
        below, above = interval or (nan, nan)
        within = (low is None or below - self.off >= low) and (high is None or above + self.off <= high)
        return not within


def rises(values: ArrayLike, unit: ArrayLike) -> Guard | None:
    """Return the guard of responses that still grow as a turn goes on; None where they do not. `values`: by
    side and block, from `growth_in_turn`. How far the ratio may be off follows from the side that grows
    most."""
    grown = effect_of(values, unit)
    if not apart(grown, None, limits.TURN_RISES):
        return None
    each = effect_of(np.asarray(values)[:, None], unit)
    most = float(np.fmax.reduce(each.mean + half_width(each)))
    told = f"the response is {exp(float(grown.mean)):.3g} × that of the middle third{_OTHERWISE}"
    return Guard(f"in the last third of a turn {told}", limits.TURN_FAR * most)


def growth_in_turn(requests: Requests, turns: Turns, counts: NDArray[np.bool_], p: float) -> float:
    """Return the log ratio of the percentile in the last third of a side's turns to that in the middle third;
    NaN where either has none. `counts`: the requests that count (`turns.measured`)."""
    at = turns.of(requests.due_ns)
    third = 3 * (requests.due_ns - turns.begin_ns[at]) // (turns.end_ns - turns.begin_ns)[at]
    middle, last = (requests.ranked(counts & (third == place)) for place in (1, 2))
    grown = log_ratio(middle, last, p)
    return grown if isfinite(grown) else nan


def saturates(waited: Sequence[ArrayLike]) -> Guard | None:
    """Return the guard of a side near its limit: requests waited for a slot in too many of its turns.
    `waited`: by side, one value per turn."""
    share = max(float(np.asarray(side, dtype=bool).mean()) for side in waited)
    if share <= limits.TURN_WAITS:
        return None
    return Guard(f"in {100 * share:.3g} % of the turns requests waited for a slot{_OTHERWISE}")


def defers(used: Sequence[tuple[float, float]], what: str) -> Guard | None:
    """Return the guard of a side that goes on working after its turns. `used`: by side, what it used within
    its turns and between them, for each second of its turns: cores (`what` is CPU), or bytes of `what`.

    A server that is always loaded needs as much CPU again for what it put off, unless its cores are then
    full. What put-off writes would cost is not known.
    """
    within, outside = max(used, key=_share)
    share = _share((within, outside))
    if share <= limits.TURN_DEFERRED:
        return None
    told = f"{100 * share:.3g} % of that within" if within > 0 else "all that it has"
    full = limits.CPU_FULL * ceil(limits.CPU_FULL * within)
    off = limits.TURN_FAR * log1p(share) if what == CPU and within + outside < full else inf
    return Guard(f"what it uses of {what} between its turns is {told}{_OTHERWISE}", off)


def _share(used: tuple[float, float]) -> float:
    within, outside = used
    return outside / within if within > 0 else inf if outside > 0 else 0.0


def is_cold(drifts: ArrayLike, unit: ArrayLike, margin: float) -> Guard | None:
    """Return the guard of a ratio that still moves from a block's first rounds to its last. `drifts`: by case
    and block, from `drift_of`, in logarithms."""
    moved = effect_of(drifts, unit)
    mean = float(moved.mean)
    if not (abs(mean) > margin / 2 and float(p_of(moved)) <= limits.ALPHA):
        return None
    moves = f"the ratio moves by a factor of {exp(mean):.3g}: not warm"
    off = limits.TURN_FAR * (abs(mean) + float(half_width(moved)))
    return Guard(f"from the first third of a block's rounds to the last {moves}", off)


def drift_of(logs: Floats) -> float:
    """Return how far a block's effect moves from the first third of its rounds to the last: the median slope
    between any two rounds (Sen 1968), over that distance. NaN with fewer than three.

    The medians of the thirds themselves scatter a fifth more: as many honest passes would be held back again.
    """
    known = logs[np.isfinite(logs)]
    third = len(known) // 3
    if not third:
        return nan
    first, last = np.triu_indices(len(known), 1)
    slopes = (known[last] - known[first]) / (last - first)
    return float(np.median(slopes)) * (len(known) - third)


def waits(requests: Requests, turns: Turns) -> NDArray[np.bool_]:
    """Return for each turn whether one of its requests waited for a slot."""
    late = requests.waited_ns > 0
    return np.bincount(turns.of(requests.due_ns)[late], minlength=len(turns.begin_ns)) > 0


@dataclass(frozen=True)
class Control:
    """The baseline compared with itself, in log ratios, and what it means for an answer."""

    effect: Effect

    @property
    def interval(self) -> tuple[float, float]:
        mean, half = float(self.effect.mean), float(half_width(self.effect))
        return mean - half, mean + half

    def prefers_a_side(self, margin: float) -> bool:
        """Return whether the setup itself makes a difference: then nothing is decided."""
        return not self._is_small(margin) and float(p_of(self.effect)) <= limits.ALPHA

    def fits(self, fits: Sequence[Effect], margin: float) -> tuple[Effect, ...]:
        """Return the answer's effects, all covered by its interval: each with the control's estimate and with
        it subtracted, unless that is small."""
        if self._is_small(margin):
            return tuple(fits)
        return (*fits, *(fit._replace(mean=fit.mean - self.effect.mean) for fit in fits))

    def _is_small(self, margin: float) -> bool:
        return abs(float(self.effect.mean)) <= limits.TURN_CONTROL * margin

    def sentence(self, baseline: str) -> str:
        """Return `main against itself: 0.4 % (−0.9 to +1.7)`."""
        low, high = (100 * (exp(end) - 1) for end in self.interval)
        told = f"{show_percent(exp(float(self.effect.mean)) - 1, 2)} ({_signed(low)} to {_signed(high)})"
        return f"{baseline} against itself: {told}"


def _signed(percent: float) -> str:
    return f"{percent:+.2g}".replace("-", "−")

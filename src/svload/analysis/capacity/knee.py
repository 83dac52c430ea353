"""The load above which more of it gains next to nothing: d ln X / d ln N below a limit, levels at least
×1.25 apart (docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from svload.analysis.capacity.budget import UNBOUNDED, Budget
from svload.analysis.capacity.level import ALPHA, LEAST, MOST, NARROWEST
from svload.analysis.capacity.search import Step

APART = 1.25


@dataclass(frozen=True)
class Knee:
    """What is asked: the first step up from `least` to `most` that gains less than `gain`
    (0.1: a tenth of the added load)."""

    least: int
    most: int
    gain: float = 0.1
    most_replicates: int = MOST
    budget: Budget = UNBOUNDED


@dataclass(frozen=True)
class Throughput:
    """One trial: its load and the requests a second that it answered; None where that was REFUSED or not measured."""

    load: int
    per_s: float | None


@dataclass(frozen=True)
class Gain:
    """Of one step up: by how much throughput grows for the load that is added, with its interval."""

    low_load: int
    high_load: int
    value: float
    low: float
    high: float
    outcome: Literal["worth it", "flat", "more", "open"]
    low_per_s: float = 0.0
    high_per_s: float = 0.0


@dataclass(frozen=True)
class Found:
    """`flat`: the first step that gains less than asked; None: none does up to `most`. `steps`: all
    that were measured, ascending."""

    flat: Gain | None
    steps: tuple[Gain, ...]
    why_open: str = ""


def grid(knee: Knee) -> tuple[int, ...]:
    """Whole loads from least to most, each at least ×1.25 above the one before."""
    loads = [knee.least]
    while (above := max(ceil(loads[-1] * APART), loads[-1] + 1)) <= knee.most:
        loads.append(above)
    return tuple(loads)


def next_step(knee: Knee, seen: Sequence[Throughput]) -> Step | Found:
    """The next loads: steps of the grid 1, 2, 4, 8 … up until one is flat, then halves of what lies between. Pure."""
    loads = grid(knee)
    last = len(loads) - 2
    if last < 0:
        return Found(None, (), f"there is no step of ×{APART} between {knee.least:,} and {knee.most:,}")
    known: dict[int, Gain] = {}
    while True:
        at = _asked(known, last)
        if at is None:
            break
        gain = _gain(knee, loads[at], loads[at + 1], seen)
        if gain is None or gain.outcome == "more":
            wanted = _wanted(loads[at], loads[at + 1], seen)
            if over := knee.budget.why_over(len(seen), len(wanted)):
                return _found(known, over)
            return Step(wanted, f"does {loads[at + 1]:,} gain over {loads[at]:,}?")
        known[at] = gain
    return _found(known, "")


def _asked(known: Mapping[int, Gain], last: int) -> int | None:
    """The step to look at: doubling until one is flat, then the middle between the last that is
    worth it and the first flat one.

    A step that stays open counts as not flat while the search grows: the next one decides.
    """
    flat = min((at for at, gain in known.items() if gain.outcome == "flat"), default=None)
    below = [at for at, gain in known.items() if gain.outcome != "flat" and (flat is None or at < flat)]
    worth = max(below, default=-1)
    if flat is None:
        if not known:
            return 0
        return None if worth >= last else min(2 * worth + 1, last)
    return None if flat - worth <= 1 else (flat + worth) // 2


def _gain(knee: Knee, low: int, high: int, seen: Sequence[Throughput]) -> Gain | None:
    at_low, at_high = (
        np.log([one.per_s for one in seen if one.load == load and one.per_s]) for load in (low, high)
    )
    if min(len(at_low), len(at_high)) < LEAST:
        return None
    looks = knee.most_replicates - LEAST + 1
    apart = log(high / low)
    value = float(at_high.mean() - at_low.mean()) / apart
    n = min(len(at_low), len(at_high))
    spread = sqrt(sum(max(float(x.std(ddof=1)), NARROWEST) ** 2 / len(x) for x in (at_low, at_high)))
    reach = float(stdtrit(n - 1, 1 - ALPHA / looks / 2)) * spread / apart
    outcome: Literal["worth it", "flat", "more", "open"] = "more"
    if value + reach < knee.gain:
        outcome = "flat"
    elif value - reach > knee.gain:
        outcome = "worth it"
    elif n >= knee.most_replicates:
        outcome = "open"
    means = (float(np.exp(one.mean())) for one in (at_low, at_high))
    return Gain(low, high, value, value - reach, value + reach, outcome, *means)


def _wanted(low: int, high: int, seen: Sequence[Throughput]) -> tuple[int, ...]:
    """Both loads in turn, so that drift reaches both alike."""
    counts = {load: sum(one.load == load and bool(one.per_s) for one in seen) for load in (low, high)}
    if min(counts.values()) >= LEAST:
        return (low, high)
    turns = [(load, LEAST - count) for load, count in counts.items()]
    return tuple(load for turn in range(LEAST) for load, missing in turns if turn < missing)


def _found(known: Mapping[int, Gain], why: str) -> Found:
    steps = tuple(known[at] for at in sorted(known))
    flat = next((gain for gain in steps if gain.outcome == "flat"), None)
    still = [gain for gain in steps if gain.outcome == "open"]
    if still and not why:
        why = "; ".join(
            f"{one.low_load:,} to {one.high_load:,}: a gain of {100 * one.low:.0f} to {100 * one.high:.0f} %"
            for one in still
        )
    return Found(flat, steps, why)

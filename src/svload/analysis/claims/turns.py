"""The statistic of sides that take turns in one block (benches/turns.md): which requests count, a round's log
ratio, a block's effect with its own error, and what each block weighs.

The weighted mean over blocks and its interval are those of every claim (`statistic.effect_of`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite, isnan, log, nan, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from svload.analysis import limits
from svload.analysis.quantiles import Floats, Ints, Ranked, merged_ranks, ranked_values
from svload.analysis.turn_plan import unmeasured_ns
from svload.model.units import show_percent
from svload.store.load_time import Turns as Turns

OTHERWISE = "; load one side after the other (order: trials in a study, svload load for a URL)"
"""What to do where turns can't answer."""
_HALVINGS = 60
_MOST_VARIANCE = 4.0
"""Variance of the blocks' log ratios, at most: a standard deviation of 2 is a factor of seven."""
_NO_VARIANCE = 1e-12
_ERROR_OF_MEDIAN = sqrt(pi / 2) / float(ndtri(0.75))
"""Standard error of a median over the median deviation of its values, times √n."""


@dataclass(frozen=True)
class Requests:
    """One side's requests in one block, by column. `ready_ns` is when it had a slot, negative for one that
    never had; `done_ns` is negative for one that never ended, `response_ns` NaN for one that did not succeed,
    `waited_ns` how long it waited for a slot. Both durations are in load time up to `ready`, then in real
    time. `connection` and `slot` are numbers over all generators; a slot is a VU, or a place in the pool."""

    due_ns: Ints
    ready_ns: Ints
    done_ns: Ints
    response_ns: Floats
    connection: Ints
    slot: Ints
    waited_ns: Ints

    @classmethod
    def of_rows(cls, rows: Mapping[str, NDArray[np.generic]], turns: Turns) -> Requests:
        """Take those of a trial's table of samples, whose timestamps have the clock of `turns`."""
        stamps = (
            np.asarray(rows[name]).astype(np.int64) for name in ("due_ns", "ready_ns", "done_ns", "error")
        )
        due, ready, done, error = stamps
        waited = np.where(ready >= 0, turns.load_ns(ready) - turns.load_ns(due), 0)
        took = (done - np.where(ready >= 0, ready, due) + waited).astype(float)
        ok = (error == 0) & (done >= 0)
        response_ns = np.where(ok, took, np.nan)
        return cls(
            due, ready, done, response_ns, over_shares(rows, "connection"), over_shares(rows, "vu"), waited
        )

    def ranked(self, which: NDArray[np.bool_]) -> Ranked:
        """Return the responses of these requests in rank order; failures lie above all others."""
        return _ranked(self.response_ns[which])


def _ranked(took: Floats) -> Ranked:
    return ranked_values(took[~np.isnan(took)], len(took))


def measured(requests: Requests, turns: Turns, p99_ns: float) -> NDArray[np.bool_]:
    """Return which requests count. The others are also made: those due in a turn's head and tail, and the
    first of each connection, which was idle before, unless each request has a connection of its own. A
    connection that replaces one that was closed during the turn was not idle: its opening counts.

    Only due times decide, and `p99_ns`, which was known before the first turn: a slow request must not affect
    whether it counts.
    """
    at = turns.of(requests.due_ns)
    head_ns, tail_ns = unmeasured_ns(p99_ns)
    inside = (requests.due_ns >= turns.begin_ns[at] + head_ns) & (
        requests.due_ns < turns.end_ns[at] - tail_ns
    )
    return np.asarray((at >= 0) & inside & ~_first_of_connection(at, requests))


def over_shares(rows: Mapping[str, NDArray[np.generic]], name: str) -> Ints:
    """Return a column whose numbers are unique within a generator as numbers that are unique over all."""
    numbers, share = (np.asarray(rows[one]).astype(np.int64) for one in (name, "share"))
    return np.asarray(share * (numbers.max(initial=0) + 1) + numbers)


def _first_of_connection(at: Ints, requests: Requests) -> NDArray[np.bool_]:
    """Return which requests are the first of their connection in their turn, `at`; none of a connection that
    made only one, nor of one that was opened when its slot had already had a request in that turn."""
    first, opens, alone = _firsts(at, requests.connection, requests.due_ns)
    first_of_slot, _, _ = _firsts(at, requests.slot, requests.due_ns)
    return first & ~alone & (first_of_slot | ~opens)


def _firsts(
    at: Ints, of: Ints, due_ns: Ints
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each request whether it is the first with its number `of` in its turn, `at`, whether it is
    the first in any turn, and whether it is the only one."""
    order = np.lexsort((due_ns, _narrow(of)))
    turn, number = at[order], of[order]
    opens = np.ones(len(order), dtype=bool)
    opens[1:] = number[1:] != number[:-1]
    first = opens.copy()
    first[1:] |= turn[1:] != turn[:-1]
    ends = np.append(opens[1:], True)[: len(order)]
    found = np.empty((3, len(order)), dtype=bool)
    found[:, order] = first, opens, opens & ends
    return found[0], found[1], found[2]


def _narrow(numbers: Ints) -> NDArray[np.generic]:
    """Return the numbers in 16 bits if they fit: only these are sorted in linear time."""
    fit = numbers.min(initial=0) >= 0 and numbers.max(initial=0) < 1 << 16
    return numbers.astype(np.uint16) if fit else numbers


def by_turn(requests: Requests, turns: Turns, counts: NDArray[np.bool_]) -> tuple[Ranked, ...]:
    """Return the responses that count (`measured`), turn by turn."""
    at, took = turns.of(requests.due_ns)[counts], requests.response_ns[counts]
    order = np.argsort(at, kind="stable")
    edges = np.searchsorted(at[order], np.arange(len(turns.begin_ns) + 1))
    return tuple(map(_ranked, np.split(took[order], edges)[1:-1]))


def in_flight(requests: Requests, turns: Turns, p99_ns: float) -> NDArray[np.bool_]:
    """Return for each turn whether a request that had its slot then was still in flight after the next turn's
    head, when that turn's requests count: during the head (`measured`) it changes no number."""
    at = turns.of(requests.ready_ns)
    head_ns, _ = unmeasured_ns(p99_ns)
    late = (at >= 0) & ((requests.done_ns < 0) | (requests.done_ns > turns.next_ns[at] + head_ns))
    return np.bincount(at[late], minlength=len(turns.begin_ns)) > 0


def too_short(overlapping: ArrayLike) -> str:
    """Return why nothing is decided where requests were in flight in too many rounds, as a clause; empty
    where they were not."""
    rounds = np.asarray(overlapping, dtype=bool)
    share = float(rounds.mean()) if rounds.size else 0.0
    if share <= limits.TURN_IN_FLIGHT:
        return ""
    return (
        f"windows too short: in {show_percent(share)} of the rounds a request was in flight while those "
        f"of the next turn were measured{OTHERWISE}"
    )


def round_logs(baseline: Sequence[Ranked], treatment: Sequence[Ranked], p: float) -> Floats:
    """Return the log ratio treatment / baseline of each round's own percentile, with neighbouring rounds
    joined until both sides hold enough requests for it.

    Infinite where only one side's percentile lies among its failures: the median over rounds takes that as
    worse than any number. A round where both do has no value.
    """
    logs = [log_ratio(*pair, p) for pair in _joined(baseline, treatment, p)]
    return np.array([one for one in logs if not isnan(one)])


def _joined(
    baseline: Sequence[Ranked], treatment: Sequence[Ranked], p: float
) -> Iterator[tuple[Ranked, Ranked]]:
    """Return rounds with enough requests. What is left at the end is added to the last of them."""
    need = limits.TURN_REQUESTS / (1 - max(p, 1 - p))
    bounds, held = [0], [0, 0]
    for place, pair in enumerate(zip(baseline, treatment, strict=True), 1):
        held = [sum_ + side.total for sum_, side in zip(held, pair, strict=True)]
        if min(held) >= need * (1 - 1e-9):
            bounds.append(place)
            held = [0, 0]
    if len(bounds) == 1 and min(held) == 0:
        return
    bounds = [*bounds[:-1], len(baseline)] if len(bounds) > 1 else [0, len(baseline)]
    for low, high in pairwise(bounds):
        yield _merged(baseline[low:high]), _merged(treatment[low:high])


def _merged(several: Sequence[Ranked]) -> Ranked:
    return several[0] if len(several) == 1 else merged_ranks(several)


def log_ratio(baseline: Ranked, treatment: Ranked, p: float) -> float:
    """Return the log ratio of one percentile of two populations; infinite where only one side's lies among
    its failures, NaN where both do."""
    if not baseline.total or not treatment.total:
        return nan
    before, after = baseline.quantile(p), treatment.quantile(p)
    if before is None or after is None:
        return nan if before is after else inf if after is None else -inf
    return log(after / before) if before > 0 and after > 0 else nan


@dataclass(frozen=True)
class BlockEffect:
    """The effect of one block, in log ratios: the median of its rounds with that median's standard error, the
    ratio of the percentiles of all measured requests, and the effect without the generator's own delays.
    NaN: it has no such number."""

    effect: float
    error: float
    pooled: float
    rounds: int
    clean: float = nan

    @property
    def few(self) -> bool:
        """Whether its rounds are too few for an error of its own."""
        return self.rounds < limits.TURN_ROUNDS


def block_effect(baseline: Sequence[Ranked], treatment: Sequence[Ranked], p: float) -> BlockEffect:
    """Return the effect of one block, from both sides' turns in the order of the rounds."""
    logs = round_logs(baseline, treatment, p)
    if not len(logs):
        return BlockEffect(nan, nan, nan, 0)
    pooled = log_ratio(_merged(baseline), _merged(treatment), p)
    return BlockEffect(*median_of(logs), pooled if isfinite(pooled) else nan, len(logs))


def median_of(logs: Floats) -> tuple[float, float]:
    """Return (median, its standard error by the median deviation). NaN where half of the rounds have no
    finite value."""
    middle = float(np.median(logs))
    if not isfinite(middle):
        return nan, nan
    if len(logs) < 2:
        return middle, 0.0
    return middle, _ERROR_OF_MEDIAN * float(np.median(np.abs(logs - middle))) / sqrt(len(logs))


def block_weights(effects: ArrayLike, errors: ArrayLike) -> Floats:
    """Return the weight of each block, [..., case, block]: one over the sum of its own variance and that
    between blocks (random effects).

    A block's own error is raised to at least the blocks' median: otherwise blocks that look calm by chance
    would decide. NaN effects have no weight. The heaviest block of a case weighs 1.
    """
    y, s = np.asarray(effects, dtype=float), np.asarray(errors, dtype=float)
    there = ~np.isnan(y)
    filled = np.where(there, y, 0.0)
    floor = _median_of_known(np.where(there, s, np.nan))
    own = np.where(there, np.maximum(np.nan_to_num(s), floor), 0.0) ** 2
    weight = np.where(there, 1 / (_variance_between(filled, own, there) + own + _NO_VARIANCE), 0.0)
    most = weight.max(axis=-1, keepdims=True, initial=0.0)
    return np.asarray(weight / np.where(most > 0, most, 1.0))


def _median_of_known(values: Floats) -> Floats:
    none = np.isnan(values).all(axis=-1, keepdims=True)
    return np.asarray(np.nanmedian(np.where(none, 0.0, values), axis=-1, keepdims=True))


def _variance_between(y: Floats, own: Floats, there: NDArray[np.bool_]) -> Floats:
    """Return the variance between blocks at which their weighted squares equal their number less one (Paule
    and Mandel 1982)."""
    freedom = there.sum(axis=-1, keepdims=True) - 1
    low, high = np.zeros_like(freedom, dtype=float), np.full(freedom.shape, _MOST_VARIANCE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        w = np.where(there, 1 / (middle + own + _NO_VARIANCE), 0.0)
        mean = (w * y).sum(axis=-1, keepdims=True) / np.maximum(w.sum(axis=-1, keepdims=True), _NO_VARIANCE)
        above = (w * (y - mean) ** 2).sum(axis=-1, keepdims=True) > freedom
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2

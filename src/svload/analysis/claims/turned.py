"""A claim's number in the turns of one trial, a contrast's blocks of such trials, what a ratio of sides that
take turns cannot detect, and the control that would show it (benches/turns.md).

Turns represent servers that are loaded part of the time: each turn begins with an idle server. Where that may
hide a difference, neither "no difference" nor a pass is reported, unless the effect is too far from its
margin for what may be hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, hypot, inf, isnan, log, log1p, nan
from statistics import mean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svload.analysis import limits
from svload.analysis.claims.pairs import Each, Gathered, Known, Made, by_place, in_turn, once
from svload.analysis.claims.statistic import Effect, effect_of, half_width, p_of
from svload.analysis.claims.turns import (
    OTHERWISE,
    BlockEffect,
    Requests,
    block_effect,
    by_turn,
    in_flight,
    measured,
    round_logs,
    too_short,
)
from svload.analysis.disturbances import strangers_share
from svload.analysis.quantiles import NS, Floats, Ranked
from svload.analysis.readings import Readings, Series, whole_of
from svload.analysis.turn_plan import unmeasured_ns
from svload.analysis.view import DELAYED, GroupView, Rows, Window, generator_delays_ns, look, steps_of
from svload.model.metrics import CATALOGUE, MetricRef, is_timing
from svload.model.pairs import PairRatio, RoundOfTurns
from svload.model.results import TrialResult
from svload.model.study import CaseConfig
from svload.model.units import show_percent
from svload.store import TrialData
from svload.store.load_time import Turns

Flags = NDArray[np.bool_]
_STAMPS = {
    "response": None,
    "ok_response": ("due_ns", "done_ns"),
    "service": ("begun_ns", "done_ns"),
    "total": ("begun_ns", "done_ns"),
    "server_time": ("written_ns", "first_byte_ns"),
    "starttransfer": ("begun_ns", "first_byte_ns"),
}
"""Times of requests with percentiles that are read turn by turn, with their ends; only a response includes
failures."""


@dataclass(frozen=True)
class Turned:
    """One number's requests that count, turn by turn, also without the generator's own delays (None: these
    are not known for every request, or are no part of the number); for each turn, whether one was in flight
    while the next was measured, and whether one waited for a slot; the growth of its mean response; what the
    side used (within, between its turns, for each second of them) by resource; and the share of the machine
    that other programs had in each turn."""

    turns: tuple[Ranked, ...]
    clean: tuple[Ranked, ...] | None
    overlapping: Flags
    waited: Flags
    growth: float
    used: Mapping[str, tuple[float, float]]
    strangers: tuple[float | None, ...]


def read_by_turns(ref: MetricRef) -> MetricRef | None:
    """Return the number whose turns show what they can't tell about this one: itself if it is a percentile
    of a time of requests, the median response for any other time or rate of the group; None for all else."""
    if ref.metric.name in _STAMPS and (ref.stat or "")[:1] == "p":
        return ref
    if ref.metric.source != "traffic" or not is_timing(str(ref)):
        return None
    return replace(ref, metric=CATALOGUE["traffic", "response"], stat="p50", limit_ns=None)


def turned_of(trial: TrialData, config: CaseConfig, refs: Sequence[MetricRef]) -> dict[str, Turned]:
    """Return by full name what turns are read for of `refs` (`read_by_turns`); empty for a trial that took
    none."""
    record = trial.summary.turns
    wanted = [one for one in map(read_by_turns, refs) if one is not None]
    if record is None or not wanted:
        return {}
    turns = Turns.of_record(record).in_load_time
    used, strangers = _used(trial, config), tuple(_strangers(trial, turns))
    groups = {group.name: group for group in _groups(trial, config)}
    named: dict[tuple[str, str], list[MetricRef]] = {}
    for ref in wanted:
        named.setdefault((ref.owner, ref.metric.name), []).append(ref)
    found: dict[str, Turned] = {}
    for (owner, metric), of_one in named.items():
        group = groups.get(owner)
        if group is None or group.rows is None:
            continue
        requests, clean = _requests(group.rows, turns, metric)
        counts = measured(requests, turns, record.p99_ns)
        if _STAMPS[metric] is not None:
            counts &= group.rows["ok"]
        responses = by_turn(requests, turns, counts)
        without = None if clean is None else by_turn(clean, turns, counts)
        overlapping, waited = in_flight(requests, turns, record.p99_ns), waits(requests, turns)
        growth = growth_in_turn(requests, turns, counts, record.p99_ns)
        of_all = Turned(responses, without, overlapping, waited, growth, used, strangers)
        found |= {str(ref): of_all for ref in of_one}
    return found


def _groups(trial: TrialData, config: CaseConfig) -> Iterator[GroupView]:
    """Return every group and step, over the whole load: what counts is decided turn by turn."""
    interval_ns = trial.summary.interval_ns
    window = Window(0, -(-trial.summary.window_ns[1] // interval_ns), interval_ns)
    for group in look(trial, config, window):
        yield group
        yield from steps_of(trial, group)


def _requests(rows: Rows, turns: Turns, metric: str) -> tuple[Requests, Requests | None]:
    """Return all requests with this metric as their response (NaN for one that failed), and the same without
    the generator's delays."""
    requests, stamps = Requests.of_rows(rows, turns), _STAMPS[metric]
    delay_ns = generator_delays_ns(rows) if metric in DELAYED else None
    if stamps is not None:
        first, last = (rows[name].astype(float) for name in stamps)
        requests = replace(requests, response_ns=np.where(rows["ok"], last - first, np.nan))
    if delay_ns is None:
        return requests, None
    return requests, replace(requests, response_ns=requests.response_ns - delay_ns)


def _strangers(trial: TrialData, turns: Turns) -> Iterator[float | None]:
    """Return the share by turn; `turns` are in load time, like the trial's readings."""
    interval_ns = trial.summary.interval_ns
    for begin_ns, end_ns in zip(turns.begin_ns.tolist(), turns.end_ns.tolist(), strict=True):
        yield strangers_share(
            trial.monitors, Window(begin_ns // interval_ns, end_ns // interval_ns, interval_ns)
        )


def _used(trial: TrialData, config: CaseConfig) -> dict[str, tuple[float, float]]:
    """Return what the side's servers used within its turns and between them, for each second of its turns:
    cores, and bytes written."""
    record = trial.summary.turns
    assert record is not None
    turns = Turns.of_record(record)
    readings = Readings(getattr(trial.monitors, "real", trial.monitors))
    loaded_s = float((turns.end_ns - turns.begin_ns).sum()) / 1e9
    found = {}
    resources = ((CPU, "cpu_seconds_total"), ("the disk", "written_bytes_total"))
    for (what, metric), idle in zip(resources, limits.TURN_IDLE, strict=True):
        parts = [
            _within_and_between(series, turns, idle)
            for service in config.services
            for series in whole_of(readings.of(service.name, "process", metric))
        ]
        known = [part for part in parts if part is not None]
        if known and len(known) == len(parts):
            within, between = (sum(column) / loaded_s for column in zip(*known, strict=True))
            found[what] = (within, between)
    return found


def _within_and_between(series: Series, turns: Turns, idle: float) -> tuple[float, float] | None:
    """Return a counter's growth within the turns and between the first and the last, by the looks that lie
    wholly on one side; None where no look does. What grows as a turn ends, faster than within it, was put off
    as well. Between turns a growth below `idle` a second counts as zero."""
    at = series.at.astype(np.int64)
    turn = turns.of(at)
    between = (turn >= 0) & (at >= turns.end_ns[turn])
    grown, length = np.maximum(np.diff(series.values), 0.0), np.diff(at)
    same = (turn[1:] == turn[:-1]) & (turn[1:] >= 0)
    inside = same & ~between[1:]
    outside = same & between[:-1] & (turn[1:] < len(turns.begin_ns) - 1)
    if not (length[inside].sum() and length[outside].sum()):
        return None
    within_ns = int((turns.end_ns - turns.begin_ns).sum())
    between_ns = int(turns.end_ns[-1] - turns.begin_ns[0]) - within_ns
    rate, off_rate = (float(grown[some].sum() / length[some].sum()) for some in (inside, outside))
    leaving = same & ~between[:-1] & between[1:] & (turn[1:] < len(turns.begin_ns) - 1)
    at_once = max(float(grown[leaving].sum()) - rate * float(length[leaving].sum()), 0.0)
    put_off = off_rate * between_ns + at_once
    return rate * within_ns, put_off if put_off * 1e9 >= idle * between_ns else 0.0


@dataclass(frozen=True)
class TurnedBlocks:
    """A contrast's blocks with sides that took turns: each block's effect by cell, what may prevent a pass,
    and why there is no result at all."""

    effects: tuple[tuple[BlockEffect, ...], ...]
    guards: tuple[Guard, ...]
    overlapping: Flags
    """for each round, whether a side's request was in flight while the next turn was measured"""
    shown: tuple[tuple[tuple[RoundOfTurns, ...], ...], ...]
    """by cell and block"""

    @property
    def too_short(self) -> str:
        """Return why nothing is decided at all, as a clause; empty where it may be."""
        return too_short(self.overlapping)

    @property
    def in_flight(self) -> float:
        """The share of rounds in which a request was in flight while the next turn was measured."""
        return float(self.overlapping.mean())

    @property
    def late_pairs(self) -> int:
        """The blocks in which half of the rounds have one side alone beyond the timeout."""
        return sum(one.rounds > 0 and isnan(one.effect) for cell in self.effects for one in cell)

    @property
    def rounds(self) -> int:
        """The rounds of all its blocks."""
        return sum(one.rounds for cell in self.effects for one in cell)

    def evidence(self, found: Gathered) -> list[PairRatio]:
        """Return the pairs, each with the effect of its turns and with its rounds."""
        of_block = {
            (trial, block): (one.effect, rounds)
            for row, of_cell in enumerate(self.effects)
            for block, one, rounds in zip(found.blocks, of_cell, self.shown[row], strict=True)
            for trial in found.trials[0][row]
            if not isnan(one.effect)
        }
        texts = []
        for pair in found.evidence:
            effect, rounds = of_block.get((pair.baseline, pair.block), (pair.log_ratio, ()))
            texts.append(
                pair.model_copy(update={"log_ratio": effect, "rounds": rounds, "treatment_first": False})
            )
        return texts


_NO_EFFECT = BlockEffect(nan, nan, nan, 0, nan)
Pair = Sequence[Turned]


def turned_blocks(
    found: Gathered,
    trials: Sequence[TrialResult],
    of_trials: Mapping[str, Mapping[str, Turned]],
    numbers: Mapping[str, str],
    margin: float,
) -> TurnedBlocks | None:
    """Return the contrast's blocks; None where its number was not read by turns. `of_trials`: trial → number
    → what its turns showed; `numbers`: case → the number's full name."""
    places = by_place({trial.trial: trial for trial in trials if trial.case in numbers})
    turned = {
        place: of_trials.get(trial.trial, {}).get(numbers[trial.case]) for place, trial in places.items()
    }
    cells = [[_sides(cell, block, turned) for block in found.blocks] for cell in found.cells]
    if not any(block for cell in cells for block in cell):
        return None
    p = found.percentile
    effects = tuple(tuple(_effect(block, p) for block in cell) for cell in cells)
    drifts = [[_drift(block, p) for block in cell] for cell in cells]
    by_side = [
        [block[place] if block else None for block in cell]
        for cell, names in zip(cells, found.cells, strict=True)
        for place in range(len(names))
    ]
    growths = [[one.growth if one else nan for one in side] for side in by_side]
    known = [[one for one in side if one] for side in by_side]
    rounds = [
        np.any([side.overlapping for side in block], axis=0) for cell in cells for block in cell if block
    ]
    guards = (
        rises(growths, found.unit),
        saturates([np.concatenate([one.waited for one in side]) for side in known if side]),
        *_defer(known),
        is_cold(drifts, found.unit, margin),
    )
    shown = tuple(tuple(tuple(_rounds(block, p)) for block in cell) for cell in cells)
    return TurnedBlocks(effects, tuple(filter(None, guards)), np.concatenate(rounds), shown)


def _sides(cell: Sequence[str], block: int, turned: Mapping[tuple[str, int], Turned | None]) -> Pair | None:
    """Return for each of the cell's cases what its turns in the block showed; None where a side has none."""
    found = [one for case in cell if (one := turned.get((case, block))) is not None]
    return found if len(found) == len(cell) else None


def _pairs(block: Pair) -> list[tuple[Turned, Turned]]:
    """Return baseline and treatment; for an interaction also both at the first level of `by`, which are
    subtracted."""
    return list(zip(block[::2], block[1::2], strict=True))


def _effect(block: Pair | None, p: float) -> BlockEffect:
    if block is None:
        return _NO_EFFECT
    first, *off = [_effect_of(before, after, p) for before, after in _pairs(block)]
    for other in off:
        first = BlockEffect(
            first.effect - other.effect,
            hypot(first.error, other.error),
            first.pooled - other.pooled,
            min(first.rounds, other.rounds),
            first.clean - other.clean,
        )
    return first


def _effect_of(before: Turned, after: Turned, p: float) -> BlockEffect:
    found = block_effect(before.turns, after.turns, p)
    if before.clean is None or after.clean is None:
        return found
    return replace(found, clean=block_effect(before.clean, after.clean, p).effect)


def _rounds(block: Pair | None, p: float) -> Iterator[RoundOfTurns]:
    before, after = _pairs(block)[0] if block is not None else (None, None)
    if before is None or after is None:
        return
    for place, sides in enumerate(zip(before.turns, after.turns, strict=True)):
        values = [side.quantile(p) if side.total else None for side in sides]
        shares = [one.strangers[place] for one in (before, after)]
        yield RoundOfTurns(
            baseline=None if values[0] is None else values[0] / NS,
            treatment=None if values[1] is None else values[1] / NS,
            strangers=max((share for share in shares if share is not None), default=None),
        )


def _drift(block: Pair | None, p: float) -> float:
    if block is None:
        return nan
    first, *off = [drift_of(round_logs(before.turns, after.turns, p)) for before, after in _pairs(block)]
    return first - sum(off)


def _defer(sides: Sequence[Sequence[Turned]]) -> Iterator[Guard | None]:
    """Return the guard of each resource. `sides`: what the turns of each side showed, block by block."""
    for what in dict.fromkeys(name for side in sides for block in side for name in block.used):
        used = [[block.used[what] for block in side if what in block.used] for side in sides]
        yield defers([(mean(a for a, _ in one), mean(b for _, b in one)) for one in used if one], what)


CPU = "CPU"


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
    side and block, from `growth_in_turn`. They grow on all sides together, or on one alone: the mean hides
    the queue of one side. How far the ratio may be off follows from the side that grows most."""
    together, each = effect_of(values, unit), effect_of(np.asarray(values)[:, None], unit)
    alone_p = limits.APART_P / len(each.mean)
    if not (_grows(together, limits.APART_P) or _grows(each, alone_p).any()):
        return None
    most = float(np.fmax.reduce(each.mean + half_width(each)))
    times = exp(float(np.fmax.reduce(each.mean)))
    text = f"late in a turn the mean response is {times:.3g} × that early in it{OTHERWISE}"
    return Guard(text, limits.TURN_FAR * most)


def _grows(grown: Effect, p: float) -> NDArray[np.bool_]:
    return np.asarray((grown.mean > limits.TURN_RISES) & (p_of(grown) < p))


def growth_in_turn(requests: Requests, turns: Turns, counts: NDArray[np.bool_], p99_ns: float) -> float:
    """Return the log ratio of a side's mean response in the last third of the measured part of its turns to
    that in the first third; NaN where either has none. Whichever percentile is compared, a growing queue
    shows soonest in the mean. `counts`: the requests that count (`turns.measured`)."""
    counts = counts & (requests.response_ns > 0)
    at, took = turns.of(requests.due_ns)[counts], requests.response_ns[counts]
    head_ns, tail_ns = unmeasured_ns(p99_ns)
    length_ns = turns.end_ns[at] - turns.begin_ns[at] - head_ns - tail_ns
    third = 3 * (requests.due_ns[counts] - turns.begin_ns[at] - head_ns) // length_ns
    first, last = (took[third == place] for place in (0, 2))
    return log(last.mean() / first.mean()) if len(first) and len(last) else nan


def saturates(waited: Sequence[ArrayLike]) -> Guard | None:
    """Return the guard of a side near its limit: requests waited for a slot in too many of its turns.
    `waited`: by side, one value per turn."""
    share = max(float(np.asarray(side, dtype=bool).mean()) for side in waited)
    if share <= limits.TURN_WAITS:
        return None
    return Guard(f"in {show_percent(share)} of the turns requests waited for a slot{OTHERWISE}")


def defers(used: Sequence[tuple[float, float]], what: str) -> Guard | None:
    """Return the guard of a side that goes on working after its turns; of several sides, that of the one that
    may be furthest off. `used`: by side, what it used within its turns and between them, for each second of
    its turns: cores (`what` is CPU), or bytes of `what`.

    A server that is always loaded needs as much CPU again for what it put off, unless its cores are then
    full. What put-off writes would cost is not known.
    """
    found = [guard for within, outside in used if (guard := _put_off(within, outside, what)) is not None]
    return max(found, key=lambda guard: guard.off, default=None)


def _put_off(within: float, outside: float, what: str) -> Guard | None:
    """Return the guard of one side, as `defers`."""
    share = outside / within if within > 0 else inf if outside > 0 else 0.0
    if share <= limits.TURN_DEFERRED:
        return None
    text = f"{show_percent(share)} of that within" if within > 0 else "all of it"
    full = limits.CPU_FULL * ceil(limits.CPU_FULL * within)
    off = limits.TURN_FAR * log1p(share) if what == CPU and within + outside < full else inf
    return Guard(f"its use of {what} between turns is {text}{OTHERWISE}", off)


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
    """Return for each turn whether one of its requests waited for a slot, or never had one."""
    late = (requests.waited_ns > 0) | (requests.ready_ns < 0)
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
        text = f"{show_percent(exp(float(self.effect.mean)) - 1, 2)} ({_signed(low)} to {_signed(high)})"
        return f"{baseline} against itself: {text}"


def _signed(percent: float) -> str:
    return f"{percent:+.2g}".replace("-", "−")


def made_of(
    trials: Iterable[TrialData],
    configs: Mapping[str, CaseConfig],
    wanted: Mapping[str, Sequence[MetricRef]],
    *,
    each: Each = in_turn,
    known: Known | None = None,
) -> dict[str, Made]:
    """Return how each trial was made, by trial. `wanted`: by case the numbers of its claims; `each` and
    `known` as in `judge_trials`."""
    trials = list(trials)
    in_turns = [one for one in trials if one.summary.turns is not None and one.summary.case in configs]
    kept: Known = {} if known is None else known

    def turned(trial: TrialData) -> dict[str, Turned]:
        case = trial.summary.case
        return once(kept, "turned", trial, lambda one: turned_of(one, configs[case], wanted.get(case, ())))

    of_turns = dict(zip((one.summary.trial for one in in_turns), each(turned, in_turns), strict=True))
    return {
        one.summary.trial: Made(
            one.lab.whole_plot, one.summary.started_wall, of_turns.get(one.summary.trial, {})
        )
        for one in trials
    }

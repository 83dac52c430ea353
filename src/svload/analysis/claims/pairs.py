"""A contrast's pairs in the judged trials: those that count, those that do not and why, and
the units that they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf, log

import numpy as np

from svload.analysis import limits
from svload.analysis.claims.gathered import Gathered, ToPool
from svload.analysis.claims.made import Made, started_order
from svload.analysis.claims.numbers import (
    Number,
    by_place,
    counts_of,
    grade_of,
    number_of,
    timed_out,
    too_harmed,
)
from svload.analysis.claims.pooled import N_DIFFERS
from svload.analysis.contrasts import Cell, Contrast
from svload.analysis.criteria import metric_of
from svload.model.pairs import LostPair, PairRatio
from svload.model.results import TrialResult
from svload.model.study import CaseConfig, Lock
from svload.study.check import owners_of

_RAISING = (1, 2)
"""Places of a cell's numbers that raise its ratio: the treatment, and the baseline at `by`'s first level."""


def gather(
    lock: Lock,
    contrast: Contrast,
    configs: Mapping[str, CaseConfig],
    trials: Sequence[TrialResult],
    made: Mapping[str, Made],
) -> Gathered:
    """The contrast's pairs. A pair is two trials of one block and one batch; where the first was lost,
    one that was made anew counts."""
    cells, mixed = _same_load(contrast, configs, lock)
    owners = owners_of(lock.source)
    names = {case: str(metric_of(contrast.comparison.metric, configs[case], owners)) for cell in cells for case in cell}  # fmt: skip
    mine = {trial.trial: trial for trial in trials if trial.case in names}
    places = by_place(mine)
    blocks = sorted({trial.block for trial in mine.values()})
    found = Gathered(contrast, cells, mixed=mixed, order=started_order(list(trials), made))
    rounds = _Rounds(contrast.name, places, made)
    slots = [(block, 0) for block in blocks]
    slots += sorted({(block, again) for block in blocks for cell in cells for again in rounds.of(cell, block) if again})  # fmt: skip
    found.slots = tuple(slots)
    _units(found, rounds, made, lock)
    shape = (len(cells), len(slots))
    found.logs, found.below, found.above = (np.full(shape, np.nan) for _ in range(3))
    found.adverse = (np.full(shape, np.nan), np.full(shape, np.nan))
    found.disturbed = (np.full(shape, np.nan), np.full(shape, np.nan))
    for row, cell in enumerate(cells):
        for block in blocks:
            _cell(found, row, cell, block, rounds, names)
    _counts(found, rounds, names, blocks, {case: configs[case].main_group for case in names})
    found.sides = _sides(found, mine, names)
    return found


@dataclass(frozen=True)
class _Rounds:
    """The trials of a cell in a block, by the batch that made them."""

    claim: str
    places: Mapping[tuple[str, int], list[TrialResult]]
    made: Mapping[str, Made]

    def of(self, cell: Cell, block: int) -> list[int]:
        """0 and the batches that made any of it anew."""
        again = {self._made(trial).again for case in cell for trial in self.places.get((case, block), ())}
        return sorted({0} | again)

    def trials(
        self, cell: Cell, block: int, again: int, names: Mapping[str, str]
    ) -> list[TrialResult | None]:
        """Of each case the trial of that batch that serves this claim; of several the last one that is believed."""
        return [self._one(case, block, again, names[case]) for case in cell]

    def _one(self, case: str, block: int, again: int, name: str) -> TrialResult | None:
        found = [
            trial
            for trial in self.places.get((case, block), ())
            if self._made(trial).again == again and self._serves(trial)
        ]
        believed = [trial for trial in found if grade_of(trial, name) != "REFUSED"]
        return next(reversed(believed or found), None)

    def _made(self, trial: TrialResult) -> Made:
        return self.made.get(trial.trial) or Made()

    def _serves(self, trial: TrialResult) -> bool:
        serves = self._made(trial).serves
        return not serves or self.claim in serves


def _same_load(
    contrast: Contrast, configs: Mapping[str, CaseConfig], lock: Lock
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """(cells whose cases were all run under one load model, those that mix a closed loop with an open one)."""
    owners = owners_of(lock.source)
    kept, mixed = [], []
    for cell in contrast.cells:
        if any(case not in configs for case in cell):
            continue
        models = {load_model(contrast.comparison.metric, configs[case], owners) for case in cell}
        if len(models) > 1:
            mixed.append(f"{cell[1]} against {cell[0]}")
        else:
            kept.append(cell)
    return tuple(kept), tuple(mixed)


def load_model(metric: str, config: CaseConfig, owners: Mapping[str, object]) -> str:
    """The load model of the group that a metric is about; of a server's metric that of the main group."""
    owner = str(metric_of(metric, config, owners).owner).partition(".")[0]  # type: ignore[arg-type]
    groups = {group.name: group for group in config.groups}
    return str(groups.get(owner, groups[config.main_group]).executor.model)


def _units(found: Gathered, rounds: _Rounds, made: Mapping[str, Made], lock: Lock) -> None:
    """Which unit each slot is of: its block, or the bring-up where that is the unit (docs/method.md §2).

    Blocks that share a bring-up are one bring-up's. A pair made anew counts to the bring-up that it was made
    in; where the factor restarts it has bring-ups of its own, and counts to its block.
    """
    joined = _Joined()
    plots: dict[int, list[int]] = {}
    for block, again in found.slots:
        if again == 0:
            there = [
                one.whole_plot
                for case in found.contrast.cases
                for trial in rounds.places.get((case, block), ())
                if (one := made.get(trial.trial)) is not None
                and one.whole_plot is not None
                and one.again == 0
            ]
            plots[block] = there
            joined.join(there)
    known = all(plots.values()) and bool(plots)
    found.bring_ups = len({joined.of(there[0]) for there in plots.values()}) if known else 0
    independent = max(found.bring_ups, lock.measure.bring_ups)
    found.is_bring_up = known and (found.contrast.hard or unit_is_bring_up(independent, len(plots)))
    units = []
    for block, again in found.slots:
        if not found.is_bring_up:
            units.append(block)
        elif again == 0 or found.contrast.hard:
            units.append(joined.of(plots[block][0]))
        else:
            units.append(joined.of(_plot_again(found, rounds, made, block, again)))
    found.unit = tuple(units)


def unit_is_bring_up(bring_ups: int, blocks: int) -> bool:
    """Whether bring-ups are the unit of a factor that needs no restart: from six on, or
    where no two blocks share one."""
    return bring_ups >= min(limits.CLAIM_BRING_UPS, blocks)


def _plot_again(found: Gathered, rounds: _Rounds, made: Mapping[str, Made], block: int, again: int) -> int:
    return next(
        (
            one.whole_plot
            for case in found.contrast.cases
            for trial in rounds.places.get((case, block), ())
            if (one := made.get(trial.trial)) is not None
            and one.again == again
            and one.whole_plot is not None
        ),
        -block,
    )


class _Joined:
    """Bring-ups that are linked, each set by its least number."""

    def __init__(self) -> None:
        self._sets: list[set[int]] = []

    def join(self, plots: Sequence[int]) -> None:
        mine = set(plots)
        shared = [one for one in self._sets if one & mine]
        for one in shared:
            mine |= one
            self._sets.remove(one)
        if mine:
            self._sets.append(mine)

    def of(self, plot: int) -> int:
        return next((min(one) for one in self._sets if plot in one), plot)


def _cell(
    found: Gathered,
    row: int,
    cell: Cell,
    block: int,
    rounds: _Rounds,
    names: Mapping[str, str],
) -> None:
    """The pair of a cell in a block: the first that counts; whatever was lost before it is told."""
    for again in rounds.of(cell, block):
        trials = rounds.trials(cell, block, again, names)
        if again and not all(trials):
            continue
        numbers = [number_of(trial, case, names[case]) for trial, case in zip(trials, cell, strict=True)]
        numbers = _by_faster_side(numbers, trials, names)
        slot = found.slots.index((block, again))
        if len(cell) == 2 and all(number.state == "number" or number.few for number in numbers):
            _to_pool(found, row, slot, numbers)
        if all(number.state == "number" for number in numbers):
            _count(found, row, slot, numbers, _log_ratio(numbers))
            return
        _lose(found, row, slot, numbers)


def _to_pool(found: Gathered, row: int, slot: int, numbers: Sequence[Number]) -> None:
    """A pair whose requests may be pooled with others'; it needs that where a trial has too
    few, or the sides differ in n."""
    pair = ToPool(row, slot, tuple(numbers))
    found.to_pool.append(pair)
    fewer, more = sorted(number.n for number in numbers)
    differ = any(number.few for number in numbers) or more - fewer > N_DIFFERS * more
    found.needs_pool |= pair.is_whole and differ


def _by_faster_side(
    numbers: Sequence[Number], trials: Sequence[TrialResult | None], names: Mapping[str, str]
) -> list[Number]:
    """Each pair judged by the limits of its faster side, where a limit depends on the
    number's size (docs/method.md §2)."""
    judged = list(numbers)
    for at in range(0, len(judged), 2):
        values = [number.value for number in judged[at : at + 2]]
        if None in values:
            continue
        faster = min(value for value in values if value is not None)
        for side in (at, at + 1):
            number, trial = judged[side], trials[side]
            if trial is None or number.value is None or number.state != "number":
                continue
            if checks := too_harmed(trial, names[number.case], number.value, faster):
                judged[side] = Number(
                    number.trial, number.case, "refused", "REFUSED", number.value, number.below, number.above,
                    number.bounded, checks, f"{number.trial} REFUSED by the limits of the faster side ({checks[0]})",
                )  # fmt: skip
    return judged


def _log_ratio(numbers: Sequence[Number]) -> float:
    logs = [log(number.value) for number in numbers if number.value is not None]
    ratios = [treatment - baseline for baseline, treatment in zip(logs[::2], logs[1::2], strict=True)]
    return ratios[0] - sum(ratios[1:])


def _bounds(numbers: Sequence[Number]) -> tuple[float, float]:
    """How far below and above the log ratio the true one may lie: the sides' opposite bounds."""
    below = above = 0.0
    for place, number in enumerate(numbers):
        raises = place in _RAISING
        below += number.below if raises else number.above
        above += number.above if raises else number.below
    return below, above


def _count(found: Gathered, row: int, slot: int, numbers: Sequence[Number], ratio: float) -> None:
    """A pair counts, with that log ratio; its bounds, order and grade are those of its numbers."""
    below, above = _bounds(numbers)
    found.logs[row, slot], found.below[row, slot], found.above[row, slot] = ratio, below, above
    places = [found.order.get(number.trial) for number in numbers[:2]]
    first = places[0] is not None and places[1] is not None and places[1] < places[0]
    pair = PairRatio(
        block=found.slots[slot][0],
        unit=found.unit[slot],
        baseline=numbers[0].trial,
        treatment=numbers[1].trial,
        log_ratio=ratio,
        treatment_first=first,
        below=_finite(below),
        above=_finite(above),
        against=(numbers[2].trial, numbers[3].trial) if len(numbers) == 4 else None,
    )
    found.evidence.append(pair)
    found.weak_pairs += any(number.grade == "WEAK" for number in numbers)
    _compare_left_out(found, row, slot, numbers)
    if (
        len(numbers) == 2
        and places[0] is not None
        and places[1] is not None
        and abs(places[0] - places[1]) == 1
    ):
        found.neighbours.append((row, pair))


def _compare_left_out(found: Gathered, row: int, slot: int, numbers: Sequence[Number]) -> None:
    """Of which side more was left out, and between which log ratios the pair then lies."""
    before, after = (sum(number.left_out for number in numbers[side::2]) for side in (0, 1))
    if not before and not after:
        return
    baseline, treatment = found.left_out_sides
    found.left_out_sides = (baseline + (before > after), treatment + (after > before))
    low = high = 0.0
    for place, number in enumerate(numbers):
        ends = sorted(log(value) for value in (number.value, number.as_measured) if value)
        low += ends[0] if place in _RAISING else -ends[-1]
        high += ends[-1] if place in _RAISING else -ends[0]
    found.disturbed[0][row, slot], found.disturbed[1][row, slot] = low, high


def count_pooled(found: Gathered, pairs: Sequence[tuple[ToPool, float]]) -> None:
    """These pairs count, each with a log ratio of its pooled requests, and no others: one that counted by its
    own numbers and can't be pooled is lost."""
    for array in (found.logs, found.below, found.above, *found.disturbed):
        array.fill(np.nan)
    found.evidence, found.neighbours, found.weak_pairs = [], [], 0
    for one, ratio in pairs:
        _count(found, one.row, one.slot, one.numbers, ratio)
    counted = {one.trials for one, _ in pairs}
    found.lost = [lost for lost in found.lost if lost.trials not in counted]
    lost = {one.trials for one in found.lost}
    found.lost += [
        LostPair(
            block=found.slots[one.slot][0],
            baseline=one.numbers[0].case,
            treatment=one.numbers[1].case,
            side="both",
            why="no number",
            trials=one.trials,
            reason=f"{' and '.join(one.trials)} can't be pooled with the others",
        )
        for one in found.to_pool
        if one.trials not in {*counted, *lost}
    ]
    found.pooled = True


def _finite(bound: float) -> float:
    return 1e9 if isinf(bound) else bound


def _lose(found: Gathered, row: int, slot: int, numbers: Sequence[Number]) -> None:
    bad = [[number for number in numbers[side::2] if number.state != "number"] for side in (0, 1)]
    states = {number.state for side in bad for number in side}
    why = "missing" if "missing" in states else "refused" if "refused" in states else "no number"
    side = "both" if bad[0] and bad[1] else "baseline" if bad[0] else "treatment"
    refused = [any(number.state == "refused" for number in one) for one in bad]
    if why == "refused":
        if refused[0] != refused[1]:
            before, after = found.refused_sides
            found.refused_sides = (before + refused[0], after + refused[1])
        else:
            found.refused_both += 1
        low = high = np.nan
        if all(number.value is not None for number in numbers):
            bounded = all(number.bounded for number in numbers if number.state == "refused")
            below, above = _bounds(numbers) if bounded else (np.inf, np.inf)
            ratio = _log_ratio(numbers)
            low, high = ratio - below, ratio + above
        else:
            low, high = -np.inf, np.inf
        found.adverse[0][row, slot], found.adverse[1][row, slot] = low, high
    told = [number for one in bad for number in one if number.state == why or number.state == "time-out"]
    found.lost.append(
        LostPair(
            block=found.slots[slot][0],
            baseline=numbers[0].case,
            treatment=numbers[1].case,
            side=side,  # type: ignore[arg-type]
            why=why,  # type: ignore[arg-type]
            checks=tuple(dict.fromkeys(name for number in told for name in number.checks)),
            trials=tuple(number.trial for number in numbers if number.trial),
            refused=tuple(number.trial for number in numbers if number.state == "refused"),
            reason="; ".join(number.reason for number in told),
        )
    )


def _counts(
    found: Gathered,
    rounds: _Rounds,
    names: Mapping[str, str],
    blocks: Sequence[int],
    mains: Mapping[str, str],
) -> None:
    """What is judged whatever disturbed the times: success, time-outs, overload; of the first batch's trials."""
    differences = np.full((len(found.cells), len(blocks)), np.nan)
    rates: tuple[list[float], list[float]] = ([], [])
    beyond, pairs, late_pairs, overloaded, judged = [0, 0], 0, 0, [0, 0], [0, 0]
    for row, cell in enumerate(found.cells):
        for column, block in enumerate(blocks):
            trials = rounds.trials(cell, block, 0, names)[:2]
            both = [_success(trial, names, mains) for trial in trials]
            for side, trial in enumerate(trials):
                if (rate := both[side]) is not None:
                    rates[side].append(rate)
                if trial is not None:
                    judged[side] += 1
                    overloaded[side] += trial.verdict.server == "OVERLOADED"
            if both[0] is None or both[1] is None:
                continue
            differences[row, column] = both[1] - both[0]
            late = [timed_out(trial.metrics.get(names[trial.case])) for trial in trials if trial is not None]
            pairs += 1
            late_pairs += any(late)
            if late[0] != late[1]:
                beyond[late[1]] += 1
    found.success = tuple(float(np.mean(side)) if side else None for side in rates)  # type: ignore[assignment]
    found.success_differences = differences
    found.timed_out, found.timed_out_of, found.late_pairs = (beyond[0], beyond[1]), pairs, late_pairs
    found.overloaded, found.overloaded_of = (overloaded[0], overloaded[1]), (judged[0], judged[1])


def _success(trial: TrialResult | None, names: Mapping[str, str], mains: Mapping[str, str]) -> float | None:
    """The success rate of the metric's group; of a server's metric that of the main group."""
    if trial is None:
        return None
    group = names[trial.case].partition(".")[0]
    own = f"{group}.success_rate"
    return counts_of(trial, own if own in trial.metrics else f"{mains[trial.case]}.success_rate")


def _sides(
    found: Gathered, trials: Mapping[str, TrialResult], names: Mapping[str, str]
) -> tuple[list[list[float]], list[list[float]]]:
    """By matched case: the logarithms of baseline and of treatment, of pairs that count."""
    by_case: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for pair in found.evidence:
        both = [trials[name] for name in (pair.baseline, pair.treatment)]
        sides = by_case.setdefault((both[0].case, both[1].case), ([], []))
        for side, trial in zip(sides, both, strict=True):
            side.append(log(_value(trial, names)))
    return [one[0] for one in by_case.values()], [one[1] for one in by_case.values()]


def _value(trial: TrialResult, names: Mapping[str, str]) -> float:
    value = trial.metrics[names[trial.case]].value
    assert value is not None
    return value

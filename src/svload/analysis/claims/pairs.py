"""A contrast's pairs in the judged trials: which count, which do not and why, the units that they belong to,
what is judged whatever disturbed the times; and of one trial how it was made, and its number with and without
the generator's delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log, log1p
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.contrasts import Cell, Contrast
from svload.analysis.criteria import metric_of
from svload.model.metrics import is_timing
from svload.model.pairs import LostPair, PairRatio
from svload.model.results import Estimate, Grade, TrialResult
from svload.model.study import CaseConfig, Lock
from svload.study.check import owners_of

if TYPE_CHECKING:
    from svload.analysis.claims.turned import Turned
    from svload.store import TrialData

_SIGNS = np.array([-1.0, 1.0, 1.0, -1.0])
"""The sign with which each place of a cell enters its log ratio: baseline, treatment, and both at `by`'s
first level."""
Places = Mapping[tuple[str, int], TrialResult]


def gather(
    lock: Lock,
    contrast: Contrast,
    configs: Mapping[str, CaseConfig],
    trials: Sequence[TrialResult],
    made: Mapping[str, Made],
) -> Gathered:
    """Gather the contrast's pairs. A pair is two trials of one block; disturbances do not remove it."""
    cells, mixed = _same_load(contrast, configs, lock)
    names = names_of(cells, contrast, configs, lock)
    places = by_place({trial.trial: trial for trial in trials if trial.case in names})
    blocks = tuple(sorted({block for _, block in places}))
    found = Gathered(
        contrast, cells, blocks, mixed=mixed, percentile=percentile_of(next(iter(names.values()), ""))
    )
    _units(found, places, made, lock)
    shape = (len(cells), len(blocks))
    found.logs, found.clean = (np.full(shape, np.nan) for _ in range(2))
    found.after = np.full((*shape, 2), np.nan)
    found.broken = np.zeros(shape, dtype=bool)
    found.strangers = np.full((*shape, max(map(len, cells), default=2)), np.nan)
    found.trials = tuple([{} for _ in cells] for _ in range(2))
    order = started_order(trials, made)
    after = _follows(lock, contrast, order)
    begun = {trial.trial: place for place, trial in enumerate(order)}
    randomised = lock.measure.blocked
    for row, cell in enumerate(cells):
        for column, block in enumerate(blocks):
            numbers = [number_of(places.get((case, block)), case, names[case], randomised) for case in cell]
            if all(number.state == "number" for number in numbers):
                _count(found, row, column, numbers, begun, after)
            else:
                _lose(found, row, column, numbers)
    found.step = np.array([_step(found, row, names[cell[0]]) for row, cell in enumerate(cells)])
    found.unread = any(trial.unread for trial in places.values())
    _counts(found, places, names, {case: configs[case].main_group for case in names})
    return found


def names_of(
    cells: Sequence[Cell], contrast: Contrast, configs: Mapping[str, CaseConfig], lock: Lock
) -> dict[str, str]:
    """Return case → the full name of the number that the contrast compares."""
    owners, metric = owners_of(lock.source), contrast.comparison.metric
    return {case: str(metric_of(metric, configs[case], owners)) for cell in cells for case in cell}


def _follows(lock: Lock, contrast: Contrast, order: Sequence[TrialResult]) -> dict[str, float]:
    """Return trial → ½ where the treatment's level ran just before it, −½ where the baseline's did, else 0;
    without the first trial, since nothing ran before it."""
    comparison = contrast.comparison
    sides = {comparison.baseline: -0.5, contrast.treatment: 0.5}
    level = {case.name: sides.get(case.levels.get(comparison.factor, ""), 0.0) for case in lock.cases}
    return {after.trial: level.get(before.case, 0.0) for before, after in pairwise(order)}


def _same_load(
    contrast: Contrast, configs: Mapping[str, CaseConfig], lock: Lock
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """Return (cells with cases that all ran under one load model, cells that mix a closed loop with an open
    one)."""
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
    """Return the load model of the group that a metric belongs to; for a server's metric that of the main
    group."""
    owner = str(metric_of(metric, config, owners).owner).partition(".")[0]  # type: ignore[arg-type]
    groups = {group.name: group for group in config.groups}
    return str(groups.get(owner, groups[config.main_group]).executor.model)


def _units(found: Gathered, places: Places, made: Mapping[str, Made], lock: Lock) -> None:
    """Return the unit of each block: the block itself, or the bring-up where that is the unit (docs/method.md
    §2).

    Blocks that share a bring-up belong to the same bring-up.
    """
    joined = _Joined()
    plots: dict[int, list[int]] = {}
    for block in found.blocks:
        there = [
            one.whole_plot
            for case in found.contrast.cases
            if (trial := places.get((case, block))) is not None
            and (one := made.get(trial.trial)) is not None
            and one.whole_plot is not None
        ]
        plots[block] = there
        joined.join(there)
    known = all(plots.values()) and bool(plots)
    found.bring_ups = len({joined.of(there[0]) for there in plots.values()}) if known else 0
    independent = max(found.bring_ups, lock.measure.bring_ups)
    found.is_bring_up = known and (found.contrast.hard or unit_is_bring_up(independent, len(plots)))
    found.unit = tuple(joined.of(plots[block][0]) if found.is_bring_up else block for block in found.blocks)


def unit_is_bring_up(bring_ups: int, blocks: int) -> bool:
    """Return whether bring-ups are the unit of a factor that needs no restart: from six on, or where no two
    blocks share one."""
    return bring_ups >= min(limits.CLAIM_BRING_UPS, blocks)


class _Joined:
    """Linked bring-ups, each set named by its least number."""

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


def _count(
    found: Gathered,
    row: int,
    column: int,
    numbers: Sequence[Number],
    begun: Mapping[str, int],
    after: Mapping[str, float],
) -> None:
    signs = _SIGNS[: len(numbers)]
    ratio = float(signs @ [number.log for number in numbers])
    found.logs[row, column] = ratio
    found.clean[row, column] = ratio - float(signs @ [number.lag for number in numbers])
    found.strangers[row, column, : len(numbers)] = [
        np.nan if number.strangers is None else number.strangers for number in numbers
    ]
    if all(number.trial in after for number in numbers):
        found.after[row, column] = [after[number.trial] for number in numbers[:2]]
    for place, number in enumerate(numbers[:2]):
        found.trials[place][row][number.trial] = number.log
    baseline, treatment = numbers[:2]
    places = [begun.get(number.trial) for number in (baseline, treatment)]
    found.evidence.append(
        PairRatio(
            block=found.blocks[column],
            unit=found.unit[column],
            baseline=baseline.trial,
            treatment=treatment.trial,
            log_ratio=ratio,
            treatment_first=places[0] is not None and places[1] is not None and places[1] < places[0],
            strangers=max((one.strangers for one in numbers if one.strangers is not None), default=None),
            against=(numbers[2].trial, numbers[3].trial) if len(numbers) == 4 else None,
        )
    )


def _step(found: Gathered, row: int, name: str) -> float:
    """Return the relative step between a cell's possible values: a histogram's, or the least distance between
    values where some are equal."""
    logs = np.array([log for side in found.trials for log in side[row].values()])
    different = np.unique(np.round(logs, 9))
    seen = float(np.diff(different).min()) if 1 < len(different) < len(logs) else 0.0
    return max(seen, limits.LATTICE if is_timing(name) else 0.0)


def _lose(found: Gathered, row: int, column: int, numbers: Sequence[Number]) -> None:
    """Exclude a pair. One with a lost trial still enters every claim at the worst of the others."""
    bad = [[number for number in numbers[side::2] if number.state != "number"] for side in (0, 1)]
    states = {number.state for side in bad for number in side}
    why = "missing" if "missing" in states else "broken" if "lost" in states else "no number"
    found.broken[row, column] = why == "broken"
    wanted = {"missing": ("missing",), "broken": ("lost",), "no number": ("no number", "time-out")}[why]
    texts = [number for one in bad for number in one if number.state in wanted]
    found.lost.append(
        LostPair(
            block=found.blocks[column],
            baseline=numbers[0].case,
            treatment=numbers[1].case,
            side="both" if bad[0] and bad[1] else "baseline" if bad[0] else "treatment",
            why=why,  # type: ignore[arg-type]
            checks=tuple(dict.fromkeys(name for number in texts for name in number.checks)),
            trials=tuple(number.trial for number in numbers if number.trial),
            reason="; ".join(number.reason for number in texts),
        )
    )


def _counts(found: Gathered, places: Places, names: Mapping[str, str], mains: Mapping[str, str]) -> None:
    """Gather what is judged whatever disturbed the times: success, timeouts, overload."""
    differences = np.full((len(found.cells), len(found.blocks)), np.nan)
    rates: tuple[list[float], list[float]] = ([], [])
    beyond, pairs, late_pairs, overloaded, judged = [0, 0], 0, 0, [0, 0], [0, 0]
    requests: list[int] = []
    for row, cell in enumerate(found.cells):
        for column, block in enumerate(found.blocks):
            trials = [places.get((case, block)) for case in cell[:2]]
            both = [_success(trial, names, mains) for trial in trials]
            for side, trial in enumerate(trials):
                if (rate := both[side]) is not None:
                    rates[side].append(rate[0])
                    requests.append(rate[1])
                if trial is not None:
                    judged[side] += 1
                    overloaded[side] += trial.verdict.server == "OVERLOADED"
            if both[0] is None or both[1] is None:
                continue
            differences[row, column] = both[1][0] - both[0][0]
            late = [timed_out(trial.metrics.get(names[trial.case])) for trial in trials if trial is not None]
            pairs += 1
            late_pairs += any(late)
            if late[0] != late[1]:
                beyond[late[1]] += 1
    found.success = tuple(float(np.mean(side)) if side else None for side in rates)  # type: ignore[assignment]
    found.success_differences = differences
    found.requests = int(np.median(requests)) if requests else 0
    found.timed_out, found.timed_out_of, found.late_pairs = (beyond[0], beyond[1]), pairs, late_pairs
    found.overloaded, found.overloaded_of = (overloaded[0], overloaded[1]), (judged[0], judged[1])


def _success(
    trial: TrialResult | None, names: Mapping[str, str], mains: Mapping[str, str]
) -> tuple[float, int] | None:
    """Return (success rate, requests) of the metric's group; for a server's metric those of the main
    group."""
    if trial is None:
        return None
    group = names[trial.case].partition(".")[0]
    own = f"{group}.success_rate"
    name = own if own in trial.metrics else f"{mains[trial.case]}.success_rate"
    rate = counts_of(trial, name)
    return None if rate is None else (rate, trial.metrics[name].n)


def spread_of(found: Gathered) -> tuple[Floats, Floats]:
    """Return by side how far the logarithm of each trial lies from its case's mean."""
    sides = []
    for of_side in found.trials:
        logs = [np.array(list(of_case.values())) for of_case in of_side if of_case]
        sides.append(np.concatenate([one - one.mean() for one in logs]) if logs else np.zeros(0))
    return sides[0], sides[1]


State = Literal["number", "lost", "time-out", "no number", "missing"]


@dataclass(frozen=True)
class Number:
    """One side of a pair. `lag`: how much lower the logarithm is without the generator's own delays."""

    trial: str
    case: str
    state: State
    value: float | None = None
    lag: float = 0.0
    strangers: float | None = None
    checks: tuple[str, ...] = ()
    reason: str = ""

    @property
    def log(self) -> float:
        """The value's logarithm; only valid for a number."""
        assert self.value is not None
        return log(self.value)


def number_of(trial: TrialResult | None, case: str, name: str, randomised: bool) -> Number:
    """Return the number `name` of a trial; a missing one for None.

    What other programs did to a trial of randomised blocks never removes its pair: only what chance cannot
    explain (a clock that was set: missing), and what the treatment may have done (another case than its name
    says, a load that was not made: lost). Trials that ran as listed have no such protection: there a REFUSED
    number is lost.
    """
    if trial is None:
        return Number("", case, "missing", reason=f"no trial of {case}")
    estimate = trial.metrics.get(name)
    value = estimate.value if estimate is not None and estimate.value and estimate.value > 0 else None
    lost, missing = _failing(trial, name) if randomised else (_refusing(trial, name), ())
    if checks := lost or missing:
        text = f"{trial.trial} is {'broken' if lost else 'void'} ({checks[0]})"
        return Number(trial.trial, case, "lost" if lost else "missing", value, checks=checks, reason=text)
    if value is None:
        state: State = "time-out" if timed_out(estimate) else "no number"
        return Number(trial.trial, case, state, reason=f"{trial.trial}: {why_none(estimate)}")
    return Number(trial.trial, case, "number", value, _lag(trial, name), trial.strangers)


def _failing(trial: TrialResult, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (checks by which the number is lost, checks by which it is missing)."""
    from svload.analysis.checks import role_of

    refusing = [one.check for one in trial.verdict.checks if one.measured and one.on(name) == "REFUSED"]
    by_role = {role: tuple(one for one in refusing if role_of(one) == role) for role in ("lost", "missing")}
    return by_role["lost"], by_role["missing"]


def _refusing(trial: TrialResult, name: str) -> tuple[str, ...]:
    if grade_of(trial, name) != "REFUSED":
        return ()
    estimate = trial.metrics.get(name)
    if estimate is not None and estimate.belief is not None and estimate.belief.doubts:
        return estimate.belief.doubts
    return tuple(check.check for check in trial.verdict.checks if check.grade == "REFUSED") or ("verdict",)


def _lag(trial: TrialResult, name: str) -> float:
    """Return by how much the generator's own delays raise the number's logarithm; 0 where that is not
    known."""
    from svload.analysis.checks import role_of

    shares = [
        harm.below
        for check in trial.verdict.checks
        for harm in (check.harms if role_of(check.check) == "lag" else ())
        if harm.number == name and harm.below is not None and harm.below < 1
    ]
    return -log1p(-max(shares)) if shares else 0.0


def grade_of(trial: TrialResult, name: str) -> Grade:
    """Return the number's own grade; for a trial in which no number has one, the trial's."""
    estimate = trial.metrics.get(name)
    if any(one.belief is not None for one in trial.metrics.values()):
        return estimate.grade if estimate is not None else trial.verdict.instrument
    return trial.verdict.instrument


def percentile_of(name: str) -> float:
    """Return the percentile of a metric's full name as a share; for a mean or a rate, that of the median."""
    stat = name.rpartition(".p")[2]
    return float(stat) / 100 if stat.replace(".", "", 1).isdigit() else 0.5


def counts_of(trial: TrialResult, name: str) -> float | None:
    """Return a share or a count, which is judged whatever disturbed the times; None where it is null, or its
    trial lost."""
    estimate = trial.metrics.get(name)
    return None if estimate is None or any(_failing(trial, name)) else estimate.value


def timed_out(estimate: Estimate | None) -> bool:
    """Return whether too many requests failed for the number to lie within the timeout: worse than any
    number."""
    return estimate is not None and estimate.value is None and estimate.why in ("time-out", "not recovered")


def why_none(estimate: Estimate | None) -> str:
    if estimate is None:
        return "it was not measured"
    return estimate.reason if estimate.value is None else "its value is 0, which has no ratio"


def by_place(trials: Mapping[str, TrialResult]) -> dict[tuple[str, int], TrialResult]:
    """Return (case, block) → its first trial: repetitions by an older svload after a refused trial are left
    out, since they were chosen by what was measured."""
    found: dict[tuple[str, int], TrialResult] = {}
    for trial in sorted(trials.values(), key=lambda one: one.replicate):
        found.setdefault((trial.case, trial.block), trial)
    return found


Floats = NDArray[np.float64]


def _none() -> Floats:
    return np.empty((0, 0))


@dataclass
class Gathered:
    """Everything that the trials hold for one contrast, as arrays [cell, block].

    `logs`: the pairs' log ratios, NaN where there is none; `clean`: the same without the generator's delays;
    `broken`: pairs with a lost trial; `strangers` [cell, block, side]: the share of the machine that
    other programs had beside each trial, baselines and treatments in turn, NaN where it was not read; `after`
    [cell, block, side]: ½ where the treatment's level ran just before that trial, −½ where the baseline's
    did, NaN where that is not known; `step`: the relative step between the cell's possible values, 0 where
    none shows.
    """

    contrast: Contrast
    cells: tuple[Cell, ...] = ()
    blocks: tuple[int, ...] = ()
    unit: tuple[int, ...] = ()
    percentile: float = 0.5
    is_bring_up: bool = False
    bring_ups: int = 0
    evidence: list[PairRatio] = field(default_factory=list)
    lost: list[LostPair] = field(default_factory=list)
    logs: Floats = field(default_factory=_none)
    clean: Floats = field(default_factory=_none)
    broken: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), dtype=bool))
    strangers: Floats = field(default_factory=lambda: np.empty((0, 0, 2)))
    after: Floats = field(default_factory=lambda: np.empty((0, 0, 2)))
    step: Floats = field(default_factory=lambda: np.empty(0))
    trials: tuple[list[dict[str, float]], ...] = ([], [])
    success: tuple[float | None, float | None] = (None, None)
    success_differences: Floats = field(default_factory=_none)
    requests: int = 0
    unread: bool = False
    timed_out: tuple[int, int] = (0, 0)
    timed_out_of: int = 0
    late_pairs: int = 0
    overloaded: tuple[int, int] = (0, 0)
    overloaded_of: tuple[int, int] = (0, 0)
    mixed: tuple[str, ...] = ()

    @property
    def beyond(self) -> int:
        """1 where every pair has the treatment alone beyond the timeout, −1 the baseline alone, else 0; 0
        for an interaction, since the same may be true at the first level of `by`."""
        if self.contrast.by_levels:
            return 0
        early, late = self.timed_out
        whole = self.timed_out_of if self.timed_out_of == len(self.cells) * len(self.blocks) else 0
        return 1 if whole and late == whole else -1 if whole and early == whole else 0

    @property
    def units(self) -> int:
        """Independent units with at least one of its trials."""
        return len(set(self.unit))

    @property
    def no_number(self) -> str:
        """Why there is no pair at all, where no trial has a number."""
        return next((one.reason for one in self.lost), "no two of its cases were part of this run")


T = TypeVar("T")
R = TypeVar("R")
Known = dict[tuple[str, str], Any]
"""What was found of sealed trials, which never change, by what it is and the trial's name."""


class Each(Protocol):
    """The way to apply a function to all items: results in their order, exceptions as in a loop."""

    def __call__(self, function: Callable[[T], R], items: Sequence[T], /) -> list[R]:
        """Apply `function` to every item."""


def in_turn(function: Callable[[T], R], items: Sequence[T], /) -> list[R]:
    """Apply `function` to every item, as `Each`."""
    return [function(item) for item in items]


def once(known: Known, what: str, trial: TrialData, find: Callable[[TrialData], T]) -> T:
    """Return what `find` returns for a trial, whose tables are in memory only that long; a second time from
    `known`."""
    key = (what, trial.summary.trial)
    if key not in known:
        known[key] = find(trial.unread())
    found: T = known[key]
    return found


@dataclass(frozen=True)
class Made:
    """How a trial was made. `whole_plot`: its bring-up; None where that is not known. `turned`: by a number's
    full name; empty where it took no turns."""

    whole_plot: int | None = None
    started_s: float = 0.0
    turned: Mapping[str, Turned] = field(default_factory=dict)


def started_order(trials: Sequence[TrialResult], made: Mapping[str, Made]) -> list[TrialResult]:
    """Return the trials in the order they began; empty where that is not known."""
    if any(trial.trial not in made for trial in trials):
        return []
    begun = sorted(trials, key=lambda trial: made[trial.trial].started_s)
    return [] if len({made[trial.trial].started_s for trial in begun}) < len(begun) else begun


def seconds_a_trial(
    trials: Sequence[TrialResult], made: Mapping[str, Made], in_turns: bool = False
) -> float | None:
    """Return the usual time from one trial's begin to the next one's; the trials of a block that take turns
    share its time equally. None where it is not known."""
    known = [(trial, made[trial.trial]) for trial in trials if trial.trial in made]
    begun: dict[str | int, float] = {}
    for trial, how in known:
        together = trial.block if in_turns else trial.trial
        begun[together] = min(how.started_s, begun.get(together, how.started_s))
    gaps = sorted(after - before for before, after in pairwise(sorted(begun.values())))
    middle = gaps[len(gaps) // 2] * len(begun) / len(known) if gaps else 0.0
    return middle if middle > 0 else None

"""How far each number of a trial can be off, by counting the requests that disturbances touched
(docs/method.md §3, *Counting*).

A disturbance touches those due from L before it (L: the 99th percentile of the time in flight, longer
ones added) until the requests in flight are back at their level for one mean cycle. If k of n are
touched, whatever they would have been, the true quantile lies between the ranks ⌈pn⌉ − k and ⌈pn⌉ of
the other n − k. A disturbance before the kept window counts where it is still felt in it. Without a recovery all requests up to the window's end are touched: whatever these
would have been, the count holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.disturbances import (
    Disturbance,
    Found,
    Spans,
    disturbances_of,
    short_gaps,
    spans,
    united,
)
from svload.analysis.goodput import due_within
from svload.analysis.measures import GroupMeasures, Population
from svload.analysis.quantiles import Floats, nearest_rank, ranked_counts
from svload.analysis.view import GroupView, Window, steps_of
from svload.model.metrics import is_timing, metric_name, without_limit
from svload.model.results import Estimate, Grade, Harm

if TYPE_CHECKING:
    from svload.store import TrialData

_LEAST_STEP_NS = 1_000_000
_MOST_STEPS = 60_000
_MOST_LEVELS = 30
_LEVEL = 1.02
"""Requests in flight are back at their level where their mean is at most this times it: counts are whole numbers."""
_OWN = ("generator_lag",)
"""The instrument's own figures: a disturbance is in them, and harms nothing."""
_RATES = ("throughput", "ok_throughput")
_GOODPUT = "goodput"
_EXTREMES = {"min": 0.0, "max": 1.0}
_ANSWERS = ("response", "ok_response", "service", "server_time")
_HIGH = ("p99", "p99.9")
"""The percentiles that stops of milliseconds can reach first."""
_TABLE = {"run-queue": limits.RUN_QUEUE, "steal": limits.STEAL, "others-cpu": limits.OTHERS_CPU}


class Bound(NamedTuple):
    """How far a number may be off, as shares of it; None: nobody knows how far."""

    below: float | None
    above: float | None

    @property
    def grade(self) -> Grade:
        """By the larger distance."""
        if self.below is None or self.above is None:
            return "REFUSED"
        weak, refused = limits.COUNTED
        worst = max(self.below, self.above)
        return "REFUSED" if worst > refused else "WEAK" if worst > weak else "VALID"


@dataclass(frozen=True)
class Load:
    """A group's requests in flight over the whole load: their number at the end of each step, and
    what a disturbance is measured by."""

    step_ns: float
    in_flight: Floats
    due_ns: Floats | None
    """of each request, ascending; None where there are histograms alone"""
    done_ns: Floats | None
    due_by: Floats
    """requests due up to the end of each step"""
    longest_ns: float
    """L"""
    cycle_ns: float

    def touched(self, moments: Spans, window: Window) -> tuple[list[tuple[float, float]], int]:
        """(spans in which whoever is due is touched, how many more were in flight from before them)."""
        if not moments or not len(self.in_flight):
            return [], 0
        found = self._recovered(moments, window)
        before = sum(self._from_before(begin + self.longest_ns) for begin, _ in united(found))
        return united(found, window), before

    def felt(self, moments: Sequence[Disturbance], window: Window) -> list[bool]:
        """For each moment whether what it left behind reaches into the window."""
        if not moments or not len(self.in_flight):
            return [False] * len(moments)
        return [end > window.low_ns for _, end in self._recovered(spans(moments), window)]

    def carried(self, moments: Spans, window: Window) -> float:
        """How many requests more than the level are in flight when the window begins."""
        at = int(window.low_ns // self.step_ns) - 1
        if not moments or not 0 <= at < len(self.in_flight):
            return 0.0
        return max(
            float(self.in_flight[at]) - self._level(united(self._recovered(moments, window)), window), 0.0
        )

    def _recovered(self, moments: Spans, window: Window) -> list[tuple[float, float]]:
        """From L before each moment until the requests in flight are back at their level. The first level still
        holds the aftermath, so it is taken anew until it stands.
        """
        found = [(begin - self.longest_ns, end + self.cycle_ns) for begin, end in moments]
        for _ in range(_MOST_LEVELS):
            before, found = found, self._until_recovered(moments, self._level(united(found), window))
            if found == before:
                break
        return found

    def _level(self, outside: Spans, window: Window) -> float:
        """The mean in flight over the undisturbed part of the window; where there is none, the least of any cycle."""
        ends = (np.arange(len(self.in_flight)) + 1) * self.step_ns
        quiet = (ends > window.low_ns) & (ends <= window.high_ns)
        for begin, end in outside:
            last = min(end, float(ends[-1]))  # one without a recovery has no end
            quiet[max(int(begin // self.step_ns), 0) : max(int(last // self.step_ns) + 1, 0)] = False
        if quiet.any():
            return float(self.in_flight[quiet].mean())
        return float(self._over_a_cycle.min(initial=0.0))

    @cached_property
    def _over_a_cycle(self) -> Floats:
        """The mean in flight over the cycle that ends with each step."""
        width = max(int(np.ceil(self.cycle_ns / self.step_ns)), 1)
        summed = np.concatenate([[0.0], np.cumsum(self.in_flight)])
        ends = np.arange(1, len(summed))
        begins = np.maximum(ends - width, 0)
        found: Floats = (summed[ends] - summed[begins]) / np.maximum(ends - begins, 1)
        return found

    def _until_recovered(self, moments: Spans, level: float) -> list[tuple[float, float]]:
        back = np.flatnonzero(self._over_a_cycle <= _LEVEL * level + 1e-9)
        found = []
        for begin, end in moments:
            # The first whole cycle after the end.
            first = int(np.ceil((end + self.cycle_ns) / self.step_ns)) - 1
            at = int(np.searchsorted(back, first))
            recovered = float((back[at] + 1) * self.step_ns) if at < len(back) else float("inf")
            found.append((begin - self.longest_ns, recovered))
        return found

    def _from_before(self, begin_ns: float) -> int:
        """Requests in flight at a disturbance's begin that were due more than L before it."""
        early_ns = begin_ns - self.longest_ns
        if self.due_ns is not None and self.done_ns is not None:
            due = int(np.searchsorted(self.due_ns, early_ns))
            return int(np.count_nonzero(self.done_ns[:due] > begin_ns))
        at, before = int(begin_ns // self.step_ns), int(max(early_ns, 0) // self.step_ns)
        if not 0 < at <= len(self.in_flight):
            return 0
        since = self.due_by[at - 1] - (self.due_by[before - 1] if before else 0.0)
        return max(int(self.in_flight[at - 1] - since), 0)


def load_of(trial: TrialData, group: GroupView) -> Load:
    """A group's requests in flight, from its rows where it has them, else interval by interval."""
    window = group.window
    if group.rows is None:
        return _of_intervals(trial, group)
    mine = np.flatnonzero(trial.samples["group"] == group.index)
    due = trial.samples["due_ns"][mine].astype(float)
    done = trial.samples["done_ns"][mine].astype(float)
    order = np.argsort(due, kind="stable")
    due, done = due[order], np.where(done[order] < 0, np.inf, done[order])
    spent = (done - due)[np.isfinite(done)]
    longest = float(np.quantile(spent, 0.99)) if len(spent) else float(window.interval_ns)
    cycle = _cycle_ns(group, float(spent.mean()) if len(spent) else 0.0)
    step = max(min(cycle / 4, window.interval_ns), _LEAST_STEP_NS, window.high_ns / _MOST_STEPS)
    steps = int(np.ceil(max(window.high_ns, 1) / step)) + 1
    edges = (np.arange(steps) + 1) * step
    due_by = np.searchsorted(due, edges).astype(float)
    in_flight: Floats = due_by - np.searchsorted(np.sort(done), edges).astype(float)
    return Load(step, in_flight, due, done, due_by, longest, cycle)


def _of_intervals(trial: TrialData, group: GroupView) -> Load:
    table, step = trial.intervals, float(group.window.interval_ns)
    mine = table["group"] == group.index
    at = table["interval"][mine].astype(np.int64)
    size = max(int(at.max(initial=0)) + 1, group.window.last)

    def total(*names: str) -> Floats:
        cells = sum(table[name][mine].astype(float) for name in names)
        return np.cumsum(np.bincount(at, weights=cells, minlength=size))

    due = total("due") - total("dropped")
    in_flight = due - total("completed_ok", "completed_failed")
    counts = group.histogram("response")
    longest = ranked_counts(counts).quantile(0.99) if counts.any() else None
    inside = in_flight[group.window.first : group.window.last]
    done = float((group.intervals["completed_ok"] + group.intervals["completed_failed"]).sum())
    # Little's law: the mean time in flight.
    spent = float(inside.sum()) * step / done if done and len(inside) else 0.0
    return Load(step, in_flight, None, None, due, longest or step, _cycle_ns(group, spent))


def _cycle_ns(group: GroupView, spent_ns: float) -> float:
    """A request's mean time in flight; of a closed loop with its user's think time."""
    begun = max(group.summary.begun, 1)
    return max(spent_ns + (group.summary.think_ns / begun if group.closed else 0.0), 1.0)


class Counting:
    """What the disturbances of one trial can have done to each of its numbers."""

    def __init__(
        self,
        trial: TrialData,
        window: Window,
        groups: Sequence[GroupView],
        metrics: Mapping[str, Estimate],
    ) -> None:
        self.window = window
        self._trial, self.groups, self._metrics = trial, tuple(groups), metrics
        self._loads: dict[str, Load] = {}
        self.found = self._felt(disturbances_of(trial.monitors, window))
        self._without: dict[tuple[str, int], tuple[GroupMeasures, int, float]] = {}

    def _felt(self, found: Found) -> Found:
        """Without what was over, and worked off, before the window began."""
        early = [one for one in found.moments if one.end_ns <= self.window.low_ns]
        if not early:
            return found
        felt = [self._load(group).felt(early, self.window) for group in self.groups]
        over = {id(one) for one, some in zip(early, zip(*felt, strict=True), strict=False) if not any(some)}
        over |= set() if felt else {id(one) for one in early}
        return replace(found, moments=tuple(one for one in found.moments if id(one) not in over))

    @cached_property
    def by_check(self) -> Mapping[str, tuple[Harm, ...]]:
        """By check: the numbers that it harms, or that it only bounds. Overlapping moments of several are counted once.

        The bound is told by the check that touched most, and by another that touched half as many.
        """
        checks = list(dict.fromkeys(one.check for one in self.found.moments))
        if not checks:
            return self._of_rest()
        touched = {
            check: sum(self._touched(one, self.found.of(check)) for one in self.groups) for check in checks
        }
        most = max(touched.values())
        harms = [_harm(*one) for group in self.groups for one in self._of_group(group)]
        harms = [
            *(one for one in harms if one.grade != "VALID" or one.below or one.above),
            *self._of_window(),
        ]
        return {check: self._table(check, harms) for check, count in touched.items() if 2 * count >= most}

    @cached_property
    def by_short_gaps(self) -> tuple[Harm, ...]:
        """Percentiles from p99 on that gaps of at most 5 ms can have put off: WEAK where those above a tenth of the
        number touched, with the longer ones, as many requests as lie above it.

        A witness tells the longest gap of each look alone, and not where in it: so this counts one a look, from L
        before it to a mean cycle after it, and by how much the number is off nobody knows.
        """
        short = short_gaps(self._trial.monitors, self.window)
        found = []
        for whole in self.groups if short else ():
            load, felt = self._load(whole), self.aftermath(whole, self.found.moments)
            for group in self.with_steps(whole):
                for name in (f"{group.name}.{metric}.{stat}" for metric in _ANSWERS for stat in _HIGH):
                    estimate = self._metrics.get(name)
                    if estimate is None or not estimate.value:
                        continue
                    near = [
                        (one.begin_ns - load.longest_ns, one.end_ns + load.cycle_ns)
                        for one in short
                        if one.lost_s > limits.HICCUP * estimate.value
                    ]
                    touched = _due_in(group, united([*felt, *near], self.window)) if near else 0.0
                    if touched > estimate.n - nearest_rank(_p(_metric_and_stat(name)[1]), estimate.n):
                        found.append(Harm(number=name, grade="WEAK", below=None, above=None))
        return tuple(found)

    def _table(self, check: str, harms: Iterable[Harm]) -> tuple[Harm, ...]:
        """What is not local in time the table's limits judge: by how much of its own moments it takes."""
        if check not in _TABLE or self.found.share(check, self.window) <= limits.LEFT_OUT:
            return tuple(harms)
        weak, refused = _TABLE[check]
        within = self.found.within(check)
        grade: Grade = "REFUSED" if within > refused else "WEAK" if within > weak else "VALID"
        return tuple(
            Harm(number=one.number, grade=grade, below=None, above=None)
            if one.grade == "REFUSED" and grade != "REFUSED"
            else one
            for one in harms
        )

    def _of_rest(self) -> dict[str, tuple[Harm, ...]]:
        """Nothing but what lies below the limits: told by the check that has most of it."""
        rest = self.found.rest
        check = max(rest, key=lambda one: rest[one], default="")
        return {check: tuple(self._of_window())} if rest.get(check) else {}

    def _of_window(self) -> Iterator[Harm]:
        """Means, rates and CPU: by the time that was lost, and by what remains below the limits."""
        rest = max(self.found.rest.values(), default=0.0)
        share = self.found.lost_within(self.window) / max(self.window.seconds, 1e-9) + rest
        found = united(spans(self.found.moments), self.window)
        longest_s = max((end - begin for begin, end in found), default=0.0) / 1e9
        for number, estimate in self._metrics.items():
            metric, stat = _metric_and_stat(number)
            if not is_timing(number) or estimate.value is None or not (estimate.value or metric in _RATES):
                continue
            carried = self._carried(number) if metric in _RATES else 0.0
            if not share and not carried:
                continue
            if metric in _RATES or metric == "cpu":
                # Of the whole window's rate a share was lost: that much of the truth, and more of what is left of it.
                yield _harm(
                    number, Bound(min(share + carried, 1.0), share / (1 - share) if share < 1 else None)
                )
            elif metric == "longest_silence" and longest_s:
                yield _harm(number, Bound(min(longest_s / estimate.value, 1.0), 0.0))
            elif stat == "mean" and metric not in _OWN and rest:
                yield Harm(number=number, grade="VALID", below=rest, above=rest)

    def _carried(self, number: str) -> float:
        """What queued before the window and was answered in it, as a share of all that was."""
        early = [one for one in self.found.moments if one.begin_ns < self.window.low_ns]
        for group in self.groups if early else ():
            done = (number.startswith(f"{group.name}.") and self._done(group)) or 0
            if done:
                return self._load(group).carried(united(spans(early)), self.window) / done
        return 0.0

    @staticmethod
    def _done(group: GroupView) -> int:
        return int((group.intervals["completed_ok"] + group.intervals["completed_failed"]).sum())

    def _of_group(self, whole: GroupView) -> Iterator[tuple[str, Bound]]:
        for group in self.with_steps(whole):
            head = f"{group.name}."
            measures = GroupMeasures(group)
            for number, estimate in self._metrics.items():
                if not number.startswith(head):
                    continue
                metric, _, stat = number.removeprefix(head).partition(".")
                if without_limit(metric) == _GOODPUT and estimate.value is not None:
                    yield number, self._of_goodput(whole, group, metric)
                if not stat or metric in _OWN or not is_timing(number) or "." in stat.replace("99.9", ""):
                    continue
                if estimate.value is None and estimate.why not in ("too few", "time-out"):
                    continue
                population = measures.population(metric)
                if population is not None and population.ranked.total:
                    yield number, self._bound(whole, group, metric, stat, population)

    def _bound(
        self, whole: GroupView, group: GroupView, metric: str, stat: str, population: Population
    ) -> Bound:
        moments = self.found.moments
        bound = self._counted(whole, group, metric, stat, population, moments)
        if bound.grade != "VALID" and stat != "mean":
            bound = self._with_short_apart(whole, group, metric, stat, population, bound)
        return min(bound, self._delayed(population, stat), key=_worst) if whole.closed else bound

    def _with_short_apart(
        self, whole: GroupView, group: GroupView, metric: str, stat: str, population: Population, bound: Bound
    ) -> Bound:
        """What stood still for less than a tenth of a number puts it off by no more than it stood:
        that, and the longer ones counted.
        """
        moments = self.found.moments
        value_s = (_quantile(population, stat) or 0.0) * 1e-9
        longer = tuple(one for one in moments if not one.gap or one.lost_s > limits.HICCUP * value_s)
        if not value_s or len(longer) == len(moments):
            return bound
        counted = self._counted(whole, group, metric, stat, population, longer)
        short = (
            self._delay_s(
                whole, [one for one in moments if one.gap and one.lost_s <= limits.HICCUP * value_s]
            )
            / value_s
        )
        return Bound(_least(bound.below, counted.below, short), _least(bound.above, counted.above, short))

    def _delay_s(self, whole: GroupView, short: Sequence[Disturbance]) -> float:
        """By how much these stops can have delayed any request: one of the load by its own length, since
        requests that begin later by at most that end later by at most that; what cores lost to the hypervisor
        adds up until the requests in flight have recovered.
        """
        own = max((one.lost_s for one in short if one.check != "steal"), default=0.0)
        stolen = [one for one in short if one.check == "steal"]
        stretches, _ = self._load(whole).touched(united(spans(stolen)), self.window)
        lost = (
            sum(one.lost_s for one in stolen if begin < one.end_ns and one.begin_ns < end)
            for begin, end in stretches
        )
        return max(own, max(lost, default=0.0))

    def _delayed(self, population: Population, stat: str) -> Bound:
        """Each request off by all the time that any thread or core lost: in a closed loop who
        stands still asks no more meanwhile."""
        value_ns = _mean(population) if stat == "mean" else _quantile(population, stat)
        if not value_ns:
            return Bound(None, None)
        share = self.found.lost_s * 1e9 / value_ns
        return Bound(min(share, 1.0), share)

    def _of_goodput(self, whole: GroupView, group: GroupView, metric: str) -> Bound:
        """Each touched request may have been within the limit, or not; users of a closed loop ask
        less in the time that was lost.
        """
        measures, before, _ = self._others(whole, group, self.found.moments)
        others = measures.group
        within, left = due_within(group, metric), due_within(others, metric)
        k = min(group.due - others.due + before, group.due)
        if not k:
            return Bound(0.0, 0.0)
        if not within:
            return Bound(0.0, None)
        unasked = (
            self.found.lost_within(self.window) / max(self.window.seconds, 1e-9) if whole.closed else 0.0
        )
        below, above = min(within - left + before, within), max(left + k - within, 0)
        return Bound(below / within, above / within + unasked)

    def _counted(
        self,
        whole: GroupView,
        group: GroupView,
        metric: str,
        stat: str,
        population: Population,
        moments: tuple[Disturbance, ...],
    ) -> Bound:
        measures, before, longest_ns = self._others(whole, group, moments)
        others = measures.population(metric)
        n = population.ranked.total
        left = others.ranked.total if others is not None else 0
        k = min(n - left + before, n)
        if not k:
            return Bound(0.0, 0.0)
        if others is None or not left:
            return Bound(None, None)
        if stat == "mean":
            return _of_mean(population, others, k, longest_ns)
        return _of_rank(population, others, stat, k, before)

    def _others(
        self, whole: GroupView, group: GroupView, moments: tuple[Disturbance, ...]
    ) -> tuple[GroupMeasures, int, float]:
        """The group without whom these moments touched, how many more they may have
        touched, and their longest stretch."""
        key = (group.name, len(moments))  # some are left away in the order of their length alone
        if key not in self._without:
            touched, before = self._load(whole).touched(united(spans(moments)), self.window)
            longest = max((end - begin for begin, end in touched), default=0.0)
            self._without[key] = GroupMeasures(group.without(touched)), before, longest
        return self._without[key]

    def with_steps(self, whole: GroupView) -> tuple[GroupView, ...]:
        """The group, and each step of its scenarios as a group."""
        return (whole, *steps_of(self._trial, whole))

    def aftermath(self, whole: GroupView, moments: Sequence[Disturbance]) -> Spans:
        """The spans of the window in which whoever is due is touched by these moments."""
        return self._load(whole).touched(united(spans(moments)), self.window)[0]

    def still_touched(self, whole: GroupView, group: GroupView, metric: str, stat: str) -> Bound:
        """How far a number of `group`, from which requests were left out already, may
        be off for those that were not."""
        touched, before = self._load(whole).touched(united(spans(self.found.moments)), self.window)
        population = GroupMeasures(group).population(metric)
        others = GroupMeasures(group.without(touched)).population(metric)
        if population is None or others is None or not others.ranked.total:
            return Bound(None, None)
        k = min(population.ranked.total - others.ranked.total + before, population.ranked.total)
        if stat == "mean":
            longest = max((end - begin for begin, end in touched), default=0.0)
            return _of_mean(population, others, k, longest)
        return _of_rank(population, others, stat, k, before)

    def _touched(self, group: GroupView, moments: Sequence[Disturbance]) -> int:
        touched, before = self._load(group).touched(united(spans(moments)), self.window)
        return group.due - group.without(touched).due + before

    def _load(self, group: GroupView) -> Load:
        if group.name not in self._loads:
            self._loads[group.name] = load_of(self._trial, group)
        return self._loads[group.name]


def _due_in(group: GroupView, touched: Spans) -> float:
    """Requests due in these spans of the window, as if evenly within each interval."""
    edges = group.window.low_ns + group.window.interval_ns * np.arange(group.window.size + 1, dtype=float)
    due_by = np.concatenate([[0.0], np.cumsum(group.intervals["due"].astype(float))])
    begins, ends = (np.array(side, dtype=float) for side in zip(*touched, strict=True))
    return float(np.sum(np.interp(ends, edges, due_by) - np.interp(begins, edges, due_by)))


def _worst(bound: Bound) -> float:
    below, above = bound
    return float("inf") if below is None or above is None else max(below, above)


def _least(all_of_them: float | None, longer: float | None, short: float) -> float | None:
    """The smaller of two bounds: of all moments together, and of the longer ones with what short ones delay."""
    if longer is None:
        return all_of_them
    return longer + short if all_of_them is None else min(all_of_them, longer + short)


def _harm(number: str, bound: Bound) -> Harm:
    return Harm(number=number, grade=bound.grade, below=bound.below, above=bound.above)


def _metric_and_stat(number: str) -> tuple[str, str]:
    metric = metric_name(number)
    return metric, number.partition(f".{metric}.")[2]


def _p(stat: str) -> float:
    return _EXTREMES[stat] if stat in _EXTREMES else float(stat[1:]) / 100


def _quantile(population: Population, stat: str) -> float | None:
    value = population.ranked.quantile(_p(stat))
    return None if value is None else value * population.scale * 1e9


def _mean(population: Population) -> float:
    return float(np.sum(population.sums()[0])) / population.ranked.total * population.scale * 1e9


def _of_rank(population: Population, others: Population, stat: str, k: int, before: int) -> Bound:
    """The quantile against the ranks between which it can truly lie; `before` of the k
    touched are still among the others."""
    ranked, left = population.ranked, others.ranked
    rank = max(nearest_rank(_p(stat), ranked.total), 1)
    value = ranked.at_rank(rank)
    low = left.at_rank(rank - k) if rank - k >= 1 else 0.0
    enough = rank <= ranked.total - k
    high = left.at_rank(rank + before) if enough else None
    if value is None:  # beyond the time-out: sure where it is so of the others, too
        return Bound(0.0, 0.0) if low is None and enough else Bound(None, None)
    if low is None or not enough or high is None:
        below = max(value - low, 0.0) / value if low is not None and value > 0 else None
        return Bound(below, None)
    if value <= 0:
        return Bound(0.0, 0.0) if high <= 0 else Bound(0.0, None)
    return Bound(max(value - low, 0.0) / value, max(high - value, 0.0) / value)


def _of_mean(population: Population, others: Population, k: int, longest_ns: float) -> Bound:
    """The mean if each touched request were off by what it can be: to 0 below; above to the limit, or by the
    stretch in which all that differs ends."""
    total, rest = (float(np.sum(one.sums()[0])) for one in (population, others))
    if total <= 0:
        return Bound(None, None)
    touched = max(total - rest, 0.0)
    return Bound(min(touched, k * longest_ns) / total, k * longest_ns / total)


def worst_of(harms: Iterable[Harm]) -> Grade:
    """The worst grade of any number."""
    grades = {harm.grade for harm in harms}
    return "REFUSED" if "REFUSED" in grades else "WEAK" if "WEAK" in grades else "VALID"


def effect(harms: Sequence[Harm]) -> str:
    """Which numbers are doubted and by how much they may be off, as a sentence."""
    told = []
    for grade, verb in (("REFUSED", "refuses"), ("WEAK", "weakens")):
        mine = sorted(harm.number for harm in harms if harm.grade == grade)
        if mine:
            first = min(mine, key=_central)
            more = f" and {len(mine) - 1} more" if len(mine) > 1 else ""
            told.append(f"{verb} {first}{_by(next(one for one in harms if one.number == first))}{more}")
    return f"It {' and '.join(told)}." if told else "No number shown is off by more than 5 % for it."


def _central(number: str) -> tuple[int, str]:
    """What readers ask for first: medians, then means and rates, then tails."""
    metric, stat = _metric_and_stat(number)
    stats = ("p50", "mean", "", "p90", "p75", "p95", "p99", "p99.9", "max", "min")
    return (0 if metric == "response" else 20) + stats.index(stat) if stat in stats else 40, number


def _by(harm: Harm) -> str:
    if harm.below is None or harm.above is None:
        return ""
    most = max(harm.below, harm.above)
    return f" (off by up to {100 * most:.2g} %)" if most <= 1 else " (it may be wrong by more than 100 %)"

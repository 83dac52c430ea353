"""The possible error of each number of a trial due to disturbances of the machine (docs/method.md §3,
*Ranges*).

The readings give a request's mean delay: how long the servers' threads waited for a core in each interval,
handed on to the requests behind in proportion to the core's use, and how long the whole machine stood still.
This delay over the mean time in flight is an index z. A number is then taken to be at most 1 + k·z times its
undisturbed value; k was fitted for each statistic on planted disturbances (`limits.PUSHED`) and is frozen.

Where that is wide, and enough requests were due while nothing disturbed the machine, their statistic is the
bound. The readings decide which requests these are, never the responses. With a share f of the requests left
out it misses the statistic of all by the scatter that f leaves (`limits.CALM_REACH` standard errors), and the
others can at most all have been fastest.

Users of closed loops wait for their responses, so nothing piles up behind a delay: without the time that was
taken from the servers, the same requests would have ended at most that much earlier. So much of the mean
cycle, and of the requests below a percentile, it can be at most: a bound where servers are full, which z has not.

In an open loop something does: servers that keep up by themselves may have a growing backlog while others take
their time. Without that they would have completed at most 1/(1 − taken) times as much; where that is enough for
what was due, how much faster they would have been is unknown.

Delays of the load's own threads are known request by request (`generator-harm`), and are not included here;
in a closed loop they mean load that was not made, so a number may lie higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.disturbances import Disturbance, Found, disturbances_of, foreign_here, unread, within
from svload.analysis.measures import GroupMeasures, due_within
from svload.analysis.quantiles import least_quantile, moments
from svload.analysis.readings import Floats, Series, mean_rate, of_monitor, readings_of
from svload.analysis.series import backlog_grows, backlog_growth
from svload.analysis.view import GroupView, Window, steps_of
from svload.model.executors import ClosedLoop
from svload.model.metrics import limit_of, metric_name
from svload.model.results import Estimate, Grade, Harm
from svload.model.study import CaseConfig
from svload.model.units import show_percent
from svload.store import TrialData

_TIMES = ("response", "ok_response", "service", "server_time", "starttransfer", "total")
_RATES = ("throughput", "ok_throughput")
_QUANTILES = (0.5, 0.9, 0.95, 0.99)


class Lost(NamedTuple):
    """What the servers of a trial lost to disturbances in its window."""

    handed_on_s: Floats
    """time that their threads waited for a core in each interval, and what that cost the requests queued
    behind"""
    stopped: float
    """share of the window in which the machine stood still, and what that cost the queued requests"""
    stops_s: float
    """mean delay of a request that arrives at any moment, by these stops alone"""
    taken: float
    """share of the window in which other programs or a stop can have kept a request from going on"""
    strangers: float
    """share of all cores that other processes had"""
    disturbed: NDArray[np.bool_]
    """the intervals in which other programs, steal or a gap took a core, or the queue behind one may still be
    there"""


class Ranges:
    """What the disturbances of one trial can have done to each of its numbers."""

    def __init__(
        self,
        trial: TrialData,
        config: CaseConfig,
        window: Window,
        groups: Sequence[GroupView],
        metrics: Mapping[str, Estimate],
    ) -> None:
        self.window, self.groups = window, tuple(groups)
        self._trial, self._config, self._metrics = trial, config, metrics
        self.found: Found = disturbances_of(trial.monitors, window)

    @cached_property
    def lost(self) -> Lost | None:
        """What the servers lost, from this machine's monitors; None where other programs could not be
        identified."""
        monitors, length_s = self._trial.monitors, max(self.window.seconds, 1e-9)
        others = of_monitor(monitors, "others", "cpu_seconds_total").get("")
        if others is None or (foreign := mean_rate(others, self.window)) is None:
            return None
        cores = max(len(of_monitor(monitors, "host", "busy_seconds_total")), 1)
        edges = np.linspace(self.window.low_ns, self.window.high_ns, max(self.window.size, 1) + 1)
        apart_s = length_s / (len(edges) - 1)
        # Below this share one of the cores concerned is free for waiting threads.
        beside = (
            1
            if of_monitor(monitors, "others", "concerned_seconds_total")
            else cores / min(cores, limits.CORES_CONCERNED)
        )
        taken = _grown(foreign_here(monitors, cores).values(), edges) / apart_s * beside - limits.OTHERS_CPU
        waits_s, used_s = self._servers(edges, others)
        # Threads also wait for one another: other programs caused no more of it than their share of the
        # cores.
        waits_s = (
            np.maximum(taken, 0.0) * apart_s
            if waits_s is None
            else np.minimum(waits_s, limits.WAITING * _grown([others], edges))
        )
        used = used_s / apart_s / max(ceil(float(used_s.sum()) / length_s), 1)
        use = float(used.mean())
        stops_s, squares, somewhere_s = self._stops(cores, edges)
        stopped = min(float(stops_s.sum()) / length_s, 1.0)
        behind = 1 / (1 - min(use + stopped, limits.MOST_HANDED_ON))
        # Of the time that the servers wanted the core, this part went to others. CPU is counted in ticks: a
        # reading may show none of it.
        without = waits_s / np.maximum(waits_s + np.maximum(used, use / 2) * apart_s, 1e-12)
        clogged, emptying = (
            _owed((taken_up - 1 + without) * apart_s + stops_s) > 1e-6
            for taken_up in (use, max(use, limits.CALM_USE))
        )
        handed_on_s = waits_s / (1 - np.minimum(used + waits_s / apart_s, limits.MOST_HANDED_ON))
        return Lost(
            handed_on_s if clogged.mean() < limits.CLOGGED else np.full_like(handed_on_s, np.inf),
            stopped * behind,
            squares / 2 / length_s * behind,
            min(min(float(waits_s.sum()) / length_s, foreign) + somewhere_s / length_s, 1.0),
            min(foreign / cores, 1.0),
            (taken > 0) | (stops_s > 0) | emptying,
        )

    def overloads(self, group: GroupView) -> bool:
        """Return whether a group's backlog grows, and would have grown without what was taken, too."""
        return backlog_grows(group) and self.unsure_overload(group) is None

    def unsure_overload(self, group: GroupView) -> float | None:
        """Return which share of the time was taken from the servers, if a group's backlog grows and might not
        have grown otherwise; else None."""
        if self.lost is None or not backlog_grows(group):
            return None
        completed, taken = 1 - min(backlog_growth(group)), self.lost.taken
        return taken if completed >= (1 - limits.BACKLOG) * (1 - taken) else None

    def _servers(self, edges: Floats, others: Series) -> tuple[Floats | None, Floats]:
        """Return (time that the servers' threads waited for a core in each interval, None where it was not
        read; their CPU). Waits are read less often than other programs' CPU, and lie where that grew."""
        readings, waits = readings_of(self._trial.monitors), list[Series]()
        cpu = [
            one
            for service in self._config.services
            for one in readings.whole(service.name, "process", "cpu_seconds_total")
        ]
        elsewhere = unread(self._trial.monitors, self._trial.lab.services)
        here = [service for service in self._config.services if service.name not in elsewhere]
        for service in here:
            waited = readings.whole(service.name, "switches", "run_queue_seconds_total")
            if not any(len(one.at) > 1 for one in waited):
                return None, _grown(cpu, edges)
            waits += waited
        return (_grown(waits, edges, others) if here or elsewhere else None), _grown(cpu, edges)

    def _stops(self, cores: int, edges: Floats) -> tuple[Floats, float, float]:
        """Return (time in each interval in which the machine stood still, sum of the gaps' squares, time in
        which any core did): steal, and gaps in which a core of the load ran nobody. A gap caused by other
        programs is a wait of the load, and measured as its lag."""
        moments = within(self.found.moments, self.window)
        stolen = [one for one in moments if one.check == "steal"]
        gaps = [one for one in moments if one.check == "hiccups"]
        witnesses = max(len({one.where for one in gaps}), 1)
        waited_s = sum(one.lost_s for one in moments if one.check == "run-queue")
        gaps_s = sum(one.lost_s for one in gaps)
        own = max(1 - waited_s / gaps_s, 0.0) if gaps_s else 0.0
        stolen_s, gone_s = _spread(stolen, edges), _spread(gaps, edges) * own / witnesses
        squares = sum(one.lost_s**2 for one in gaps) * own / witnesses
        return np.maximum(stolen_s / cores, gone_s), squares, float(np.maximum(stolen_s, gone_s).sum())

    @cached_property
    def by_check(self) -> Mapping[str, tuple[Harm, ...]]:
        """Return the ranges of all numbers that have one, under the check that found most of the loss."""
        if self._trial.summary.imported is not None:
            return {}
        harms = tuple(one for group in self.groups for one in self._of_group(group) if one.below or one.above)
        cost = {"others-cpu": float(self.lost.handed_on_s.sum()) if self.lost else float("inf")}
        for one in within(self.found.moments, self.window):
            if one.check != "others-cpu":
                cost[one.check] = cost.get(one.check, 0.0) + one.lost_s
        return {max(cost, key=lambda check: cost[check]): harms} if harms else {}

    def _of_group(self, whole: GroupView) -> Iterator[Harm]:
        for group in (whole, *steps_of(self._trial, whole)):
            unsure = self.unsure_overload(whole) is not None
            of = _OfGroup(whole, group, self.lost, self.window, self.groups, unsure)
            for number, estimate in self._metrics.items():
                if estimate.value and number.startswith(f"{group.name}."):
                    bound = of.bound(number, estimate.value)
                    if bound is not None:
                        yield harm(number, *bound)


class _OfGroup:
    """A group, or a step of it, and what its servers lost, which all `groups` load together. `unsure`: its
    backlog grew, perhaps only because of that."""

    def __init__(
        self,
        whole: GroupView,
        group: GroupView,
        lost: Lost | None,
        window: Window,
        groups: Sequence[GroupView],
        unsure: bool = False,
    ) -> None:
        self._whole, self._group, self._lost, self._unsure = whole, group, lost, unsure
        self._asked, self._closed = sum(one.due for one in groups), all(one.closed for one in groups)
        self._measures, self._window = GroupMeasures(group), window
        self._seconds = max(window.seconds, 1e-9)

    def bound(self, number: str, value: float) -> tuple[float, float] | None:
        """Return (below, above) as shares of the value; None where disturbances do not affect such a
        number."""
        metric = metric_name(number)
        stat = number.removeprefix(f"{self._group.name}.{metric}").lstrip(".")
        rate = metric in _RATES or metric == "goodput"
        if not rate and (metric not in _TIMES or not (stat == "mean" or stat.startswith("p"))):
            return None
        if self._lost is None:
            return limits.WIDEST
        below, above = self._of_rate(number, value) if rate else self._of_time(metric, stat, value)
        return min(below, limits.WIDEST[0]), min(above, limits.WIDEST[1])

    @cached_property
    def _spent_s(self) -> float:
        cells = self._group.intervals
        ended = int((cells["ok"] + cells["failed"]).sum())
        return float(cells["response_sum_ns"].sum()) / ended / 1e9 if ended else 0.0

    @cached_property
    def _index(self) -> float:
        """Return a request's mean delay over its mean time in flight."""
        lost = self._lost
        if lost is None or not self._asked or not self._spent_s:
            return 0.0
        handed_on_s = float(lost.handed_on_s.sum()) / self._asked
        return (handed_on_s + lost.stops_s) / self._spent_s + lost.stopped

    @property
    def _beyond(self) -> bool:
        """Whether servers waited beside more other programs than any planted disturbance had."""
        lost = self._lost
        return lost is not None and lost.strangers > limits.PUSHED_UP_TO and lost.taken > limits.OTHERS_CPU

    @cached_property
    def _taken_s(self) -> float:
        """Return how much of the mean response can at most be time taken from the servers, by users who wait:
        N users' cycles are N / X long, and this is at most that part of all of them together."""
        executor = self._whole.spec.executor
        ended = int((self._group.intervals["ok"] + self._group.intervals["failed"]).sum())
        if not (self._closed and self._lost and ended and isinstance(executor, ClosedLoop)):
            return float("inf")
        return self._lost.taken * executor.most_vus * self._seconds / ended

    def _at_most(self, metric: str, stat: str, value: float) -> float:
        """Return how far below its value a statistic may lie if no more was taken than `_taken_s`. Percentiles
        up to the median move by no larger share than the mean: delays come in spells, and pile up above."""
        if stat == "mean" or float(stat[1:]) <= 50:
            return min(self._taken_s / self._spent_s, 1.0) if self._spent_s else 1.0
        population = self._measures.population(metric) if self._taken_s < self._spent_s else None
        if population is None:
            return 1.0
        least = least_quantile(population.ranked, float(stat[1:]) / 100, self._taken_s * population.scale)
        return max(1 - least / population.scale / value, 0.0)

    @cached_property
    def _calm(self) -> tuple[GroupMeasures, float, float]:
        """Return the group with the requests that no disturbance was near, which share of all they are, and
        the index of what they lost nevertheless. One that comes just before a disturbance is in flight when
        it begins."""
        assert self._lost is not None
        disturbed = self._lost.disturbed
        before = ceil(limits.CALM_BEFORE * self._spent_s / self._window.interval_ns * 1e9)
        count = np.cumsum([0, *disturbed])
        ends = np.minimum(np.arange(1, len(disturbed) + 1) + before, len(disturbed))
        calm = count[ends] == count[:-1]
        group = self._group.due_in(calm)
        share = group.due / max(self._group.due, 1)
        lost_s = float(self._lost.handed_on_s[calm].sum())
        return GroupMeasures(group), share, lost_s / max(self._asked * share * self._spent_s, 1e-12)

    def _undisturbed(self, metric: str, stat: str) -> float | None:
        """Return the least that the statistic of all requests would be if all had been due in calm intervals;
        None where those are too few to tell."""
        calm, share, _ = self._calm
        population = calm.population(metric) if share >= limits.CALM_LEAST else None
        found = population.stats([stat])[stat] if population else None
        if population is None or found is None or not found.value:
            return None
        if stat == "mean":
            scatter = limits.CALM_REACH / 2 * (1 - share) ** 0.5 * (found.value - (found.low or 0.0))
            return float(max(found.value - scatter, found.value * share))
        p, n = float(stat[1:]) / 100, max(found.n_eff or 1.0, 1.0)
        if (1 - p) * found.n < limits.CALM_ABOVE:
            return None
        rank = max(p - limits.CALM_REACH * ((1 - share) * p * (1 - p) / n) ** 0.5, 1 - (1 - p) / share)
        return (population.ranked.quantile(rank) or 0.0) / population.scale if rank > 0 else 0.0

    @cached_property
    def _woken_s(self) -> float:
        """Return what a request gains on cores that are busy anyway: they need no time to wake."""
        return limits.WOKEN_S * min(
            (self._lost.strangers if self._lost else 1.0) / (4 * limits.OTHERS_CPU), 1.0
        )

    @cached_property
    def _unasked_s(self) -> float:
        """Return how long a closed loop's user waited for the load itself before each request, which reduced
        the load."""
        return _late_s(self._whole) if self._whole.closed else 0.0

    def _of_time(self, metric: str, stat: str, value: float) -> tuple[float, float]:
        # A users' pause shorter by u makes a response longer by no more than u (R = N/X − Z).
        return self._below(metric, stat, value), (self._woken_s + self._unasked_s) / value

    def _below(self, metric: str, stat: str, value: float) -> float:
        """Return how far below its value a statistic may lie."""
        if self._unsure or self._beyond:
            return limits.WIDEST[0]
        at_most = self._at_most(metric, stat, value)
        k = _of_statistic(limits.PUSHED, None if stat == "mean" else float(stat[1:]) / 100)
        pushed = min(1 - 1 / (1 + k * self._index), at_most)
        least = self._undisturbed(metric, stat) if value and pushed > limits.CALM_FROM else None
        if least is None:
            return pushed
        return min(max(1 - least / value / (1 + k * self._calm[-1]), 0.0), at_most)

    def _of_rate(self, number: str, value: float) -> tuple[float, float]:
        below, above = self._of_throughput()
        if metric_name(number) != "goodput":
            return below, above
        more = self._late(number) / max(due_within(self._group, number), 1)
        if isinstance(self._whole.spec.executor, ClosedLoop):
            return below, (1 + more) * (1 + above) - 1
        # It counts requests by their due time: no delay brings one into its window, or takes one out.
        return 0.0, more

    def _of_throughput(self) -> tuple[float, float]:
        delay_s = self._spent_s * self._below("response", "mean", self._spent_s)
        executor = self._whole.spec.executor
        if not isinstance(executor, ClosedLoop):
            share = min(delay_s / self._seconds, 1.0)
            unserved = max(backlog_growth(self._whole)[0], 0.0) if self._unsure or self._beyond else 0.0
            return share, max(share, unserved / max(1 - unserved, 1e-9))
        cycle_s = executor.most_vus * self._seconds / max(self._whole.due, 1)
        shorter = min((delay_s + self._unasked_s) / cycle_s, limits.WIDEST[0])
        return self._woken_s / cycle_s, shorter / (1 - shorter)

    def _late(self, number: str) -> float:
        """Return how many requests beyond a limit may be so only because of disturbances: all that a push can
        have moved there, and all that met a stop, which can last for many times the limit."""
        limit_ns, population = limit_of(number), self._measures.population("ok_response")
        beyond = float(self._group.due - due_within(self._group, number))
        if self._unsure or self._beyond or population is None or limit_ns is None:
            return beyond
        pushed = 1 + _of_statistic(limits.PUSHED, max(_QUANTILES)) * self._index
        pushed_ns = limit_ns * min(pushed, 1 / (1 - limits.WIDEST[0]))
        ranked = population.ranked
        at = np.searchsorted(ranked.values, [limit_ns, pushed_ns], side="right")
        below, up_to = (int(ranked.at_or_below[one - 1]) if one else 0 for one in at)
        stopped = self._lost.stopped * self._group.due if self._lost else 0.0
        return min(up_to - below + stopped, beyond)


def _of_statistic(known: Mapping[str, float], p: float | None) -> float:
    """Return the multiple for a quantile, or for the mean."""
    if p is None:
        return known["mean"]
    return float(np.interp(p, _QUANTILES, [known[f"p{100 * q:g}"] for q in _QUANTILES]))


def _grown(series: Iterable[Series], edges: Floats, like: Series | None = None) -> Floats:
    """Return the total growth of counters between these moments; between two readings even, or in proportion
    to the growth of another one, `like`."""
    total = np.zeros(len(edges) - 1)
    for one in series:
        ends, at = edges, one.at
        if like is not None:
            ends, at = (when * 1e-12 + np.interp(when, like.at, _sums(like)) for when in (ends, at))
        total += np.diff(np.interp(ends, at, _sums(one)))
    return total


def _sums(series: Series) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.maximum(np.diff(series.values), 0.0))])


def _owed(more: Floats) -> Floats:
    """Return how much work a queue holds that these amounts enter and, where negative, leave."""
    total = np.cumsum(more)
    return total - np.minimum.accumulate(np.minimum(total, 0.0))


def _spread(moments: Iterable[Disturbance], edges: Floats) -> Floats:
    """Return the time lost between these edges, each moment's evenly over it."""
    spans = [Series(np.array([one.begin_ns, one.end_ns]), np.array([0.0, one.lost_s])) for one in moments]
    return _grown(spans, edges)


def harm(number: str, below: float, above: float) -> Harm:
    """Return what a range means for a number: it never refuses it."""
    grade: Grade = "WEAK" if max(below, above) > limits.OFF else "VALID"
    return Harm(number=number, grade=grade, below=below, above=above)


def _late_s(group: GroupView) -> float:
    """Return how late the load itself was on average for a request: sent late, and read late."""
    if group.rows is None:
        return sum(moments(group.histogram(name))[0] for name in ("generator_lag", "read_lag")) / 1e9
    read = group.rows["read_lag_ns"]
    read = read[read >= 0]
    lag = group.rows["lag_ns"]
    return sum(float(one.mean()) for one in (lag, read) if len(one)) / 1e9


def worst_of(harms: Iterable[Harm]) -> Grade:
    """Return the worst grade of any number."""
    grades = {one.grade for one in harms}
    return "REFUSED" if "REFUSED" in grades else "WEAK" if "WEAK" in grades else "VALID"


def effect(harms: Sequence[Harm]) -> str:
    """Describe in a sentence by how much the numbers may be off."""
    wide = [one for one in harms if one.grade != "VALID"]
    if not wide:
        return "No number is off by more than 5 % because of this."
    first = min(wide, key=lambda one: (".response.p50" not in one.number, one.number))
    ends = ((first.below, "lower"), (first.above, "higher"))
    off = " or ".join(
        f"{show_percent(share or 0.0, 2)} {way}" for share, way in ends if (share or 0.0) >= 0.0005
    )
    others = len(wide) - 1
    more = f"; {others} more {'numbers are' if others > 1 else 'number is'} rough" if others else ""
    return f"The true {first.number} may be up to {off or '0.05 % away'}{more}."

"""The possible error of each number of a trial due to disturbances of the machine (docs/method.md §3,
*Ranges*).

The readings give a request's mean delay: how long the servers' threads waited for a core in each stretch,
handed on to the requests behind in proportion to the core's use, and how long the whole machine stood still.
This delay over the mean time in flight is an index z. A number is then taken to be at most 1 + k·z times its
undisturbed value; k was fitted for each statistic on planted disturbances (`limits.PUSHED`) and is frozen. In
a closed loop k is at most a multiple of the root of its users (`limits.PUSHED_CLOSED`).

Delays of the load's own threads are known request by request (`generator-harm`), and are not included here;
in a closed loop they mean load that was not made, so a number may lie higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.disturbances import Found, disturbances_of, foreign_here, unread, within
from svload.analysis.measures import GroupMeasures, due_within
from svload.analysis.quantiles import moments
from svload.analysis.readings import Floats, Series, mean_rate, of_monitor, readings_of
from svload.analysis.view import GroupView, Window, steps_of
from svload.model.executors import ClosedLoop
from svload.model.metrics import limit_of, metric_name, without_limit
from svload.model.results import Estimate, Grade, Harm
from svload.model.study import CaseConfig
from svload.model.units import show_percent

if TYPE_CHECKING:
    from svload.store import TrialData

_TIMES = ("response", "ok_response", "service", "server_time", "starttransfer", "total")
_RATES = ("throughput", "ok_throughput")
_QUANTILES = (0.5, 0.9, 0.95, 0.99)


class Lost(NamedTuple):
    """What the servers of a trial lost to disturbances in its window."""

    handed_on_s: float
    """total time that their threads waited for a core, and what that cost the requests queued behind"""
    stopped: float
    """share of the window in which the machine stood still, and what that cost the queued requests"""
    stops_s: float
    """mean delay of a request that arrives at any moment, by these stops alone"""
    strangers: float
    """share of all cores that other processes had"""


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
        """What the servers lost, from this machine's monitors; None where strangers could not be
        identified."""
        monitors, length_s = self._trial.monitors, max(self.window.seconds, 1e-9)
        others = of_monitor(monitors, "others", "cpu_seconds_total").get("")
        foreign = None if others is None else mean_rate(others, self.window)
        if foreign is None:
            return None
        cores = max(len(of_monitor(monitors, "host", "busy_seconds_total")), 1)
        stretches = max(int(length_s / limits.STRETCH_S), 1)
        edges = np.linspace(self.window.low_ns, self.window.high_ns, stretches + 1)
        apart_s = length_s / stretches
        waits_s, used_s = self._servers(edges)
        foreign_s = _grown([others] if others else [], edges)
        # Threads also wait for one another: strangers caused no more of it than their share of the cores.
        if waits_s is None:
            # Below this share one of the cores concerned is free for waiting threads.
            shares = _grown(foreign_here(monitors, cores).values(), edges)
            beside = (
                1
                if of_monitor(monitors, "others", "concerned_seconds_total")
                else cores / min(cores, limits.CORES_CONCERNED)
            )
            waits_s = np.maximum(shares - limits.OTHERS_CPU * apart_s, 0.0) * beside
        else:
            waits_s = np.minimum(waits_s, limits.WAITING * foreign_s)
        used = used_s / apart_s
        used = np.minimum(used / np.maximum(np.ceil(used), 1) + waits_s / apart_s, limits.MOST_HANDED_ON)
        stopped, stops_s = self._stops(cores, length_s)
        behind = 1 / (1 - min(float(used.mean()) + stopped, limits.MOST_HANDED_ON))
        return Lost(
            float(np.sum(waits_s / (1 - used))),
            stopped * behind,
            stops_s * behind,
            min(foreign / cores, 1.0),
        )

    def _servers(self, edges: Floats) -> tuple[Floats | None, Floats]:
        """Return (time that the servers' threads waited for a core in each stretch, None where it was not
        read; their CPU)."""
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
        return (_grown(waits, edges) if here or elsewhere else None), _grown(cpu, edges)

    def _stops(self, cores: int, length_s: float) -> tuple[float, float]:
        """Return (share of the window, mean delay) by what stopped the machine: steal, and gaps in which a
        core of the load ran nobody. A gap caused by strangers is a wait of the load, and measured as its
        lag."""
        moments = within(self.found.moments, self.window)
        stolen_s = sum(one.lost_s for one in moments if one.check == "steal") / cores
        gaps = [one for one in moments if one.check == "hiccups"]
        witnesses = max(len({one.where for one in gaps}), 1)
        waited_s = sum(one.lost_s for one in moments if one.check == "run-queue")
        gaps_s = sum(one.lost_s for one in gaps)
        own = max(1 - waited_s / gaps_s, 0.0) if gaps_s else 0.0
        squares = sum(one.lost_s**2 for one in gaps) * own / witnesses
        return min(max(stolen_s, own * gaps_s / witnesses) / length_s, 1.0), squares / 2 / length_s

    @cached_property
    def by_check(self) -> Mapping[str, tuple[Harm, ...]]:
        """Return the ranges of all numbers that have one, under the check that found most of the loss."""
        if self._trial.summary.imported is not None:
            return {}
        harms = tuple(one for group in self.groups for one in self._of_group(group) if one.below or one.above)
        cost = {"others-cpu": self.lost.handed_on_s if self.lost else float("inf")}
        for one in within(self.found.moments, self.window):
            if one.check != "others-cpu":
                cost[one.check] = cost.get(one.check, 0.0) + one.lost_s
        return {max(cost, key=lambda check: cost[check]): harms} if harms else {}

    @cached_property
    def _users(self) -> int | None:
        """Return the largest number of users; None where arrivals come regardless of how many wait."""
        loops = [one.spec.executor for one in self.groups]
        closed = [one.most_vus for one in loops if isinstance(one, ClosedLoop)]
        return sum(closed) if len(closed) == len(loops) else None

    def _of_group(self, whole: GroupView) -> Iterator[Harm]:
        asked = sum(one.due for one in self.groups)
        for group in (whole, *steps_of(self._trial, whole)):
            of = _OfGroup(whole, group, self.lost, self.window, asked, self._users)
            for number, estimate in self._metrics.items():
                if estimate.value and number.startswith(f"{group.name}."):
                    bound = of.bound(number, estimate.value)
                    if bound is not None:
                        yield harm(number, *bound)


class _OfGroup:
    """A group, or a step of it, and what its servers lost; `asked` requests were due of all groups together,
    with `users` None where arrivals come regardless."""

    def __init__(
        self,
        whole: GroupView,
        group: GroupView,
        lost: Lost | None,
        window: Window,
        asked: int,
        users: int | None,
    ) -> None:
        self._whole, self._group, self._lost, self._asked = whole, group, lost, asked
        self._users = users
        self._measures, self._seconds = GroupMeasures(group), max(window.seconds, 1e-9)

    def bound(self, number: str, value: float) -> tuple[float, float] | None:
        """Return (below, above) as shares of the value; None where disturbances do not affect such a
        number."""
        metric = metric_name(number)
        stat = number.removeprefix(f"{self._group.name}.{metric}").lstrip(".")
        rate = metric in _RATES or without_limit(metric) == "goodput"
        if not rate and (metric not in _TIMES or not (stat == "mean" or stat.startswith("p"))):
            return None
        if self._lost is None:
            return limits.WIDEST
        below, above = self._of_rate(metric, value) if rate else self._of_time(stat, value)
        return min(below, limits.WIDEST[0]), min(above, limits.WIDEST[1])

    @cached_property
    def _spent_s(self) -> float:
        """Return the mean time in flight."""
        cells = self._group.intervals
        ended = int((cells["ok"] + cells["failed"]).sum())
        return float(cells["response_sum_ns"].sum()) / ended / 1e9 if ended else 0.0

    @cached_property
    def _index(self) -> float:
        """Return a request's mean delay over its mean time in flight."""
        lost = self._lost
        if lost is None or not self._asked or not self._spent_s:
            return 0.0
        return (lost.handed_on_s / self._asked + lost.stops_s) / self._spent_s + lost.stopped

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

    def _of_time(self, stat: str, value: float) -> tuple[float, float]:
        # A users' pause shorter by u makes a response longer by no more than u (R = N/X − Z).
        p = None if stat == "mean" else float(stat[1:]) / 100
        return self._pushed(p), (self._woken_s + self._unasked_s) / value

    def _pushed(self, p: float | None) -> float:
        """Return how far below its value a quantile, or the mean, may lie."""
        k = _of_statistic(limits.PUSHED, p)
        if self._users is not None:
            k = min(k, _of_statistic(limits.PUSHED_CLOSED, p) * self._users**0.5)
        return k * self._index / (1 + k * self._index)

    def _of_rate(self, metric: str, value: float) -> tuple[float, float]:
        delay_s = self._spent_s * self._pushed(None)
        lost_s = delay_s + self._unasked_s
        if without_limit(metric) == "goodput":
            return 0.0, self._within_limit(metric) + lost_s / self._seconds
        executor = self._whole.spec.executor
        if not isinstance(executor, ClosedLoop):
            share = min(delay_s / self._seconds, 1.0)
            return share, share
        cycle_s = executor.most_vus * max(self._group.due, 1) / max(self._whole.due, 1) / value
        shorter = min(lost_s / cycle_s, limits.WIDEST[0])
        return self._woken_s / cycle_s, shorter / (1 - shorter)

    def _within_limit(self, metric: str) -> float:
        """Return how many more requests may have been within a limit, as a share of those within it: all that
        a push can have moved beyond it."""
        inside, population = due_within(self._group, metric), self._measures.population("ok_response")
        limit_ns, ranked = limit_of(metric), population.ranked if population else None
        if not self._index:
            return 0.0
        if not inside or ranked is None or limit_ns is None:
            return limits.WIDEST[1]
        pushed_ns = limit_ns / (1 - min(self._pushed(max(_QUANTILES)), limits.WIDEST[0]))
        at = np.searchsorted(ranked.values, [limit_ns, pushed_ns], side="right")
        below, up_to = (int(ranked.at_or_below[one - 1]) if one else 0 for one in at)
        return (up_to - below) / inside


def _of_statistic(known: Mapping[str, float], p: float | None) -> float:
    """Return the multiple for a quantile, or for the mean."""
    if p is None:
        return known["mean"]
    return float(np.interp(p, _QUANTILES, [known[f"p{100 * q:g}"] for q in _QUANTILES]))


def _grown(series: Iterable[Series], edges: Floats) -> Floats:
    """Return the total growth of counters between these moments."""
    total = np.zeros(len(edges) - 1)
    for one in series:
        grown = np.concatenate([[0.0], np.cumsum(np.maximum(np.diff(one.values), 0.0))])
        total += np.diff(np.interp(edges, one.at, grown))
    return total


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
    more = f"; {len(wide) - 1} more numbers are rough" if len(wide) > 1 else ""
    return f"The true {first.number} may be up to {off or '0.05 % away'}{more}."

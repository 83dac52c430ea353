"""What disturbed the load's machine: gaps, waits for a core, steal, other processes, a drifting clock rate
(docs/method.md §3). How far each shifts numbers is computed in `ranges`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context
from svload.analysis.disturbances import Disturbance, Spans, spans, united
from svload.analysis.quiet import called
from svload.analysis.ranges import effect, harm, worst_of
from svload.analysis.readings import Floats, Monitors, Series, mean_rate, of_monitor
from svload.analysis.view import Window, kept_window
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_duration, show_percent
from svload.store import TrialData

_SECOND_NS = 1e9
_THROUGHOUT = 0.9


class Hiccups(Check):
    """Gaps seen by a thread that wakes every 10 ms beside the load, and passes of the load's own loop above
    10 ms: whatever arrived meanwhile was read late (after jHiccup, Tene)."""

    name = "hiccups"
    order = 21
    comparisons = "weight"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        gaps = context.ranges.found.of(self.name)
        looks = _longest(trial, kept_window(trial.summary, context.cut.cut_ns))
        if not looks and not gaps:
            return self.unmeasured("nothing watched the load's threads for stalls")
        if gaps:
            worst = max(gaps, key=lambda one: one.lost_s)
            longest = worst.lost_s
            more = f", one of {len(gaps)} above {show_duration(limits.GAP_S)}" if len(gaps) > 1 else ""
            text = f"A load thread was stalled for {show_duration(longest)} ({worst.where}{more})."
        else:
            thread, longest = max(looks.items(), key=lambda one: one[1])
            text = f"The longest stall on a core of the load was {show_duration(longest)} ({thread})."
        who = in_moments(trial.monitors, gaps)
        ends = f", or stop {who}" if who else ""
        remedy = (
            f"Give the load a core that nothing else uses{ends} (in a virtual machine: use a dedicated host)."
        )
        return _disturbed(self, context, text, longest, limits.GAP_S, remedy, who)


class RunQueue(Check):
    """Waits of the load's threads for a core, as reported by the scheduler: the resulting delay is measured
    request by request, and in a closed loop it is load that was not made."""

    name = "run-queue"
    order = 22

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Judge the worst thread; its witness reads /proc/self/task/…/schedstat while it works."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        waited = of_monitor(trial.monitors, "generator", "run_queue_seconds_total")
        shares = {
            thread: rate
            for thread, series in waited.items()
            if (rate := mean_rate(series, window)) is not None
        }
        if not shares:
            return self.unmeasured("nothing measured how long the load's threads waited for a core")
        thread, share = max(shares.items(), key=lambda one: one[1])
        moments = context.ranges.found.of(self.name)
        who = in_moments(trial.monitors, moments)
        text = f"svload waited for CPU up to {show_percent(share)} of the time ({thread}; limit: {show_percent(limits.RUN_QUEUE)})"
        if moments:
            part = context.ranges.found.share(self.name, window)
            text += (
                ", throughout the test" if part > _THROUGHOUT else f", in {show_percent(part)} of the test"
            )
        ends = f" ({who})" if who else ""
        remedy = (
            f"Give the load more cores or fewer generators, and stop other programs on them{ends}; run your server on other "
            "cores (taskset)."
        )
        return _disturbed(self, context, f"{text}.", share, limits.RUN_QUEUE, remedy, who)


class Steal(Check):
    """What the hypervisor gave to other guests while a core was ready to run; the kernel counts in ticks of
    10 ms."""

    name = "steal"
    order = 50
    comparisons = "weight"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        window = kept_window(trial.summary, context.cut.cut_ns)
        stolen = of_monitor(trial.monitors, "host", "steal_seconds_total")
        stolen |= of_monitor(trial.monitors, "fleet", "steal_seconds_total")
        if not stolen:
            return self.unmeasured("no monitor read the CPU time that the hypervisor took")
        worst = {core: _worst_second(series, window) for core, series in stolen.items()}
        core, share = max(worst.items(), key=lambda one: one[1])
        where = f" ({core})" if share else ""
        text = f"The hypervisor took at most {show_percent(share)} of a core in any second{where}."
        remedy = "Measure on a dedicated host, or when the host's other virtual machines are quiet."
        return _disturbed(self, context, text, share, limits.STEAL, remedy)


class OthersCpu(Check):
    """WEAK for the numbers that other programs may have shifted by more than 5 %. svload's own processes and
    the kernel's threads (which work for the load) are left out; a server that was already running is
    recognised by the port it listens on. What others do on the load's own cores shows as run-queue wait,
    too."""

    name = "others-cpu"
    order = 51
    comparisons = "weight"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        window = kept_window(trial.summary, context.cut.cut_ns)
        total = of_monitor(trial.monitors, "others", "cpu_seconds_total").get("")
        used = None if total is None else mean_rate(total, window)
        cores = len(of_monitor(trial.monitors, "host", "busy_seconds_total"))
        if used is None or not cores:
            return self.unmeasured("no monitor measured the CPU of other processes")
        share = used / cores
        who = busiest(trial.monitors, [(window.low_ns, window.high_ns)])
        names = f": {', '.join(map(str, who))}" if who else ""
        text = (
            f"Other programs used {show_percent(share)} of this machine ({used:.2g} of {cores} cores){names}."
        )
        first = f"{called(who[0].name)}, process {who[0].pid}" if who else "see top"
        remedy = f"Stop or move other programs ({first}), then run again."
        during = in_moments(trial.monitors, context.ranges.found.of(self.name))
        return _disturbed(self, context, text, share, limits.OTHERS_CPU, remedy, during)


class Calibration(Check):
    """A fixed piece of work, timed at both ends of the load. The drift gives a range in both directions: a
    server bound by a disk, a link or a sleep is no slower for it."""

    name = "calibration"
    order = 52

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        conditions = trial.lab.conditions
        if conditions is None or not conditions.before.calibration_ns or not conditions.after.calibration_ns:
            return self.unmeasured("the calibration loop was not timed before and after the load")
        drift = conditions.after.calibration_ns / conditions.before.calibration_ns - 1
        harms = [harm(self.scope, abs(drift), abs(drift))] if abs(drift) > limits.CALIBRATION else []
        word = "slower" if drift > 0 else "faster"
        return self.result(
            worst_of(harms),
            f"After the load a core was {show_percent(abs(drift))} {word} than before.",
            drift,
            limits.CALIBRATION,
            "Fix the CPU's frequency (governor performance, no turbo), cool it, or warm it up first.",
            harms,
        )


def _disturbed(
    check: Check, context: Context, text: str, value: float, limit: float, remedy: str, who: str = ""
) -> CheckResult:
    """Return the result of a disturbance, with the numbers that it shifted, if any."""
    harms = context.ranges.by_check.get(check.name, ())
    if context.ranges.found.of(check.name):
        text = f"{text} {effect(harms)}"
    return check.result(worst_of(harms), text, value, limit, remedy, harms, who)


def _longest(trial: TrialData, window: Window) -> dict[str, float]:
    """Return by thread the largest reading of the window; each covers the time since the one before."""
    return {
        thread: float(np.max(series.values[inside]))
        for thread, series in of_monitor(trial.monitors, "generator", "hiccup_seconds").items()
        if (inside := (series.at > window.low_ns) & (series.at <= _end(series.at, window.high_ns))).any()
    }


def _end(at: Floats, high_ns: int) -> float:
    """Return the first reading at or after the window's end."""
    after = int(np.searchsorted(at, high_ns))
    return float(at[min(after, len(at) - 1)])


def _worst_second(series: Series, window: Window) -> float:
    """Return the counter's largest growth over any second that touches the window; a shorter series counts as
    one second."""
    at, values = series.enclosing(window)
    if len(at) < 2:
        return 0.0
    # The first reading a second or more later: a shorter span would make one tick of 10 ms more than it is.
    later = np.searchsorted(at, at + _SECOND_NS)
    whole = later < len(at)
    if not whole.any():
        return float(values[-1] - values[0])
    first = np.flatnonzero(whole)
    span = (at[later[first]] - at[first]) / _SECOND_NS
    return float(np.max((values[later[first]] - values[first]) / span))


_NAMED = 3
_LOOK_NS = 1e9


class User(NamedTuple):
    """A process and the CPU that it used."""

    name: str
    """as the monitor reported it: name, user and command where they are known"""
    pid: str
    seconds: float

    def __str__(self) -> str:
        return f"{called(self.name)} ({self.seconds:.2g} s of CPU, process {self.pid})"


def busiest(monitors: Monitors, moments: Spans) -> list[User]:
    """Return the processes that used most in these moments; each reading covers the time since the one
    before."""
    if not moments:
        return []
    found = []
    begins, ends = (np.array(side, dtype=float) for side in zip(*moments, strict=True))
    for process, series in of_monitor(monitors, "others", "cpu_seconds").items():
        latest = np.searchsorted(begins, series.at) - 1
        # A process is reported only where it used CPU, so the look before may be far back.
        inside = (latest >= 0) & (series.at - _LOOK_NS < ends[np.maximum(latest, 0)])
        name, _, pid = process.rpartition(" ")
        found.append(User(name, pid, float(series.values[inside].sum())))
    return sorted((one for one in found if one.seconds > 0), key=lambda one: -one.seconds)[:_NAMED]


def in_moments(monitors: Monitors, moments: Sequence[Disturbance]) -> str:
    """Return the process that used most in them; empty where none did, or where no processes were read."""
    most = busiest(monitors, united(spans(moments)))[:1] if moments else []
    return str(most[0]) if most else ""

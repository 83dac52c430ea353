"""Gaps in which a core of the load ran nobody, or the load's own loop was away from its events (METHOD §3; after jHiccup, Tene)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent, smallest_shown_p99
from svload.analysis.checks.generator_harm import worst_harm
from svload.analysis.readings import of_monitor
from svload.analysis.view import Window, kept_window
from svload.model.results import CheckResult, Grade
from svload.model.study import CaseConfig
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.store import TrialData


class Hiccups(Check):
    """WEAK where the longest gap is above 10 % of a shown p99; REFUSED only where the generator's harm is refused too.

    A gap is what a thread that sleeps beside the load to every 10 ms saw, or a pass of the load's own loop that took 10 ms or more:
    whatever came meanwhile was read late, which generator lag can't see in a closed loop.
    """

    name = "hiccups"
    row = "hiccup thread per engine core"
    order = 21

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The longest gap over the window against the smallest p99 that is shown."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        longest = _longest(trial, "hiccup_seconds", window)
        if not longest:
            return self.unmeasured("no witness slept beside the load's threads")
        passes = _longest(trial, "loop_pass_seconds", window)
        thread, gap = max(longest.items(), key=lambda one: one[1])
        told = f"The longest gap on a core of the load was {show_duration(gap)} ({thread})"
        looping, loop = max(passes.items(), key=lambda one: one[1], default=("", 0.0))
        if loop >= limits.HICCUP_PERIOD_S and loop > gap:
            gap = loop
            told = f"The load's own loop was away from its connections for {show_duration(gap)} ({looping})"
        shown = smallest_shown_p99(context)
        if shown is None:
            return self.result("VALID", f"{told}; no p99 is shown that it could spoil.", gap)
        metric, p99 = shown
        share = gap / p99 if p99 > 0 else float("inf")
        grade = _grade(share, context)
        return self.result(
            grade,
            f"{told}, {percent(share)} of {metric}.",
            share,
            limits.HICCUP,
            "Give the load a core that nothing else uses (and a host of your own, where this is a guest).",
        )


def _longest(trial: TrialData, metric: str, window: Window) -> dict[str, float]:
    """By thread: the largest reading of the window; each tells of the time since the one before."""
    return {
        thread: float(np.max(series.values[inside]))
        for thread, series in of_monitor(trial.monitors, "generator", metric).items()
        if (inside := (series.at > window.low_ns) & (series.at <= _end(series.at, window.high_ns))).any()
    }


def _end(at: NDArray[np.float64], high_ns: int) -> float:
    """The first reading at or after the window's end."""
    after = int(np.searchsorted(at, high_ns))
    return float(at[min(after, len(at) - 1)])


def _grade(share: float, context: Context) -> Grade:
    if share <= limits.HICCUP:
        return "VALID"
    harm = worst_harm(context)
    return "REFUSED" if harm is not None and harm.share > limits.HARM[1] else "WEAK"

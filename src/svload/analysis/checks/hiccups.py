"""Gaps in which a core of the load ran nobody, or the load's own loop was away from its events
(docs/method.md §3; after jHiccup, Tene)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context
from svload.analysis.ranges import effect, worst_of
from svload.analysis.readings import of_monitor
from svload.analysis.view import Window, kept_window
from svload.analysis.who import in_moments
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.store import TrialData


_REMEDY = "Give the load a core that nothing else uses{} (and a host of your own, where this is a guest)."


class Hiccups(Check):
    """Gaps that a thread which sleeps beside the load to every 10 ms saw, and passes of the load's own loop above
    10 ms: whatever came meanwhile was read late."""

    name = "hiccups"
    row = "hiccup thread per engine core"
    order = 21
    comparisons = "weight"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """All gaps of the window."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        gaps = context.ranges.found.of(self.name)
        looks = _longest(trial, window)
        if not looks and not gaps:
            return self.unmeasured("no witness slept beside the load's threads")
        harms = context.ranges.by_check.get(self.name, ())
        if not gaps:
            thread, longest = max(looks.items(), key=lambda one: one[1])
            told = f"The longest gap on a core of the load was {show_duration(longest)} ({thread})."
            return self.result(worst_of(harms), told, longest, limits.GAP_S, _REMEDY.format(""), harms)
        worst = max(gaps, key=lambda one: one.lost_s)
        who = in_moments(trial.monitors, gaps)
        more = f", one of {len(gaps)} above {show_duration(limits.GAP_S)}" if len(gaps) > 1 else ""
        return self.result(
            worst_of(harms),
            f"A thread of the load stood still for {show_duration(worst.lost_s)} ({worst.where}{more}). "
            f"{effect(harms)}",
            worst.lost_s,
            limits.GAP_S,
            _REMEDY.format(f", or end {who}" if who else ""),
            harms,
            who,
        )


def _longest(trial: TrialData, window: Window) -> dict[str, float]:
    """By thread: the largest reading of the window; each tells of the time since the one before."""
    return {
        thread: float(np.max(series.values[inside]))
        for thread, series in of_monitor(trial.monitors, "generator", "hiccup_seconds").items()
        if (inside := (series.at > window.low_ns) & (series.at <= _end(series.at, window.high_ns))).any()
    }


def _end(at: NDArray[np.float64], high_ns: int) -> float:
    """The first reading at or after the window's end."""
    after = int(np.searchsorted(at, high_ns))
    return float(at[min(after, len(at) - 1)])

"""Gaps in which a core of the load ran nobody, or the load's own loop was away from its events
(docs/method.md §3; after jHiccup, Tene)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context
from svload.analysis.counting import effect, worst_of
from svload.analysis.readings import of_monitor
from svload.analysis.view import Window, kept_window
from svload.analysis.who import in_moments
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.store import TrialData


class Hiccups(Check):
    """WEAK or REFUSED for the numbers that gaps can have put off: by counting the requests
    that a gap above 5 ms touched.

    A gap is what a thread that sleeps beside the load to every 10 ms saw, or a pass of the load's own loop
    that took more than 10 ms: whatever came meanwhile was read late, which generator lag can't see in a
    closed loop. A gap below a tenth of a number leaves it alone.
    """

    name = "hiccups"
    row = "hiccup thread per engine core"
    order = 21

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """All gaps of the window."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        gaps = context.counting.found.of(self.name)
        looks = _longest(trial, window)
        if not looks and not gaps:
            return self.unmeasured("no witness slept beside the load's threads")
        if not gaps:
            thread, longest = max(looks.items(), key=lambda one: one[1])
            return self.result(
                "VALID",
                f"The longest gap on a core of the load was {show_duration(longest)} ({thread}).",
                longest,
                limits.GAP_S,
            )
        worst = max(gaps, key=lambda one: one.lost_s)
        harms = context.counting.by_check.get(self.name, ())
        who = in_moments(trial.monitors, gaps)
        more = f", one of {len(gaps)} above {show_duration(limits.GAP_S)}" if len(gaps) > 1 else ""
        return self.result(
            worst_of(harms),
            f"A thread of the load stood still for {show_duration(worst.lost_s)} ({worst.where}{more}). "
            f"{effect(harms)}",
            worst.lost_s,
            limits.GAP_S,
            f"Give the load a core that nothing else uses{f', or end {who}' if who else ''} (and a host of "
            f"your own, where this is a guest).",
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

"""Pauses of a server's garbage collector against the response times shown (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, doubted, percent, smallest_shown_p99, times_of
from svload.analysis.view import kept_window
from svload.model.results import CheckResult, Grade
from svload.model.study import CaseConfig
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.store import TrialData

METRIC = "gc_pause_seconds"
"""What a monitor of a virtual machine calls the longest pause since the reading before."""


class GcPause(Check):
    """WEAK where a monitor read a pause (`gc_pause_seconds`) above 10 % of a shown p99; without
    such a monitor it is not measured."""

    name = "gc-pause"
    row = "GC pause of a JVM server"
    order = 58

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The longest pause of any service in the kept window."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        mine = trial.monitors["metric"] == METRIC
        if not np.any(mine):
            return self.unmeasured("no server's monitor tells of a garbage collector")
        at, value = trial.monitors["offset_ns"][mine], trial.monitors["value"][mine]
        inside = (at > window.low_ns) & (at <= window.high_ns)
        pause = float(value[inside].max()) if inside.any() else 0.0
        shown = smallest_shown_p99(context)
        told = f"The longest pause of a garbage collector was {show_duration(pause)}"
        if shown is None or shown[1] <= 0:
            return self.result("VALID", f"{told}; no p99 is shown that it could spoil.", pause)
        share = pause / shown[1]
        grade: Grade = "WEAK" if share > limits.GC_PAUSE else "VALID"
        return self.result(
            grade,
            f"{told}, {percent(share)} of {shown[0]}.",
            share,
            limits.GC_PAUSE,
            "Give the server more memory or another collector, or report the pause as its finding.",
            doubted(_spoilt(context, pause), grade),
        )


def _spoilt(context: Context, pause_s: float) -> list[str]:
    """The tails that are less than ten times as long as the pause."""
    tails = ("p99", "p99.9", "max")
    return [
        name
        for name in times_of(context, [group.name for group in context.groups])
        if name.endswith(tails) and pause_s > limits.GC_PAUSE * (context.metrics[name].value or 0.0)
    ]

"""Time that the hypervisor gave to other guests while this one wanted to run: any second
of any core (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.ranges import effect, worst_of
from svload.analysis.readings import Series, of_monitor
from svload.analysis.view import Window, kept_window
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData

_SECOND_NS = 1e9


class Steal(Check):
    """What the hypervisor took of each core; the kernel counts in ticks of 10 ms."""

    name = "steal"
    row = "steal"
    order = 50
    comparisons = "weight"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """The worst second of each core."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        stolen = of_monitor(trial.monitors, "host", "steal_seconds_total")
        stolen |= of_monitor(trial.monitors, "fleet", "steal_seconds_total")
        if not stolen:
            return self.unmeasured("no monitor read what the hypervisor took")
        worst = {core: worst_second(series, window) for core, series in stolen.items()}
        core, share = max(worst.items(), key=lambda one: one[1])
        harms = context.ranges.by_check.get(self.name, ())
        told = f"The hypervisor took at most {percent(share)} of any second of a core"
        moments = context.ranges.found.of(self.name)
        return self.result(
            worst_of(harms),
            told + (f" ({core})." if share else ".") + (f" {effect(harms)}" if moments else ""),
            share,
            limits.STEAL,
            "Measure on a host of your own, or when the other guests are quiet.",
            harms,
            "other guests of this host" if moments else "",
        )


def worst_second(series: Series, window: Window) -> float:
    """The counter's largest growth over any second that touches the window; a shorter series counts as one second."""
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

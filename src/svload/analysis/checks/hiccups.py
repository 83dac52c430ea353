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
from svload.model.results import CheckResult, Harm
from svload.model.study import CaseConfig
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.store import TrialData


_REMEDY = "Give the load a core that nothing else uses{} (and a host of your own, where this is a guest)."


class Hiccups(Check):
    """WEAK or REFUSED for the numbers that gaps can have put off: by counting the requests
    that a gap above 5 ms touched.

    A gap is what a thread that sleeps beside the load to every 10 ms saw, or a pass of the load's own loop
    that took more than 10 ms: whatever came meanwhile was read late, which generator lag can't see in a
    closed loop. A gap below a tenth of a number delays it by no more than its own length. A shorter gap than
    5 ms above a tenth of a p99 makes that WEAK, where such gaps touched as many requests as lie above it.
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
        harms = _with_short(context.counting.by_check.get(self.name, ()) if gaps else (), context)
        if not gaps:
            thread, longest = max(looks.items(), key=lambda one: one[1])
            often = f", and such gaps came often enough to reach a tail. {effect(harms)}" if harms else "."
            return self.result(
                worst_of(harms),
                f"The longest gap on a core of the load was {show_duration(longest)} ({thread}){often}",
                longest,
                _least(harms, context),
                _REMEDY.format(""),
                harms,
            )
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


def _least(harms: tuple[Harm, ...], context: Context) -> float:
    """The gap from which it matters, in s: of the smallest number that is weakened a tenth."""
    values = [context.metrics[one.number].value or 0.0 for one in harms]
    return limits.HICCUP * min(values) if values else limits.GAP_S


def _with_short(harms: tuple[Harm, ...], context: Context) -> tuple[Harm, ...]:
    """And what short gaps weaken that the counted ones leave alone."""
    doubted = {one.number for one in harms if one.grade != "VALID"}
    return (*(one for one in context.counting.by_short_gaps if one.number not in doubted), *harms)


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

"""Did a link's delay line keep to its latency? It is a process of this machine
(docs/method.md §3, manipulation checks)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent, worst
from svload.analysis.ranges import harm
from svload.analysis.readings import entities
from svload.analysis.view import Window, kept_window
from svload.model.facts import LINK_LATENCY, LinkFact
from svload.model.results import CheckResult, Grade
from svload.model.study import CaseConfig
from svload.model.units import show_duration

if TYPE_CHECKING:
    from svload.store import TrialData


class DelayLine(Check):
    """WEAK where packets left a link's delay line later than due by more than 5 % of its latency on
    average, or it used 90 % of a core."""

    name = "delay-line"
    row = "manipulation checks: a link's latency kept"
    order = 34
    scope = "timing"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Every link with a latency."""
        links = [
            (facts.service, link) for facts in trial.lab.services for link in facts.links if link.delay_line
        ]
        if not links:
            return self.result("VALID", "No link has a latency.")
        window = kept_window(trial.summary, context.cut.cut_ns)
        told, grades, shares = [], list[Grade](), []
        for service, link in links:
            found = _line(trial, service, link, window)
            if found is None:
                return self.unmeasured(f"nobody read how late the delay line of {link.name} was")
            late_s, cores, sentence = found
            share = late_s / (link.held(LINK_LATENCY) or late_s or 1.0)
            grades.append("WEAK" if share > limits.DELAY_LATE or cores > limits.DELAY_CPU else "VALID")
            shares.append(share)
            told.append(sentence)
        return self.result(
            worst(*grades),
            f"A process held packets back: {'; '.join(told)}.",
            max(shares),
            limits.DELAY_LATE,
            "Ask for less load on that link, a longer latency, or leave more of the machine idle.",
            [harm(self.scope, max(shares), 0.0)] if worst(*grades) == "WEAK" else (),
        )


def _line(trial: TrialData, service: str, link: LinkFact, window: Window) -> tuple[float, float, str] | None:
    """(seconds late on average over a round trip, cores, what is told)."""
    grown: dict[str, float] = {}
    lasted_s = 0.0
    for metric in ("delayed_packets_total", "delay_late_seconds_total", "delay_cpu_seconds_total"):
        table = trial.monitors
        mine = (table["service"] == service) & (table["metric"] == metric) & (table["entity"] == link.name)
        if not np.any(mine):
            return None
        inside = entities(table, mine)[0].enclosing(window)
        grown[metric], lasted_s = inside.growth, inside.seconds
    late_s = 2 * grown["delay_late_seconds_total"] / max(grown["delayed_packets_total"], 1.0)
    cores = grown["delay_cpu_seconds_total"] / lasted_s if lasted_s else 0.0
    asked_s = link.held(LINK_LATENCY) or 0.0
    sentence = (
        f"the round trip of {link.name}, {show_duration(asked_s)}, was {show_duration(late_s)} longer on average, "
        f"and its delay line used {percent(cores)} of a core"
    )
    return late_s, cores, sentence

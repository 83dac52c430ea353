"""Did a limit that a service was given ever act? One that never did limits nothing (docs/method.md §3, manipulation checks)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.readings import entities, mean_rate
from svload.analysis.view import Window, kept_window
from svload.model.facts import CPUS, LINK_RATE, ServiceFacts
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_size

if TYPE_CHECKING:
    from svload.store import TrialData


@dataclass(frozen=True)
class Kind:
    """One kind of limit: the setting that says how much is allowed, the readings of what was used and of how long it held back."""

    setting: str
    used: str
    held: str
    shown: Callable[[float], str]
    held_why: str


KINDS = (
    Kind(CPUS, "cpu_seconds_total", "throttled_seconds_total", lambda cores: f"{cores:g} cores", "quota"),
    Kind(
        LINK_RATE,
        "body_out_bytes_total",
        "link_held_seconds_total",
        lambda rate: f"{show_size(rate)}/s",
        "link",
    ),
)


@dataclass(frozen=True)
class Limit:
    """One service's limit in the kept window: use over what is allowed, and seconds held back (None: nobody read it)."""

    service: str
    kind: Kind
    allowed: float
    use: float
    held_s: float | None

    @property
    def acted(self) -> bool:
        """docs/method.md §3: used to 95 %, or held back at all."""
        return bool(self.held_s) or self.use >= limits.LIMIT_ACTED

    def __str__(self) -> str:
        return (
            f"{self.service} used {percent(self.use)} of its {self.kind.shown(self.allowed)} "
            f"and was held back for {self.held_s or 0.0:.3g} s"
        )


class LimitsActed(Check):
    """WEAK where a service used less than 95 % of its CPU quota, or of its link's rate, and was never held back by it in the kept window."""

    name = "limits-acted"
    row = "manipulation checks: a CPU or link limit that never acted"
    order = 34
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Every limit that a running service reports."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        found = [limit for facts in trial.lab.services for limit in _limits(trial, facts, window)]
        if not found:
            return self.result("VALID", "No service has a quota of CPU or a limited link.", 0.0)
        unread = [limit for limit in found if limit.held_s is None]
        if unread:
            lacking = ", ".join(f"{limit.kind.held_why} of {limit.service}" for limit in unread)
            return self.unmeasured(f"nobody read how long the {lacking} held it back")
        idle = [limit for limit in found if not limit.acted]
        told = "; ".join(str(limit) for limit in (idle or found))
        if idle:
            return self.result(
                "WEAK",
                f"A limit never acted: {told}.",
                max(limit.use for limit in idle),
                limits.LIMIT_ACTED,
                "Make the limit smaller or the load larger, or leave the limit out.",
            )
        return self.result(
            "VALID", f"Limits acted: {told}.", min(limit.use for limit in found), limits.LIMIT_ACTED
        )


def _limits(trial: TrialData, facts: ServiceFacts, window: Window) -> Iterator[Limit]:
    for kind in KINDS:
        found = next((setting.found for setting in facts.settings if setting.name == kind.setting), None)
        if found:
            allowed = float(found)
            use = _used(trial, facts.service, kind, window) / allowed
            yield Limit(facts.service, kind, allowed, use, _held_s(trial, facts.service, kind, window))


def _held_s(trial: TrialData, service: str, kind: Kind, window: Window) -> float | None:
    mine = (trial.monitors["service"] == service) & (trial.monitors["metric"] == kind.held)
    if not np.any(mine):
        return None
    return sum(series.enclosing(window).change for series in entities(trial.monitors, mine))


def _used(trial: TrialData, service: str, kind: Kind, window: Window) -> float:
    """Cores, or bytes a second, on average in the window."""
    mine = (trial.monitors["service"] == service) & (trial.monitors["metric"] == kind.used)
    rates = (mean_rate(series, window) for series in entities(trial.monitors, mine))
    return sum(rate for rate in rates if rate is not None)

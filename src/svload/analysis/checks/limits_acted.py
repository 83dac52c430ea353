"""Did a limit of CPU that a service was given ever act? One that never did limits nothing (METHOD §3, manipulation checks)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.readings import entities
from svload.analysis.view import Window, kept_window
from svload.model.facts import CPUS, ServiceFacts
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class LimitsActed(Check):
    """WEAK where a service used less than 95 % of its CPU quota and was never held back by it in the kept window."""

    name = "limits-acted"
    row = "manipulation checks: a CPU or link limit that never acted"
    order = 34

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Every service with a quota; those of other kinds of limit are not offered."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        quotas = {facts.service: quota for facts in trial.lab.services if (quota := _quota(facts))}
        if not quotas:
            return self.result("VALID", "No service has a CPU quota.", 0.0)
        throttled = {service: _throttled_s(trial, service, window) for service in quotas}
        if any(seconds is None for seconds in throttled.values()):
            lacking = ", ".join(service for service, seconds in throttled.items() if seconds is None)
            return self.unmeasured(f"nobody read how long the quota of {lacking} held it back")
        used = {service: _used(context, service) / quota for service, quota in quotas.items()}
        idle = [
            service for service in quotas if not throttled[service] and used[service] < limits.LIMIT_ACTED
        ]
        told = "; ".join(
            f"{service} used {percent(used[service])} of its {quotas[service]:g} cores and was held back for {throttled[service] or 0.0:.3g} s"
            for service in (idle or quotas)
        )
        if idle:
            return self.result(
                "WEAK",
                f"A limit never acted: {told}.",
                max(used[service] for service in idle),
                limits.LIMIT_ACTED,
                "Make the limit smaller or the load larger, or leave the limit out.",
            )
        return self.result("VALID", f"Limits acted: {told}.", min(used.values()), limits.LIMIT_ACTED)


def _quota(facts: ServiceFacts) -> float | None:
    found = next((setting.found for setting in facts.settings if setting.name == CPUS), None)
    return float(found) if found else None


def _throttled_s(trial: TrialData, service: str, window: Window) -> float | None:
    mine = (trial.monitors["service"] == service) & (trial.monitors["metric"] == "throttled_seconds_total")
    if not np.any(mine):
        return None
    return sum(series.enclosing(window).change for series in entities(trial.monitors, mine))


def _used(context: Context, service: str) -> float:
    """Cores used on average in the window."""
    estimate = context.metrics.get(f"{service}.cpu.mean")
    return estimate.value if estimate is not None and estimate.value is not None else 0.0

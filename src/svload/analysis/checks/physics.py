"""Nothing is faster than what carries it: bytes a second against what the preflight measured
on loopback (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.checks.same_host import on_this_host
from svload.analysis.view import kept_window
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_size

if TYPE_CHECKING:
    from svload.store import TrialData


class Physics(Check):
    """REFUSED above loopback's bandwidth: one stream's, times the cores that can receive at once."""

    name = "physics"
    row = "physics"
    order = 16
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """All groups together, over the kept window."""
        conditions = trial.lab.conditions
        machine = conditions.machine if conditions else None
        if machine is None or machine.loopback_bytes_per_s is None:
            return self.unmeasured("the preflight did not measure what loopback carries")
        if not on_this_host(trial):
            return self.unmeasured("the servers are not on this host, and nobody measured the link to them")
        window = kept_window(trial.summary, context.cut.cut_ns)
        received = sum(int(group.intervals["bytes_received"].sum()) for group in context.groups)
        rate = received / window.seconds if window.size else 0.0
        most = machine.loopback_bytes_per_s * max(machine.load_cores, 1)
        share = rate / most
        told = f"{show_size(rate)}/s were received, {percent(share)} of what loopback carries ({show_size(most)}/s)."
        remedy = (
            "Nothing can be that fast: report this trial as a defect of the load engine (or run svload "
            "doctor, if the machine has changed)."
        )
        return self.result("REFUSED" if rate > most else "VALID", told, rate, most, remedy)

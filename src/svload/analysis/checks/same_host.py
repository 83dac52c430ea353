"""Load and servers on one machine: a label, no grade (docs/method.md §3)."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class SameHost(Check):
    """Always VALID. Cores that are pinned apart are apart in user time only: loopback's
    interrupts run on the sender's core."""

    name = "same-host"
    row = "same host"
    order = 90

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """By where the services listen."""
        if on_this_host(trial):
            return self.result(
                "VALID", "SAME HOST: load and servers share one machine, so no absolute capacity is claimed."
            )
        return self.result("VALID", "The servers are on other hosts than the load.")


def on_this_host(trial: TrialData) -> bool:
    """Whether any server listens on loopback, or was started by this lab (which is this machine's), and this machine
    made load."""
    conditions = trial.lab.conditions
    if conditions is not None and conditions.clocks and not any(clock.here for clock in conditions.clocks):
        return False
    here = [facts for facts in trial.lab.services if not facts.machine]
    return any(facts.processes for facts in here) or any(
        _is_loopback(end.address) for facts in here for end in facts.endpoints
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False

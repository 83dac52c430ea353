"""Is every server asked over one address family? “localhost” may be 127.0.0.1 here and
::1 there (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class Families(Check):
    """WEAK where a server that the case asks has an IPv4 and an IPv6 address among its endpoints."""

    name = "address-families"
    row = "localhost in two families"
    order = 57

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """By the services' endpoints."""
        asked = {host for group in context.groups for host in group.spec.hosts}
        families = {
            facts.service: sorted({"IPv6" if ":" in end.address else "IPv4" for end in facts.endpoints})
            for facts in trial.lab.services
            if facts.service in asked
        }
        both = [service for service, found in families.items() if len(found) > 1]
        if both:
            return self.result(
                "WEAK",
                f"{', '.join(both)} is asked over IPv4 and over IPv6.",
                float(len(both)),
                0.0,
                "Write the literal address (127.0.0.1 or ::1) instead of a name.",
            )
        used = sorted({family for found in families.values() for family in found})
        told = f"over {used[0]} alone" if len(used) == 1 else "over one family each"
        return self.result("VALID", f"Servers are asked {told}.", 0.0, 0.0)

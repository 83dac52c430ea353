"""Are there ports enough for the new connections a second that were made? (docs/method.md §3)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.analysis.view import GroupView
from svload.model.conditions import Machine
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class ConnectionRate(Check):
    """WEAK where a group opens more connections a second than ports × sources over the time that a port
    rests. Those ended by RST rest none."""

    name = "connection-rate"
    row = "new-connection rate > ports × sources / reuse time"
    order = 55

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        conditions = trial.lab.conditions
        if conditions is None or conditions.machine is None:
            return self.unmeasured("nobody counted the machine's ports")
        end_ns = trial.summary.window_ns[1]
        rates = [
            (group, _rate(group, end_ns) / _sources(group))
            for group in context.groups
            if group.spec.close == "fin"
        ]
        if not rates:
            return self.result("VALID", "No connection was made whose port rests afterwards.", 0.0)
        group, rate = max(rates, key=lambda one: one[1])
        most = _most(conditions.machine)
        return self.result(
            "WEAK" if rate > most else "VALID",
            f"{group.name} opened {rate:,.6g} new connections a second from each address; the local ports "
            f"allow {most:,.6g}.",
            rate,
            most,
            "Use keep-alive, close: reset, more source addresses, or fewer new connections a second.",
        )


def _sources(group: GroupView) -> int:
    return max(len(group.spec.source_addresses), 1)


def _rate(group: GroupView, end_ns: int) -> float:
    """Connections opened per second of load; those of the first instant of a keep-alive group count too."""
    return group.summary.connections_opened / max(end_ns / 1e9, 1.0)


def _most(machine: Machine) -> float:
    return machine.local_ports / machine.port_reuse_s

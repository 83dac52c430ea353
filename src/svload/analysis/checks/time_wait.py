"""Local ports that still rested from earlier connections when the trial began (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class TimeWait(Check):
    """WEAK above 5 % of the local ports. Sockets in TIME_WAIT on a server's side hold
    no local port and do not count."""

    name = "time-wait"
    row = "TIME_WAIT at start"
    order = 54

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """At the trial's start."""
        conditions = trial.lab.conditions
        if conditions is None or conditions.machine is None or conditions.before.time_wait is None:
            return self.unmeasured("nobody counted the ports that still rested")
        count, ports = conditions.before.time_wait, conditions.machine.local_ports
        share = count / max(ports, 1)
        return self.result(
            "WEAK" if share > limits.TIME_WAIT else "VALID",
            f"At the start {count:,} of {ports:,} local ports rested in TIME_WAIT ({percent(share)}).",
            share,
            limits.TIME_WAIT,
            "Write close: reset in groups of new connections, use keep-alive, or leave a minute between such trials.",
        )

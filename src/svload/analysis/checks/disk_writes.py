"""Did a limit of disk writes hold all of them? (docs/method.md §3, manipulation checks)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.model.facts import BUFFERED, DISK_WRITE
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData

VERSION_1 = "blkio"
"""The controller that such a group has with version 1 of the kernel's control groups."""


class DiskWrites(Check):
    """WEAK where a service's disk writes are limited by version 1 of the kernel's control groups, which
    cannot tell whose a later write is."""

    name = "disk-writes"
    row = "manipulation checks: a limit of disk writes that buffered ones escape"
    order = 34
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Every group with such a limit, from the begin or by a planned fault."""
        limited = {
            group.name: VERSION_1 in group.paths
            for facts in trial.lab.services
            for group in facts.groups
            if group.held(DISK_WRITE)
        }
        for event in trial.lab.faults:
            if DISK_WRITE in event.limits and event.disturbs:
                limited[event.target] = _is_old(trial, event.target)
        escaped = sorted(name for name, old in limited.items() if old)
        if not escaped:
            told = "are held, buffered ones too" if limited else "have no limit"
            return self.result("VALID", f"Disk writes {told}.")
        return self.result(
            "WEAK",
            f"The limit of disk writes of {' and '.join(escaped)} may not have held: {BUFFERED}.",
            remedy="Use a machine with version 2 (Debian 12's own kernel), limit reads alone, or let the "
            "server write synchronously.",
        )


def _is_old(trial: TrialData, target: str) -> bool:
    """Whether the service of that server, or part of one, is held by version 1."""
    service = target.partition(".")[0].partition("[")[0]
    return any(
        VERSION_1 in group.paths
        for facts in trial.lab.services
        if facts.service == service
        for group in facts.groups
    )

"""Had a server's files really left the page cache, where the study dropped them?
(docs/method.md §3, manipulation checks)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.model.facts import FILES, RESIDENT_FILES
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_size

if TYPE_CHECKING:
    from svload.store import TrialData


class ColdFiles(Check):
    """WEAK where more than 1 % of the files of a server lay in the page cache at the start although a step
    before the trial dropped them.

    What a process has mapped, and what lies on a file system without a disk (tmpfs), cannot be dropped.
    """

    name = "cold-files"
    row = "manipulation checks: cold page cache"
    order = 36
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Every server whose files were to be dropped."""
        dropped = dict.fromkeys(service for step in config.before_trial for service in step.drop_cache)
        if not dropped:
            return self.result("VALID", "No files were to be dropped from the page cache.")
        values = {
            service: trial.lab.before[service].values for service in dropped if service in trial.lab.before
        }
        shares = {
            service: known[RESIDENT_FILES] / known[FILES]
            for service, known in values.items()
            if known.get(FILES)
        }
        if not shares:
            return self.unmeasured("no server whose files were dropped tells of them")
        worst = max(shares, key=lambda service: shares[service])
        told = "; ".join(
            f"{percent(share)} of the {show_size(values[service][FILES])} of {service}"
            for service, share in shares.items()
        )
        return self.result(
            "WEAK" if shares[worst] > limits.COLD else "VALID",
            f"Files were dropped from the page cache, and at the start it held {told}.",
            shares[worst],
            limits.COLD,
            "Put the files on a disk, let no process map them, and drop them last before the load.",
        )

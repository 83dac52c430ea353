"""Were the study's own servers started from the same programs in all trials (docs/method.md §3)?"""

from __future__ import annotations

from svload.analysis.checks.base import Check, Context
from svload.model.facts import other_programs
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.store import TrialData


class Build(Check):
    """REFUSED where a program that a server was started from differs in a later trial: trials of two builds
    are never one case."""

    name = "build"
    row = "programs of the study's folder that a server was started from"
    order = 12
    scope = "all"
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Compare their digests at each start."""
        if not trial.lab.programs:
            return self.result("VALID", "No server was started from a program in the study's folder.")
        changed = other_programs(trial.lab.programs, context.programs)
        if changed:
            return self.result(
                "REFUSED",
                f"This trial used a different build than later trials: {', '.join(changed)} changed.",
                float(len(changed)),
                0.0,
                "Measure both builds in one study, as levels of a factor.",
            )
        return self.result("VALID", "All later trials used the same build.", 0.0, 0.0)

"""The factor did what it says: every `expect` of the case's levels, by counters, feeders
and traffic (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.analysis.criteria import criterion_of, find, show
from svload.analysis.recovery import ended_services
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class Manipulation(Check):
    """REFUSED where an expectation does not hold or cannot be read, but for a service that came to its end in
    the trial, or that a planned fault ended."""

    name = "manipulation"
    row = "manipulation checks: expect"
    order = 30
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """All expectations of the case."""
        held, broken = [], []
        fallen = {death.service.partition("[")[0] for death in trial.lab.deaths} | ended_services(trial)
        for text in config.expects:
            criterion = criterion_of(text, config, context.owners)
            estimate = find(criterion.ref, context.metrics)
            shown = show(criterion.ref, estimate.value)
            if estimate.value is not None and criterion.holds(estimate.value):
                held.append(f"{text} (it was {shown})")
            elif estimate.value is None and criterion.ref.owner in fallen:
                held.append(f"{text} (its counters went with {criterion.ref.owner})")
            elif estimate.value is None:
                broken.append(f"{text} could not be read: {estimate.reason}")
            else:
                broken.append(f"{text} was expected, it was {shown}")
        if broken:
            remedy = "Make the level act (see the service's settings and reset), or correct its expect."
            return self.result(
                "REFUSED",
                f"The factor did not do what it says: {'; '.join(broken)}.",
                float(len(broken)),
                0.0,
                remedy,
            )
        told = (
            f"The factors did what they say: {'; '.join(held)}."
            if held
            else "No level of this case states an expectation."
        )
        return self.result("VALID", told, 0.0, 0.0)

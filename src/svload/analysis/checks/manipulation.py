"""Did the factor do what it says, and was each trial what its case says? (docs/method.md §3, manipulation
checks)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context, Part
from svload.analysis.checks.connections import connection_reuse, tls_sessions
from svload.analysis.checks.files import cold_files, warm_files
from svload.analysis.criteria import criterion_of, find, show
from svload.analysis.recovery import ended_services
from svload.analysis.view import first_feeder
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class Manipulation(Check):
    """REFUSED where an `expect` of the case does not hold or cannot be read (except for a service that ended
    in the trial), rows of a walk were requested again before it was over, TLS or connections were not used as
    requested, or files that should be in the page cache were not.

    WEAK where files that were dropped from the page cache were still there.
    """

    name = "manipulation"
    row = "manipulation checks: expect, repeats, TLS, connections, page cache"
    order = 30
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Judge everything that the study asks of the lab and of the traffic."""
        parts = [
            *_expects(trial, config, context),
            *_repeats(config, context),
            *tls_sessions(trial, context),
            connection_reuse(trial, context),
            *warm_files(trial, config, context),
            *cold_files(trial, config, context),
        ]
        return self.of_parts(parts)


def _expects(trial: TrialData, config: CaseConfig, context: Context) -> Iterator[Part]:
    held, broken = [], []
    fallen = {death.service.partition("[")[0] for death in trial.lab.deaths} | ended_services(trial)
    for text in config.expects:
        criterion = criterion_of(text, config, context.owners)
        estimate = find(criterion.ref, context.metrics)
        shown = show(criterion.ref, estimate.value)
        if estimate.value is not None and criterion.holds(estimate.value):
            held.append(f"{text} (it was {shown})")
        elif estimate.value is None and criterion.ref.owner in fallen:
            held.append(f"{text} (its counters were lost with {criterion.ref.owner})")
        elif estimate.value is None:
            broken.append(f"{text} could not be read: {estimate.reason}")
        else:
            broken.append(f"expected {text}, got {shown}")
    if broken:
        remedy = "Make the level take effect (check the service's settings and reset), or correct its expect."
        yield Part("REFUSED", f"the factor did not take effect: {'; '.join(broken)}", remedy)
    elif held:
        yield Part("VALID", f"the factors took effect: {'; '.join(held)}")


def _repeats(config: CaseConfig, context: Context) -> Iterator[Part]:
    """Check repeats: `take: walk` plans none before the whole table was seen; other ways of taking rows
    do."""
    walks = {feeder.name for feeder in config.feeders if feeder.take == "walk"}
    walking = [group for group in context.groups if first_feeder(group.spec) in walks]
    again = [(group.name, group.summary.early_repeats) for group in walking if group.summary.early_repeats]
    if again:
        told = ", ".join(f"{name} {count:,} times" for name, count in again)
        remedy = "This is a bug in the load engine or the feeder: report it with this trial."
        yield Part("REFUSED", f"rows were requested again before the walk was complete: {told}", remedy)
    elif walking:
        names = ", ".join(group.name for group in walking)
        yield Part("VALID", f"no row was asked again before the whole table was walked ({names})")

"""Did a server's files really lie in the page cache, or did its answers come from a disk?
(docs/method.md §3, manipulation checks)"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.readings import entities
from svload.analysis.view import Window, kept_window
from svload.model.facts import FILES, RESIDENT_FILES
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_size

if TYPE_CHECKING:
    from svload.store import TrialData


class Warmth(NamedTuple):
    """One server: share of its files in the page cache at the start; bytes read from a disk over
    those the load received of it."""

    service: str
    resident: float
    reads: float

    @property
    def cold(self) -> bool:
        """docs/method.md §3: disk reads above 1 % of the bytes, or less than 99 % resident at the start."""
        return self.resident < limits.RESIDENT or self.reads > limits.DISK_READS


class WarmFiles(Check):
    """REFUSED where less than 99 % of the files of a server lay in the page cache at the start, or it had a
    disk read more than 1 % of what it sent.

    It judges servers that tell of their files; svload writes those before the first trial, and an
    idle machine may drop them again.
    """

    name = "warm-files"
    row = "manipulation checks: warm page cache"
    order = 35
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Every server with files that the load asks."""
        window = kept_window(trial.summary, context.cut.cut_ns)
        cold_on_purpose = {service for step in config.before_trial for service in step.drop_cache}
        found = [
            one
            for service in sorted(trial.lab.before.keys() - cold_on_purpose)
            if (one := _warmth(trial, service, context, window))
        ]
        if not found:
            return self.result("VALID", "No server that is asked tells of files that it sends.")
        cold = [one for one in found if one.cold]
        told = "; ".join(
            f"{one.service} had {percent(one.resident)} of its "
            f"{show_size(trial.lab.before[one.service].values[FILES])} "
            f"of files in the page cache at the start and read {percent(one.reads)} of what it sent from a disk"
            for one in (cold or found)
        )
        return self.result(
            "REFUSED" if cold else "VALID",
            f"{'The page cache was not warm' if cold else 'The page cache was warm'}: {told}.",
            min(one.resident for one in (cold or found)),
            limits.RESIDENT,
            "Warm the files right before the load (before_trial: warm), or give the server memory for them.",
        )


def _warmth(trial: TrialData, service: str, context: Context, window: Window) -> Warmth | None:
    values = trial.lab.before[service].values
    asking = [group for group in context.groups if service in group.spec.hosts]
    if not values.get(FILES) or not asking:
        return None
    received = sum(int(group.intervals["bytes_received"].sum()) for group in asking)
    read = disk_reads(trial, service, window) or 0.0
    return Warmth(service, values[RESIDENT_FILES] / values[FILES], read / max(received, 1))


def disk_reads(trial: TrialData, service: str, window: Window) -> float | None:
    """Bytes that a server's processes had a disk read, by the readings that enclose the window; None: nobody counted."""
    mine = (trial.monitors["service"] == service) & (trial.monitors["metric"] == "read_bytes_total")
    if not np.any(mine):
        return None
    return max(sum(series.enclosing(window).change for series in entities(trial.monitors, mine)), 0.0)

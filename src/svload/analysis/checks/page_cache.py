"""Did anyone drop the page cache during the trial? (docs/method.md §3)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.analysis.readings import of_monitor
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


class PageCache(Check):
    """WEAK if the kernel counted a drop between the readings before and after the load; svload
    itself drops none during a load."""

    name = "page-cache"
    row = "drop_pagecache in vmstat changed by others"
    order = 53

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        dropped = of_monitor(trial.monitors, "host", "drop_pagecache_total").get("")
        if dropped is None or len(dropped.at) < 2:
            return self.unmeasured("no monitor counted drops of the page cache")
        count = dropped.change
        if count > 0:
            return self.result(
                "WEAK",
                f"Someone dropped the page cache {count:.0f} times during the trial.",
                count,
                0.0,
                "Stop what writes to /proc/sys/vm/drop_caches.",
            )
        return self.result("VALID", "Nobody dropped the page cache.", 0.0, 0.0)

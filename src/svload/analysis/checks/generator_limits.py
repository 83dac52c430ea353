"""Limits of the generator itself: no descriptor, no port, no buffer. Any of them REFUSES
the trial (docs/method.md §3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.checks.base import Check, Context
from svload.model.request_errors import GENERATOR_LIMITS
from svload.model.results import CheckResult
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData

_MEANING = {
    "emfile": (
        "had no file descriptor left",
        "Raise the limit of open files (ulimit -n) of the generator, or ask for fewer users.",
    ),
    "eaddrnotavail": (
        "had no local port left",
        "Use keep-alive, more source addresses, or fewer new connections a second.",
    ),
    "enobufs": (
        "had no socket buffer left",
        "Raise net.ipv4.tcp_mem and net.core.wmem_max, or ask for fewer users.",
    ),
}


class GeneratorLimits(Check):
    """EMFILE, EADDRNOTAVAIL, ENOBUFS."""

    name = "generator-limits"
    row = "generator's own limits"
    order = 14
    comparisons = "lost"
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """REFUSED if any happened."""
        counts = {
            name: sum(group.errors.get(name, 0) for group in trial.summary.groups)
            for name in GENERATOR_LIMITS
        }
        met = {name: count for name, count in counts.items() if count}
        if not met:
            return self.result(
                "VALID", "The generator met none of its own limits (descriptors, ports, buffers).", 0.0, 0.0
            )
        told = ", ".join(f"{count:,} requests {_MEANING[name][0]} ({name})" for name, count in met.items())
        return self.result(
            "REFUSED",
            f"The generator reached its own limit: {told}.",
            float(sum(met.values())),
            0.0,
            _MEANING[max(met, key=lambda n: met[n])][1],
        )

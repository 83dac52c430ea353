"""The planted values of a synthetic run: numbers that analysis must find, faults that it must detect."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import ClassVar

from svload.model.base import Artefact

SIGMA = 0.3
"""The log-sd of responses within a trial."""

FAULTS: Mapping[str, str] = {
    "no-hits": "the servers' counters contradict the server level: hits where misses are asked, misses where "
    "hits are, use where none is",
    "generator-limited": "the generator's lag adds about the median again to every response",
    "too-short": "think time is four times the duration: one request a VU",
    "overloaded": "arrivals at 1.5 times what the slots can serve (needs load=open): the backlog grows, the "
    "generator is clean",
    "errors": "5 % of requests fail: refused, 503 and timed out",
    "unsealed": "the trial has no seal",
    "hostile-names": "cases, levels and the study carry names that break careless readers (the whole run; pattern *)",
}
"""Fault name → what it does to the trials in which it is planted."""


class Truth(Artefact):
    """truth.json beside a synthetic run: the population of each case's responses, a lognormal of log-sd
    `SIGMA`, by its median in ns, and the factor on it that was drawn for each trial."""

    FORMAT: ClassVar[int] = 1
    median_ns: dict[str, float]
    noise: dict[str, float]

    def ratio(self, treatment: str, baseline: str) -> float:
        """Return the true ratio of medians of two cases."""
        return self.median_ns[treatment] / self.median_ns[baseline]


def fault_of(faults: Mapping[str, str], trial: str, case: str) -> str | None:
    """Return a trial's fault: the first pattern that matches its or its case's name (not `hostile-names`)."""
    for pattern, fault in faults.items():
        if fault not in FAULTS:
            raise ValueError(f"there is no fault {fault!r}; known: {', '.join(FAULTS)}")
        if fault != "hostile-names" and any(
            name == pattern or fnmatchcase(name, pattern) for name in (trial, case)
        ):
            return fault
    return None

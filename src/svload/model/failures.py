"""A case's failed requests, as findings have them: only counts, which nothing that disturbs times can
change."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen


class FailureKind(Frozen):
    """One way in which requests failed, and how often."""

    kind: Literal["status", "error", "check"]
    """status: an answer with a status that was not expected; check: a complete answer that failed a check;
    error: any other way"""
    name: str
    """the status, the check, or the error's name"""
    count: int
    """how many failed in this way, over all of the case's trials; a request may fail several checks"""
    expected: str = ""
    """the expected statuses, such as 200 or 200 to 399; empty: it is about no status"""


class Failures(Frozen):
    """Failures of one case's traffic group, or of one step of its scenarios, over all sealed trials, also
    REFUSED ones. Failures due to the generator's own limits are left out: they refuse the trial."""

    case: str
    """the case, as in the lock"""
    group: str
    """the traffic group"""
    step: str = ""
    """the step of its scenarios; empty: the whole group"""
    ended: int
    """requests that ended, ok or failed"""
    failed: int
    """of those, the failed ones"""
    trials: tuple[str, ...]
    """the trials in which some failed"""
    kinds: tuple[FailureKind, ...]
    """how they failed, the most frequent first"""
    beside: Literal["", "few", "allowed", "planned fault", "search"] = ""
    """why it does not lead the answer; empty: it does. few: at least 99.9 % were ok; allowed: a criterion of the
    study on success or errors holds; planned fault, search: failures are what the study is after"""

    @property
    def owner(self) -> str:
        """Return the owner's name in metrics: `shop`, or `shop.order`."""
        return f"{self.group}.{self.step}" if self.step else self.group

"""What failed of a case's requests, as findings hold it: counts alone, which nothing that disturbs times can change."""

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
    """how many failed so, over all of the case's trials; a request may fail several checks"""
    expected: str = ""
    """the statuses that were expected, such as 200 or 200 to 399; empty: it is about no status"""


class Failures(Frozen):
    """What failed of one case's traffic group, or of one step of its scenarios, over all sealed trials, REFUSED
    ones too. What the generator's own limits cost is left out: it refuses the trial."""

    case: str
    """the case, as in the lock"""
    group: str
    """the traffic group"""
    step: str = ""
    """the step of its scenarios; empty: the whole group"""
    ended: int
    """requests that ended, ok or failed"""
    failed: int
    """of those, the ones that failed"""
    trials: tuple[str, ...]
    """the trials in which some failed"""
    kinds: tuple[FailureKind, ...]
    """how they failed, the most frequent first"""
    beside: Literal["", "few", "allowed", "planned fault", "search"] = ""
    """why it does not lead the answer; empty: it does. few: at least 99.9 % were ok; allowed: a criterion of the
    study on success or errors holds; planned fault, search: failures are what the study is after"""

    @property
    def owner(self) -> str:
        """As metrics name it: `shop`, or `shop.order`."""
        return f"{self.group}.{self.step}" if self.step else self.group

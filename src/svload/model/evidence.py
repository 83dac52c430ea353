"""Evidence of limits in a trial and a case: how near each was, which counters of refusals grew, in which
order."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen
from svload.model.declared import Refused, Resource

LimitState = Literal["reached", "approached", "clear"]
"""At its limit; above 80 % of it; neither."""


class DeclaredLimit(Frozen):
    """A limit declared by a monitor."""

    service: str
    """the service; empty: the machine"""
    monitor: str
    """the monitor that read it"""
    name: str
    """what is limited, in words"""
    resource: Resource
    """what runs out"""
    entity: str
    """port, core, disk …; empty: the whole"""


class DeclaredRefusal(Frozen):
    """A counter of refusals declared by a monitor."""

    service: str
    """the service; empty: the machine"""
    monitor: str
    """the monitor that read it"""
    counter: str
    """the metric"""
    resource: Resource
    """what ran out"""
    entity: str
    """port, core, disk …; empty: the whole"""
    means: str
    """what it counts, as the end of a sentence that begins with a number"""
    kind: Refused
    """what happened to the things counted"""


class LimitUse(DeclaredLimit):
    """One declared limit in a trial's kept window."""

    used: float
    """mean in the window, in the metric's unit; for a counter per second"""
    limit: float
    """mean of the limit in the window"""
    share: float
    """mean of used over limit (1 is all of it)"""
    peak_share: float
    """the largest reading of that share"""
    full: float
    """share of the readings that are at the limit"""
    waiting: float | None = None
    """mean of what waited for it; null: not read"""
    state: LimitState
    """reached or approached, by the rule of the declared limit"""
    first_s: float | None = None
    """first full reading of the whole trial, in seconds from the load's start; null: there was none"""
    verdict: bool = True
    """as declared: a server that reached it is SATURATED"""


class RefusalCount(DeclaredRefusal):
    """One declared counter of refusals that grew in a trial."""

    count: float
    """growth in the whole trial"""
    in_window: float
    """growth in the kept window"""
    first_s: float
    """first reading that showed growth, in seconds from the load's start"""
    verdict: bool = True
    """as declared: a server whose counter grew is SATURATED"""


class Evidence(Frozen):
    """Evidence of the declared limits in a trial: every limit that was read, every counter that grew."""

    limits: tuple[LimitUse, ...] = ()
    """by service, the machine first"""
    refusals: tuple[RefusalCount, ...] = ()
    """in the order in which they began to grow"""


class CaseLimit(DeclaredLimit):
    """One declared limit over a case's trials."""

    used: float
    """mean over trials"""
    limit: float
    """mean over trials"""
    share: float
    """mean over trials of the mean of used over limit"""
    peak_share: float
    """largest of any trial"""
    state: LimitState
    """the state in most trials, the worse one in a tie"""
    reached: int
    """trials in which it was reached"""
    trials: int
    """trials in which it was read"""
    first_s: float | None = None
    """median over trials of the first full reading, in seconds from the load's start; null: never"""
    verdict: bool = True
    """as declared: a server that reached it is SATURATED"""


class CaseRefusal(DeclaredRefusal):
    """One declared counter of refusals over a case's trials."""

    count: float
    """mean growth over all trials of the case"""
    moved: int
    """trials in which it grew"""
    trials: int
    """trials of the case"""
    first_s: float
    """median over these of when it began to grow, in seconds from the load's start"""
    verdict: bool = True
    """as declared: a server whose counter grew is SATURATED"""


class CaseEvidence(Frozen):
    """Evidence of the declared limits in a case, over its trials."""

    limits: tuple[CaseLimit, ...] = ()
    """every limit that was read, the machine's first"""
    refusals: tuple[CaseRefusal, ...] = ()
    """every counter that grew in some trial, the first to grow first"""

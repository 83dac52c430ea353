"""What a trial, and a case, show of limits: how near each was, which counter of refusals moved, and what came first."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen
from svload.model.declared import Refused, Resource

LimitState = Literal["reached", "approached", "clear"]
"""At its limit; above 80 % of it; neither."""


class DeclaredLimit(Frozen):
    """A limit as a monitor declares it."""

    service: str
    """the service; empty: the machine"""
    monitor: str
    """who read it"""
    name: str
    """what is limited, in words"""
    resource: Resource
    """what runs out"""
    entity: str
    """port, core, disk …; empty: the whole"""


class DeclaredRefusal(Frozen):
    """A counter of refusals as a monitor declares it."""

    service: str
    """the service; empty: the machine"""
    monitor: str
    """who read it"""
    counter: str
    """the metric"""
    resource: Resource
    """what ran out"""
    entity: str
    """port, core, disk …; empty: the whole"""
    means: str
    """what it counts, as the end of a sentence that begins with a number"""
    kind: Refused
    """what became of those that are counted"""


class LimitUse(DeclaredLimit):
    """One declared limit in a trial's kept window."""

    used: float
    """mean in the window, in the metric's unit; of a counter a second"""
    limit: float
    """mean of the limit in the window"""
    share: float
    """mean of used over limit (1 is all of it)"""
    peak_share: float
    """the largest reading of that"""
    full: float
    """share of the readings that are at the limit"""
    waiting: float | None = None
    """mean of what waited for it; null: nothing tells"""
    state: LimitState
    """reached and approached as the limit is declared"""
    first_s: float | None = None
    """first full reading of the whole trial, in seconds from the load's start; null: none was"""
    verdict: bool = True
    """as declared: a server that reached it is SATURATED"""


class RefusalCount(DeclaredRefusal):
    """One declared counter of refusals that moved in a trial."""

    count: float
    """by how much it grew in the whole trial"""
    in_window: float
    """the same in the kept window"""
    first_s: float
    """first reading that showed it grown, in seconds from the load's start"""
    verdict: bool = True
    """as declared: a server whose counter moved is SATURATED"""


class Evidence(Frozen):
    """What a trial shows of its declared limits: every limit that was read, every counter that moved."""

    limits: tuple[LimitUse, ...] = ()
    """by service, the machine first"""
    refusals: tuple[RefusalCount, ...] = ()
    """in the order in which they began to move"""


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
    """what most trials show, the worse of equals"""
    reached: int
    """trials in which it was reached"""
    trials: int
    """trials in which it was read"""
    first_s: float | None = None
    """median over trials of when it was first full, in seconds from the load's start; null: never"""
    verdict: bool = True
    """as declared: a server that reached it is SATURATED"""


class CaseRefusal(DeclaredRefusal):
    """One declared counter of refusals over a case's trials."""

    count: float
    """mean growth over all trials of the case"""
    moved: int
    """trials in which it moved"""
    trials: int
    """trials of the case"""
    first_s: float
    """median over these of when it began to move, in seconds from the load's start"""
    verdict: bool = True
    """as declared: a server whose counter moved is SATURATED"""


class CaseEvidence(Frozen):
    """What a case shows of its declared limits, over its trials."""

    limits: tuple[CaseLimit, ...] = ()
    """every limit that was read, the machine's first"""
    refusals: tuple[CaseRefusal, ...] = ()
    """every counter that moved in some trial, the first to move first"""

"""What monitors declare of what they read: gauges against limits, counters of refusals, and what each means.

Plain data: a trial's lab.json holds what its monitors declared, so that judges need to know no server. Only
the standard library, since the sampler imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Resource = Literal[
    "cpu",
    "memory",
    "disk",
    "network",
    "workers",
    "accept queue",
    "connections",
    "descriptors",
    "storage",
    "lock",
]
"""What can run out, as docs/method.md §5 lists it."""
Refused = Literal["refused", "lost", "failed", "waited"]
"""What a counter counts: turned away; lost on its way; broken off or answered with an error; served, but later."""


@dataclass(frozen=True)
class Limit:
    """A gauge against its limit. Each entity that `used` has is held against the limit of the same
    entity, else that of the whole.

    It is reached: with `waiting`, where nearly all readings are full while something waits; with `brief`,
    where one reading is full; else where it is full on average.
    """

    name: str
    """what is limited, in words: worker threads"""
    resource: Resource
    """what runs out"""
    used: str
    """the metric that is held against the limit; of a counter its growth a second"""
    of: str | float
    """the same monitor's metric that tells the limit, or the limit itself; where it reads 0 there is none"""
    waiting: str = ""
    """the same monitor's metric of what waits for it; empty: none tells"""
    at: float = 1.0
    """share of the limit from which it is full"""
    beyond: bool = False
    """full only above the limit, since one more is let in than it says"""
    brief: bool = False
    """a moment at the limit already turns somebody away"""
    verdict: bool = True
    """a server that reached it is SATURATED; false: evidence alone, since it may be another's doing"""
    entity: str | None = None
    """only this entity; null: each"""
    own: str = ""
    """the same monitor's counter of what a service used itself, where `used` tells everybody's use: reached only where all
    services together used half of the limit; empty: `used` is the service's own"""


@dataclass(frozen=True)
class Refusal:
    """A counter that moves when something was turned away, lost or made to wait because a limit was reached."""

    counter: str
    """the metric, a `…_total`"""
    means: str
    """what it counts, as the end of a sentence that begins with a number: sessions dropped for a full queue"""
    resource: Resource
    """what ran out"""
    kind: Refused = "refused"
    """what became of those that are counted"""
    verdict: bool = True
    """a server whose counter moved is SATURATED; false: evidence alone, since it has other
    causes too or may be another's
    """
    beside: str = ""
    """`monitor.counter` of the machine that must move in the same time; empty: none"""


@dataclass(frozen=True)
class Declared:
    """What one monitor declares."""

    monitor: str
    """its name, as the readings have it"""
    limits: tuple[Limit, ...] = ()
    """its gauges with limits"""
    refusals: tuple[Refusal, ...] = ()
    """its counters of refusals"""

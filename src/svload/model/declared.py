"""What monitors declare about their readings: gauges with limits, counters of refusals, and what each means.

Plain data: a trial's lab.json holds the declarations of its monitors, so that judges need not know any
server. Only imports the standard library, since the sampler imports it.
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
"""Resources that can run out, as listed in docs/method.md §5."""
Refused = Literal["refused", "lost", "failed", "waited"]
"""What a counter counts: turned away; lost on its way; broken off or answered with an error; served, but later."""


@dataclass(frozen=True)
class Limit:
    """A gauge and its limit. Each entity of `used` is compared with the limit of the same entity, else with
    that of the whole.

    The limit is reached, with `waiting`, if nearly all readings are full while something waits; with `brief`,
    if one reading is full; otherwise if it is full on average.
    """

    name: str
    """what is limited, in words: worker threads"""
    resource: Resource
    """what runs out"""
    used: str
    """the metric that is compared with the limit; for a counter its growth per second"""
    of: str | float
    """the same monitor's metric that holds the limit, or the limit itself; 0 in a reading: no limit"""
    waiting: str = ""
    """the same monitor's metric of what waits for it; empty: there is none"""
    at: float = 1.0
    """share of the limit from which it is full"""
    beyond: bool = False
    """full only above the limit, since the server admits one more than the limit"""
    brief: bool = False
    """one moment at the limit already means that something was turned away"""
    verdict: bool = True
    """a server that reached it is SATURATED; false: evidence only, since others may have caused it"""
    entity: str | None = None
    """only this entity; null: each one"""
    own: str = ""
    """the same monitor's counter of the services' own use, if `used` is the use by everybody: reached only if
    all services together used half of the limit; empty: `used` is the service's own use"""


@dataclass(frozen=True)
class Refusal:
    """A counter that grows when something is turned away, lost or made to wait because a limit is reached."""

    counter: str
    """the metric, a `…_total`"""
    means: str
    """what it counts, to end a sentence that begins with a number: sessions dropped for a full queue"""
    resource: Resource
    """what ran out"""
    kind: Refused = "refused"
    """what happened to the things counted"""
    verdict: bool = True
    """a server whose counter grew is SATURATED; false: evidence only, since there are other possible
    causes"""
    beside: str = ""
    """`monitor.counter` of the machine that must grow at the same time; empty: none"""


@dataclass(frozen=True)
class Declared:
    """The declarations of one monitor."""

    monitor: str
    """its name in the readings"""
    limits: tuple[Limit, ...] = ()
    """its gauges with limits"""
    refusals: tuple[Refusal, ...] = ()
    """its counters of refusals"""

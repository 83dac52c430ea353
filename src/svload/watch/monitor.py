"""The contract of a monitor: a new monitor is a new file in watch/monitors/ with one subclass of `Monitor`.

Monitors run in one process (`python -m svload.watch.sampler`) on the load's clock, 1 s or finer. A monitor attaches itself to every
service whose facts it can read; the host monitor attaches to the machine. Only the standard library is imported here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple


class Reading(NamedTuple):
    """One value: `entity` is a process, core, disk or interface; the unit stands in the metric's name (`cpu_ratio`, `rss_bytes`).

    Counters are given as they stand with a name ending in `_total`; rates are derived later.
    """

    entity: str
    metric: str
    value: float


class Monitor(ABC):
    """Reads one kind of thing. `interval_s` is its own period."""

    name: ClassVar[str]
    summary: ClassVar[str]
    interval_s: ClassVar[float] = 1.0

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        self.service = service
        self.facts = facts

    @classmethod
    @abstractmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Whether it attaches to a service with these facts (ServiceFacts as JSON), or to the host (None)."""

    @abstractmethod
    def sample(self) -> Iterable[Reading]:
        """Readings now. May block up to 0.5 s; raises OSError when the thing is gone (noted once, sampling goes on)."""

    def close(self) -> None:
        """Let go of what it holds."""

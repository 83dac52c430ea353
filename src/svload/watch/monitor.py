"""The contract of a monitor: a new monitor is a new file in watch/monitors/ with one subclass of `Monitor`.

Monitors run in one process (`python -m svload.watch.sampler`) on the load's clock, 1 s or finer. A monitor
attaches itself to every service whose facts it can read; the host monitor attaches to the machine. Only the
standard library is imported here, and `svload.model.declared`, which is plain data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from math import isfinite, nan
from typing import Any, ClassVar, NamedTuple

from svload.model.declared import Declared, Limit, Refusal


class Reading(NamedTuple):
    """One value: `entity` is a process, core, disk or interface; the unit stands in the metric's
    name (`cpu_ratio`, `rss_bytes`).

    Counters are given as they stand with a name ending in `_total`; rates are derived later.
    """

    entity: str
    metric: str
    value: float


class Monitor(ABC):
    """Reads one kind of thing.

    `metrics` documents every metric that `sample` may give: name → what it is. A name ends in its unit
    (`_seconds`, `_bytes`, `_ratio`), before `_total` for a counter; one without a unit is a number of things,
    and its text says of which ("number of …"). `interval_s` is the shortest period that it bears: the run's
    own, or this one where it is longer. `cpu_share`: it is read so much less often that it takes no more of a
    core than this. `limits` and `refusals` say which of the metrics stand against a limit, and which count
    what was turned away: from these alone svload judges saturation and tells evidence. `example`: `admin` of
    a service that it attaches to and that is not there, by which the conformance tests know it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    metrics: ClassVar[Mapping[str, str]]
    interval_s: ClassVar[float] = 0.0
    cpu_share: ClassVar[float] = 1.0
    limits: ClassVar[tuple[Limit, ...]] = ()
    refusals: ClassVar[tuple[Refusal, ...]] = ()
    example: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        self.service = service
        self.facts = facts

    @classmethod
    @abstractmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Whether it attaches to a service with these facts (ServiceFacts as JSON), or to the host (None). Pure."""

    @classmethod
    def declared(cls) -> Declared:
        """What it declares, as lab.json keeps it."""
        return Declared(cls.name, cls.limits, cls.refusals)

    @abstractmethod
    def sample(self) -> Iterable[Reading]:
        """Readings now. May block up to 0.5 s; raises OSError when the thing is gone (noted once, sampling goes on)."""

    def catch_up(self) -> None:
        """The next sample reads everything, also what is otherwise read less often; most monitors always do."""

    def load(self, under_way: bool) -> None:
        """A load begins now, or has ended; most monitors need not know."""

    def news(self) -> list[str]:
        """Sentences about what it reads that are worth saying once in a run."""
        return []

    def close(self) -> None:
        """Let go of what it holds."""


def number(found: Mapping[str, Any], name: str) -> float:
    """A figure that a server tells under this name. Raises OSError for what is no finite number."""
    try:
        value = float(found[name])
    except (TypeError, ValueError, OverflowError):
        value = nan
    if not isfinite(value):
        raise OSError(f"{name} is no number: “{str(found[name])[:40]}”")
    return value


def admin_has(facts: Mapping[str, Any] | None, kind: str, *keys: str) -> bool:
    """Whether a service's facts have an admin address of this kind with these keys: `admin[kind] = {key: …}`."""
    where = (facts or {}).get("admin", {}).get(kind)
    return isinstance(where, Mapping) and all(where.get(key) is not None for key in keys)

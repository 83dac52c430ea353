"""The contract of a monitor: a new monitor is a new file in watch/monitors/ with one subclass of `Monitor`.

Monitors run in one process (`python -m svload.watch.sampler`) on the load's clock, every second or more
often. A monitor attaches to every service whose facts it can read; the host monitor attaches to the machine.
Only the standard library is imported here, and `svload.model.declared`, which is plain data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from math import isfinite, nan
from typing import Any, ClassVar, NamedTuple

from svload.model.declared import Declared, Limit, Refusal


class Reading(NamedTuple):
    """One value: `entity` is a process, core, disk or interface; the unit is in the metric's name
    (`cpu_ratio`, `rss_bytes`).

    Counters are given unchanged, with names that end in `_total`; rates are derived later.
    """

    entity: str
    metric: str
    value: float


class Monitor(ABC):
    """Reads one kind of source.

    `metrics` documents every metric that `sample` may return: name → description. A name ends in its unit
    (`_seconds`, `_bytes`, `_ratio`), before `_total` for a counter; a metric without a unit is a count, and
    its description says of what ("number of …"). `interval_s` is the shortest sampling period of the monitor:
    it is read at the run's period, or at this one if it is longer. `cpu_share`: it is read less often if
    needed to take no more of a core than this. `limits` and `refusals` say which of the metrics have a limit,
    and which count refused work: svload judges saturation and reports evidence only from these. `example`:
    `admin` of a service that it attaches to and that does not exist, used by the conformance tests.
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
        """Return whether it attaches to a service with these facts (ServiceFacts as JSON), or to the host
        (None). Pure."""

    @classmethod
    def declared(cls) -> Declared:
        """Return what it declares, in the form stored in lab.json."""
        return Declared(cls.name, cls.limits, cls.refusals)

    @abstractmethod
    def sample(self) -> Iterable[Reading]:
        """Return readings of the present. May block up to 0.5 s; raises OSError if the source is gone (noted
        once, sampling continues)."""

    def catch_up(self) -> None:
        """Make the next sample read everything, including what is otherwise read less often; most monitors
        always do."""

    def load(self, under_way: bool) -> None:
        """A load begins now, or has ended; most monitors need not know."""

    def news(self) -> list[str]:
        """Return sentences about its source to be reported once in a run."""
        return []

    def close(self) -> None:
        """Release its resources."""


def number(found: Mapping[str, Any], name: str) -> float:
    """Return a number that a server reports under this name. Raise OSError if it is not a finite number."""
    try:
        value = float(found[name])
    except (TypeError, ValueError, OverflowError):
        value = nan
    if not isfinite(value):
        raise OSError(f"{name} is no number: “{str(found[name])[:40]}”")
    return value


def admin_has(facts: Mapping[str, Any] | None, kind: str, *keys: str) -> bool:
    """Return whether a service's facts have an admin address of this kind with these keys: `admin[kind] =
    {key: …}`."""
    where = (facts or {}).get("admin", {}).get(kind)
    return isinstance(where, Mapping) and all(where.get(key) is not None for key in keys)

"""The contract of a monitor: a new monitor is a new file in watch/monitors/ with one subclass of `Monitor`.

Monitors run in one process (`python -m svload.watch.sampler`) on the load's clock, every second or more
often. A monitor attaches to every service whose facts it can read; the host monitor attaches to the machine.
Only the standard library is imported here, and modules of svload that import nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isfinite, nan
from typing import Any, ClassVar, NamedTuple

from svload.host.machine.bounded import BoundedSocket
from svload.model.declared import Declared, Limit, Refusal

TIMEOUT_S = 0.4
"""The time for an exchange with a server."""


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
    and which count refused work: svload judges saturation and reports evidence only from these. `attaches`:
    the entry of `admin` that a service must have, and the keys in it. `example`: `admin` of a service that it
    attaches to and that does not exist, used by the conformance tests.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    metrics: ClassVar[Mapping[str, str]]
    interval_s: ClassVar[float] = 0.0
    cpu_share: ClassVar[float] = 1.0
    limits: ClassVar[tuple[Limit, ...]] = ()
    refusals: ClassVar[tuple[Refusal, ...]] = ()
    attaches: ClassVar[tuple[str, ...]] = ("",)
    example: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        self.service = service
        self.facts = facts

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Return whether it attaches to a service with these facts (as JSON), or to the host (None). Pure."""
        kind, *keys = cls.attaches
        where = (facts or {}).get("admin", {}).get(kind)
        return isinstance(where, Mapping) and all(where.get(key) is not None for key in keys)

    @classmethod
    def declared(cls) -> Declared:
        """Return what it declares, in the form stored in lab.json."""
        return Declared(cls.name, cls.limits, cls.refusals)

    @abstractmethod
    def sample(self) -> Iterable[Reading]:
        """Return readings of the present. May block up to 0.5 s; raises OSError if the source is gone (noted
        once, sampling continues)."""

    def catch_up(self) -> None:
        """Make the next sample read everything, also what is otherwise read less often."""

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
        raise OSError(f"{name} is not a number: “{str(found[name])[:40]}”")
    return value


def named(found: Mapping[str, Any], names: Mapping[str, tuple[str, str]]) -> list[Reading]:
    """Return a server's figures as readings, without those that its version lacks. `names`: its name →
    metric and meaning. Raise OSError as `number`."""
    return [Reading("", metric, number(found, name)) for name, (metric, _) in names.items() if name in found]


class ConnectedMonitor(Monitor):
    """A monitor that asks a server over one persistent connection, opened again after a failure. `where` is
    the entry of `admin` that it attaches to."""

    most_bytes: ClassVar[int] = 1 << 20
    """The most that an answer may have."""

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self.where: Mapping[str, Any] = facts["admin"][self.attaches[0]]
        self._line: Any = None

    def connect(self) -> Any:
        """Open the connection, by default TCP to `address` and `port`. Raises OSError."""
        return BoundedSocket(
            (str(self.where["address"]), int(self.where["port"])), TIMEOUT_S, self.most_bytes
        )

    @abstractmethod
    def ask(self, line: Any) -> Any:
        """Return what the server answers. Raises OSError."""

    @abstractmethod
    def parsed(self, answer: Any) -> list[Reading]:
        """Return the answer as readings. Raises OSError if it is malformed."""

    def sample(self) -> Iterable[Reading]:
        """Raises OSError if the server does not answer."""
        try:
            self._line = self._line or self.connect()
            answer = self.ask(self._line)
        except OSError:
            self.close()
            raise
        return self.parsed(answer)

    def close(self) -> None:
        """Close the connection; the next sample opens it again."""
        if self._line is not None:
            with suppress(OSError):
                self._line.close()
        self._line = None


def data_of(line: BoundedSocket, command: bytes, head: bytes, who: str) -> str:
    """Send a command; return the data of an answer that begins with a line of `head` and their length. Raises
    OSError."""
    line.renew()
    line.sendall(command + b"\r\n")
    answer, begin, end = b"", 0, 0
    while not end or len(answer) < end:
        piece = line.recv(1 << 16)
        answer += piece
        first, ended, _ = answer.partition(b"\r\n")
        length = first.removeprefix(head)
        if not piece or not answer.startswith(head[: len(answer)]) or (ended and not length.isdigit()):
            raise ConnectionError(f"{who} hung up or answered no {command.decode()}: {answer[:60]!r}")
        if ended:
            begin = len(first) + 2
            end = begin + int(length) + 2
    return answer[begin : end - 2].decode("utf-8", "replace")

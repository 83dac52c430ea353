"""The share, with the names, fields, units and defaults of engine/engine/src/share.rs.

The engine refuses a field or a word that it does not know: a new field needs a line here and one there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from svload.drive.share.executor_spec import NO_PAUSE, ExecutorSpec, ThinkTime
from svload.drive.share.request_spec import RequestSpec
from svload.model.options import EngineOptions

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class TlsSpec:
    """How a server is verified; without `ca_pem` it must not be."""

    server_name: str
    ca_pem: str | None
    verify: bool = True
    min: Literal["1.2", "1.3"] = "1.2"


@dataclass(frozen=True, kw_only=True)
class EndpointSpec:
    """Where an origin is reached: `ip:port`, or `unix:` and an absolute path."""

    address: str
    tls: TlsSpec | None = None


@dataclass(frozen=True, kw_only=True)
class Http2Spec:
    """How a group uses HTTP/2. `fallback`: a server may choose HTTP/1.1 in the TLS handshake."""

    streams: int
    fallback: bool = False


@dataclass(frozen=True, kw_only=True)
class FeederSpec:
    """How iterations take the rows of a table."""

    table: str
    take: Literal["first", "walk", "sequential", "unique", "random", "zipf", "hot", "vu"]
    vus_total: int | None = None
    offset: int | None = None
    skew: float | None = None
    hot: tuple[float, float] | None = None
    when_exhausted: Literal["repeat", "stop"] = "repeat"


@dataclass(frozen=True, kw_only=True)
class SetSpec:
    """Written objects as rows; `table` holds those that are there at first."""

    table: str | None = None
    digest: Literal["sha256", "md5"]


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """A request of a scenario, and the pause before the step after it."""

    request: RequestSpec
    think_time: ThinkTime = NO_PAUSE


@dataclass(frozen=True, kw_only=True)
class ScenarioSpec:
    """Steps in order; with several scenarios an iteration takes one by weight."""

    weight: int = 1
    renew_ns: int | None = None
    steps: tuple[StepSpec, ...]


@dataclass(frozen=True, kw_only=True)
class GroupSpec(EngineOptions):
    """One traffic group. An iteration is its one `request`, or the steps of one of `scenarios`.

    The options that the engine takes unchanged from the study are `EngineOptions`.
    """

    name: str
    connection: Literal["keep-alive", "new", "shared"] = "keep-alive"
    record: Literal["rows", "histogram"]
    start_offset_ns: int = 0
    stop_offset_ns: int
    graceful_stop_ns: int = 0
    follow_redirects: int = 0
    source_addresses: tuple[str, ...] = ()
    close_by_reset: bool = False
    http2: Http2Spec | None = None
    executor: ExecutorSpec
    feeders: Mapping[str, FeederSpec] = field(default_factory=dict)
    sets: Mapping[str, SetSpec] = field(default_factory=dict)
    request: RequestSpec | None = None
    scenarios: tuple[ScenarioSpec, ...] = ()
    report_taken: bool = False
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def requests(self) -> tuple[RequestSpec, ...]:
        """Return all requests of an iteration, in order."""
        steps = tuple(step.request for scenario in self.scenarios for step in scenario.steps)
        return steps if self.request is None else (self.request,)


@dataclass(frozen=True, kw_only=True)
class ShareSpec:
    """The complete task of a generator. Offsets count from `start_at_ns`, which `write.begun` sets."""

    format: int = FORMAT
    id: str
    seed: int
    start_at_ns: int = 0
    stop_fd: int = -1
    threads: int = 1
    cpus: tuple[int, ...] = ()
    interval_ns: int
    spin_ns: int = 0
    window_ns: tuple[int, int]
    turns_ns: tuple[tuple[int, int], ...] | None = None
    """[begin, end) of the real times in which the load runs; all other offsets are then load time"""
    endpoints: Mapping[str, EndpointSpec]
    redirect_tls: TlsSpec | None = None
    allowed: tuple[str, ...]
    groups: tuple[GroupSpec, ...]

    @property
    def end_ns(self) -> int:
        """Return when its last request may end, as an offset in real time."""
        return max(self._real_ns(group.stop_offset_ns) + group.graceful_stop_ns for group in self.groups)

    def _real_ns(self, stop_ns: int) -> int:
        """Return the real time at the end of a load time: with turns, in the turn in which it ends."""
        for begin_ns, end_ns in self.turns_ns or ():
            if stop_ns <= end_ns - begin_ns:
                return begin_ns + stop_ns
            stop_ns -= end_ns - begin_ns
        return stop_ns

"""What `svload load` says of one load: the JSON that `--json` prints, and all that its text is made of."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from svload.model.base import Artefact, Frozen
from svload.model.results import Grade, ServerState


class Times(Frozen):
    """A time's mean, percentiles and largest value in ms. Null where too few requests carry it, or failures reach it: see `reasons`."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99_9: float | None = Field(default=None, alias="p99.9")
    max: float | None = None


class Lag(Frozen):
    """The instrument's own delay, or the wait for a slot, in ms."""

    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class WarmUp(Frozen):
    """The first part of the load, which no number but the counts is made of."""

    cut_s: float
    slowest_ms: float | None = Field(description="the slowest ok answer to a request due in it")


class Bar(Frozen):
    """One bar of the histogram of response: requests in [from_ms, to_ms)."""

    from_ms: float
    to_ms: float
    count: int


class RequestError(Frozen):
    """One kind of failed request: its name in the catalogue, how many, and what it most likely means."""

    name: str
    count: int
    hint: str


class Connections(Frozen):
    """Connections opened in the whole load, and how TLS came up on them."""

    opened: int
    tls_full: int
    tls_resumed: int


class InstrumentVerdict(Frozen):
    """May these numbers be believed? `remedy` is the one edit that would mend it."""

    grade: Grade
    reasons: tuple[str, ...] = ()
    remedy: str = ""


class ServerVerdict(Frozen):
    """How the server was under this load."""

    state: ServerState
    reasons: tuple[str, ...] = ()


class ThresholdVerdict(Frozen):
    """One --threshold: what was asked, what came of it, and a sentence."""

    that: str
    outcome: Literal["passed", "failed", "refused", "no value"]
    measured: float | None = Field(description="in base units: s, 1/s, share of one")
    sentence: str


class LoadSummary(Artefact):
    """The result of `svload load`.

    due = begun + waiting + dropped, begun = requests + in_flight, requests = ok + failed: exactly. Counts are of the whole load;
    times and rates are of the kept window, response with failures ranked above every limit.
    """

    FORMAT: ClassVar[int] = 1
    url: str
    load: str = Field(description="the load in words")
    model: Literal["closed loop", "open loop"]
    interrupted: bool = Field(default=False, description="it was stopped before its end")
    due: int
    begun: int
    waiting: int = Field(description="due, and still waiting for a slot at the end")
    dropped: int
    requests: int
    ok: int
    failed: int
    in_flight: int = Field(description="begun, and neither done nor timed out at the end")
    errors: dict[str, int]
    error_hints: tuple[RequestError, ...] = ()
    status: dict[str, int]
    duration_s: float
    rate_asked_rps: float | None = Field(description="open loop: what was due a second; closed loop: null")
    begun_rps: float | None
    throughput_rps: float | None = Field(description="completions in the kept window a second")
    bytes_sent: int
    bytes_received: int
    response_ms: Times = Field(description="done − due, failures ranked above every limit")
    ok_response_ms: Times = Field(description="the same of the ok requests alone: the survivors")
    service_ms: Times = Field(description="done − begun of the ok requests: what other tools call latency")
    server_time_ms: Times = Field(description="first byte − written of the ok requests")
    slot_wait_ms: Lag = Field(description="ready − due: waiting for a free user or connection")
    generator_lag_ms: Lag = Field(description="begun − ready: the instrument's own doing")
    reasons: dict[str, str] = Field(description="why a number above is null, by its path: response_ms.p99.9")
    weak: tuple[str, ...] = Field(default=(), description="numbers above that few requests carry, by path")
    histogram: tuple[Bar, ...] = Field(default=(), description="of the ok requests' response")
    warm_up: WarmUp | None = Field(default=None, description="what is cut as warm-up; null where nothing is")
    longest_silence_ms: float = Field(description="the longest time without a completion")
    connections: Connections
    cpu_s: float = Field(description="the generators' own CPU time, without spinning")
    measurable_rps: float | None = Field(description="about how much of this the generators could make")
    instrument: InstrumentVerdict
    server: ServerVerdict
    thresholds: tuple[ThresholdVerdict, ...] = ()
    run: str | None = Field(default=None, description="where --out keeps the run")

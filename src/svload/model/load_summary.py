"""The result of one `svload load`: the JSON that `--json` prints, and the data behind its text."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from svload.model.base import Artefact, Frozen
from svload.model.results import FirstFailure, Grade, ServerState, StageResult, Why


class Times(Frozen):
    """A time's mean, percentiles and largest value in ms. Null if there was no request, or failures reach it:
    see `reasons`."""

    mean: float | None = None
    """for response, a failure counts with the time that it took"""
    p50: float | None = None
    """median"""
    p90: float | None = None
    """90th percentile"""
    p95: float | None = None
    """95th percentile"""
    p99: float | None = None
    """99th percentile"""
    p99_9: float | None = Field(default=None, alias="p99.9")
    """99.9th percentile"""
    max: float | None = None
    """largest value; for response null if a request failed"""


class Lag(Frozen):
    """The instrument's own delay, or the wait for a slot, in ms."""

    p50: float | None = None
    """median"""
    p99: float | None = None
    """99th percentile"""
    max: float | None = None
    """largest value"""


class WarmUp(Frozen):
    """The first part of the load, which only the counts include."""

    cut_s: float
    """length of that part, from the beginning of the measured time"""
    slowest_ms: float | None
    """slowest ok response of a request due in it; null: there was none"""


class Bar(Frozen):
    """One bar of the histogram of response: requests in [from_ms, to_ms)."""

    from_ms: float
    """lower bound, included"""
    to_ms: float
    """upper bound, excluded; the bounds grow by a constant factor"""
    count: int
    """requests with such a response"""


class RequestError(Frozen):
    """One kind of failed request: its name in the catalogue, its count, and its most likely meaning."""

    name: str
    """the error, such as connect_refused"""
    count: int
    """requests that failed with it, in the whole load"""
    hint: str
    """its most likely meaning; empty: no guess"""


class Connections(Frozen):
    """Connections opened in the whole load, and their TLS handshakes."""

    opened: int
    """connections that were made, whether or not TLS succeeded on them"""
    tls_full: int
    """full TLS handshakes"""
    tls_resumed: int
    """resumed TLS sessions"""


class InstrumentVerdict(Frozen):
    """Whether the requested numbers can be trusted. `grades` has the grade of each one."""

    grade: Grade
    """the worst grade of the requested numbers: those of --threshold; without any, the median, throughput and
    success"""
    reasons: tuple[str, ...] = ()
    """one sentence for each check that doubts one of these"""
    remedy: str = ""
    """the one change that would fix the worst; empty: nothing to fix"""


class ServerVerdict(Frozen):
    """How the server coped with this load."""

    state: ServerState
    """UNKNOWN: no steady state was expected or seen"""
    reasons: tuple[str, ...] = ()
    """sentences on why it is not STEADY"""


class ThresholdVerdict(Frozen):
    """One --threshold: the criterion, its outcome, and a sentence."""

    that: str
    """the criterion as typed"""
    outcome: Literal["passed", "failed", "open", "refused", "no value"]
    """open: the limit lies within its range; refused: its number is REFUSED; no value: it is null. None of
    these is a pass"""
    measured: float | None
    """in base units: s, bytes, 1/s, share of one; null: no number"""
    sentence: str
    """the outcome in words"""


class LoadSummary(Artefact):
    """The result of `svload load`.

    Exactly: due = begun + waiting + dropped, begun = requests + in_flight, requests = ok + failed. Counts are
    of the whole load; times and rates are of the kept window, for response with failures ranked above every
    limit.
    """

    FORMAT: ClassVar[int] = 1
    url: str
    """the requested URL"""
    load: str
    """the load in words"""
    model: Literal["closed loop", "open loop"]
    """which side waits: N users for their answers, or arrivals for nothing"""
    interrupted: bool = False
    """it was stopped before its end"""
    made_again: tuple[str, ...] = ()
    """why each earlier load failed; those loads count nowhere"""
    requests: int
    """requests that ended, ok or failed"""
    ok: int
    """complete answers of an expected status (200–399, or as requested) that passed all checks"""
    failed: int
    """all others that ended: no connection, incomplete answer, unexpected status, or a failed check"""
    errors: dict[str, int]
    """failed requests by error"""
    error_hints: tuple[RequestError, ...] = ()
    """the same with the meaning of each, most frequent first"""
    stages: tuple[StageResult, ...] = ()
    """each ramp and level of a load in stages; the other numbers cover all of them"""
    gone: tuple[str, ...] = ()
    """when its server was gone, one sentence each; if it did not come back, times are of the part before"""
    notes: tuple[str, ...] = ()
    """what the responses' times suggest about the server, one sentence each"""
    first_failure: FirstFailure | None = None
    """the first request that failed; null: none did"""
    failed_s: tuple[float, float] | None = None
    """when the first and the last failed request ended, from the load's beginning; null: none failed"""
    status: dict[str, int]
    """final answers by status, those of failed requests too"""
    failed_response_ms: Lag | None = None
    """done − due of the failed requests in the kept window, computed from buckets if there are many (error ≤
    0.4 %); null: none failed"""
    due: int
    """requests that became due"""
    begun: int
    """requests that began: look-up or connect started, or first write on an open connection"""
    waiting: int
    """due, and still waiting for a slot at the end"""
    dropped: int
    """arrivals that a full pool dropped"""
    in_flight: int
    """begun, and neither done nor timed out at the end"""
    duration_s: float
    """measured time, warm-up included; with a fixed number of requests it ends with the last answer"""
    rate_asked_rps: float | None
    """open loop: requests due per second, after the warm-up cut; closed loop: null"""
    begun_rps: float | None
    """requests begun in the whole load over `duration_s`; null if that is 0; if the server went away for
    good, those of the time before"""
    throughput_rps: float | None
    """completions per second in the measured time, ok or failed; null if that is 0; if the server went away
    for good, in the time before"""
    bytes_sent: int
    """in the whole load, TLS excluded"""
    bytes_received: int
    """in the whole load, TLS excluded"""
    response_ms: Times
    """done − due, failures ranked above every limit"""
    ok_response_ms: Times
    """the same for ok requests only: the survivors"""
    service_ms: Times
    """done − begun of the ok requests: what other tools call latency"""
    server_time_ms: Times
    """first byte − written of the ok requests"""
    slot_wait_ms: Lag
    """ready − due of all begun requests: waiting for a free user or connection"""
    generator_lag_ms: Lag
    """begun − ready of all begun requests: delay by the instrument itself"""
    reasons: dict[str, str]
    """why a number above is null, by its path: response_ms.p99.9"""
    whys: dict[str, Why] = {}
    """the same as codes; `grows` for a number that is not null but grows with the run's length"""
    weak: tuple[str, ...] = ()
    """paths of numbers above that rest on few or correlated requests"""
    grades: dict[str, Grade] = {}
    """numbers above that are WEAK or REFUSED, by path: response_ms.p99, throughput_rps, longest_silence_ms,
    and ok for the counts; all others are VALID"""
    histogram: tuple[Bar, ...] = ()
    """of the ok requests' response"""
    warm_up: WarmUp | None = None
    """what is cut as warm-up; null: nothing"""
    longest_silence_ms: float
    """longest stretch of the measured time without a completion"""
    connections: Connections
    """in the whole load"""
    cpu_s: float
    """CPU time of the load's threads in the whole load, without spinning"""
    measurable_rps: float | None
    """estimate of the rate that the generators could have made; null: they used too little CPU for an
    estimate, or no request was ok"""
    instrument: InstrumentVerdict
    """whether the requested numbers can be trusted"""
    server: ServerVerdict
    """how the server coped with this load"""
    thresholds: tuple[ThresholdVerdict, ...] = ()
    """each --threshold and its outcome"""
    run: str | None = None
    """folder in which --out keeps the run; null: it is not kept"""

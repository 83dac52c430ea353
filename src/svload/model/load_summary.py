"""What `svload load` says of one load: the JSON that `--json` prints, and all that its text is made of."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from svload.model.base import Artefact, Frozen
from svload.model.results import FirstFailure, Grade, ServerState, StageResult, Why


class Times(Frozen):
    """A time's mean, percentiles and largest value in ms. Null where too few requests carry it, or
    failures reach it: see `reasons`."""

    mean: float | None = None
    """of response: failures count as the time-out"""
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
    """largest value; of response null where a request failed"""


class Lag(Frozen):
    """The instrument's own delay, or the wait for a slot, in ms."""

    p50: float | None = None
    """median"""
    p99: float | None = None
    """99th percentile"""
    max: float | None = None
    """largest value"""


class WarmUp(Frozen):
    """The first part of the load, which no number but the counts is made of."""

    cut_s: float
    """length of that part, from the begin of the measured time"""
    slowest_ms: float | None
    """slowest ok response of a request due in it; null: there was none"""


class Bar(Frozen):
    """One bar of the histogram of response: requests in [from_ms, to_ms)."""

    from_ms: float
    """lower bound, included"""
    to_ms: float
    """upper bound, excluded; bounds grow by one factor"""
    count: int
    """requests with such a response"""


class RequestError(Frozen):
    """One kind of failed request: its name in the catalogue, how many, and what it most likely means."""

    name: str
    """the error, such as connect_refused"""
    count: int
    """requests that failed by it, in the whole load"""
    hint: str
    """what it most likely means; empty: no guess"""


class Connections(Frozen):
    """Connections opened in the whole load, and how TLS came up on them."""

    opened: int
    """connections that were made, whatever came of TLS on them"""
    tls_full: int
    """full TLS handshakes"""
    tls_resumed: int
    """TLS sessions taken up again"""


class InstrumentVerdict(Frozen):
    """May the numbers be believed that were asked for? What each is worth, `grades` says."""

    grade: Grade
    """the worst of the numbers that were asked for: those of --threshold; without any, the median, throughput and
    success"""
    reasons: tuple[str, ...] = ()
    """a sentence of each check that doubts one of these"""
    remedy: str = ""
    """the one edit that would mend the worst; empty: nothing to mend"""


class ServerVerdict(Frozen):
    """How the server was under this load."""

    state: ServerState
    """UNKNOWN: no steady state was sought or seen"""
    reasons: tuple[str, ...] = ()
    """why it is not STEADY, in sentences"""


class ThresholdVerdict(Frozen):
    """One --threshold: what was asked, what came of it, and a sentence."""

    that: str
    """the criterion as it was written"""
    outcome: Literal["passed", "failed", "open", "refused", "no value"]
    """open where the limit lies within its range; refused where its number is REFUSED; no value where it is null. None
    of them is a pass"""
    measured: float | None
    """in base units: s, bytes, 1/s, share of one; null: no number"""
    sentence: str
    """the same in words"""


class LoadSummary(Artefact):
    """The result of `svload load`.

    due = begun + waiting + dropped, begun = requests + in_flight, requests = ok + failed:
    exactly. Counts are of the whole load; times and rates are of the kept window, response with
    failures ranked above every limit.
    """

    FORMAT: ClassVar[int] = 1
    url: str
    """what was asked for"""
    load: str
    """the load in words"""
    model: Literal["closed loop", "open loop"]
    """who waits for whom: N users for their answers, or arrivals for nothing"""
    interrupted: bool = False
    """it was stopped before its end"""
    made_again: tuple[str, ...] = ()
    """why each load before this one failed, and counts nowhere"""
    requests: int
    """requests that ended, ok or failed"""
    ok: int
    """complete answers of an expected status (200–399, or as told) that passed all checks"""
    failed: int
    """all others that ended: no connection, no whole answer, its status, a check"""
    errors: dict[str, int]
    """failed requests by error"""
    error_hints: tuple[RequestError, ...] = ()
    """the same with what each means, most frequent first"""
    stages: tuple[StageResult, ...] = ()
    """each ramp and level of a load in stages; the other numbers are over all of them"""
    gone: tuple[str, ...] = ()
    """when its server was gone, a sentence each; where it did not come back, times are of the part before"""
    first_failure: FirstFailure | None = None
    """the first request that failed; null: none did"""
    failed_s: tuple[float, float] | None = None
    """when the first and the last failed request ended, from the load's begin; null: none failed"""
    status: dict[str, int]
    """final answers by status, those of failed requests too"""
    failed_response_ms: Lag | None = None
    """done − due of the requests that failed, in the kept window, of many requests from buckets (error ≤ 0.4 %);
    null: none did"""
    due: int
    """requests that became due"""
    begun: int
    """requests that began: look-up or connect started, or first write on a live connection"""
    waiting: int
    """due, and still waiting for a slot at the end"""
    dropped: int
    """arrivals that a full pool dropped"""
    in_flight: int
    """begun, and neither done nor timed out at the end"""
    duration_s: float
    """measured time, warm-up included; a fixed number of requests ends with its last answer"""
    rate_asked_rps: float | None
    """open loop: requests due a second, after the warm-up cut; closed loop: null"""
    begun_rps: float | None
    """requests begun in the whole load over `duration_s`; null where that is 0"""
    throughput_rps: float | None
    """completions in the measured time, ok or failed, a second; null where that is 0"""
    bytes_sent: int
    """in the whole load, TLS excluded"""
    bytes_received: int
    """in the whole load, TLS excluded"""
    response_ms: Times
    """done − due, failures ranked above every limit"""
    ok_response_ms: Times
    """the same of the ok requests alone: the survivors"""
    service_ms: Times
    """done − begun of the ok requests: what other tools call latency"""
    server_time_ms: Times
    """first byte − written of the ok requests"""
    slot_wait_ms: Lag
    """ready − due of all begun: waiting for a free user or connection"""
    generator_lag_ms: Lag
    """begun − ready of all begun: the instrument's own doing"""
    reasons: dict[str, str]
    """why a number above is null, by its path: response_ms.p99.9"""
    whys: dict[str, Why] = {}
    """the same as codes; of a number that is there `grows`, where it grows with the run's length"""
    weak: tuple[str, ...] = ()
    """numbers above that few requests carry, or correlated ones, by path"""
    grades: dict[str, Grade] = {}
    """numbers above that are WEAK or REFUSED, by path: response_ms.p99, throughput_rps, longest_silence_ms, and ok
    for the counts; what is not here is VALID"""
    histogram: tuple[Bar, ...] = ()
    """of the ok requests' response"""
    warm_up: WarmUp | None = None
    """what is cut as warm-up; null where nothing is"""
    longest_silence_ms: float
    """longest stretch of the measured time without a completion"""
    connections: Connections
    """in the whole load"""
    cpu_s: float
    """CPU time of the load's threads in the whole load, without spinning"""
    measurable_rps: float | None
    """about how much of this the generators could make; null: too little CPU was used to tell, or nothing was ok"""
    instrument: InstrumentVerdict
    """may the numbers be believed that were asked for?"""
    server: ServerVerdict
    """how the server was under this load"""
    thresholds: tuple[ThresholdVerdict, ...] = ()
    """each --threshold and its outcome"""
    run: str | None = None
    """folder where --out keeps the run; null: none is kept"""

"""Load as a case asks for it, every `${…}` resolved except those only a request can know (feeder rows, request.id)."""

from __future__ import annotations

from math import exp, log
from typing import Annotated, Literal

from pydantic import Field

from svload.model.base import Frozen
from svload.model.stages import Stage, arrivals_until, present_ns, stages_ns, users_ns

FIRST_CYCLE_NS = 5_000_000
"""VUs without think time and without a ramp start spread over this (docs/method.md §1: spread over the first cycle)."""
ROWS_UP_TO_RPS = 1000.0
"""Every request is a row for `client: curl`, up to this rate, and of work up to this:"""
ROWS_UP_TO = 100_000
NORMAL_P99 = 2.3263478740408408
"""The 99 % quantile of the standard normal distribution."""


class Text(Frozen):
    """A literal part of a template."""

    text: str


class FeederPart(Frozen):
    """A column of the feeder's current row."""

    feeder: str
    column: str


class VarPart(Frozen):
    """A value that each request has: `request.id`, `vu`, `iteration`."""

    var: Literal["request.id", "vu", "iteration"]


class TakenPart(Frozen):
    """A variable that an earlier answer gave."""

    taken: str


Part = Text | FeederPart | VarPart | TakenPart
Template = tuple[Part, ...]


class StatusCheck(Frozen):
    """The answer's status lies in [low, high]."""

    name: str
    status: tuple[int, int]


class SizeCheck(Frozen):
    """The body's size is this many bytes, or this column's value."""

    name: str
    size_bytes: int | FeederPart


class TextTest(Frozen):
    """What a text of the answer must be; exactly one is set. `matches` is a regular expression that matches somewhere."""

    present: Literal[True] | None = None
    equals: Template | None = None
    contains: Template | None = None
    matches: str | None = None


class HeaderCheck(Frozen):
    """The answer has this header, and its value passes the test."""

    name: str
    header: str
    test: TextTest


class BodyCheck(Frozen):
    """The body (its first MiB) passes the test."""

    name: str
    body: TextTest


class DigestCheck(Frozen):
    """The digest of the whole body, as hexadecimal digits."""

    name: str
    digest: Literal["sha256", "md5"]
    equals: Template


Check = StatusCheck | SizeCheck | HeaderCheck | BodyCheck | DigestCheck


class Take(Frozen):
    """A variable and where in an answer it stands; one of header, json (a path), regex (of the body) is set."""

    name: str
    header: str | None = None
    json_path: str | None = None
    regex: str | None = None


class SizeLaw(Frozen):
    """How long generated bodies are; exactly one is set. `lognormal` is (median, p99)."""

    constant: int | None = None
    uniform: tuple[int, int] | None = None
    lognormal: tuple[int, int] | None = None

    @property
    def mean_bytes(self) -> float:
        """Its expectation."""
        if self.uniform:
            return sum(self.uniform) / 2
        if self.lognormal:
            return _lognormal_mean(*self.lognormal)
        return float(self.constant or 0)


class Body(Frozen):
    """What a request carries; exactly one is set. `file` is an absolute path."""

    text: Template | None = None
    random: SizeLaw | None = None
    file: str | None = None


class Turn(Frozen):
    """A turn of a raw dialogue; exactly one is set.

    `send` and `send_hex` (pairs of hexadecimal digits) leave; `expect`, `expect_hex` (a literal) and `match` (a regular expression over
    bytes) must come, what comes before them is passed over; `read` takes so many bytes, `until_close` all until the peer ends.
    """

    send: Template | None = None
    send_hex: str | None = None
    expect: str | None = None
    expect_hex: str | None = None
    match: str | None = None
    read: int | None = None
    until_close: bool = False


def _lognormal_mean(median: float, p99: float) -> float:
    sigma = log(p99 / median) / NORMAL_P99
    return median * exp(sigma * sigma / 2)


class Request(Frozen):
    """One named request. `host` is a service's name or an address; `scheme` http or https, of a raw dialogue tcp or tls.

    Where variables make the address, `url` stands in place of scheme, host and path, which are empty.
    """

    name: str
    method: str = "GET"
    scheme: str
    host: str
    path: Template
    url: Template | None = None
    headers: tuple[tuple[str, Template], ...] = ()
    body: Body | None = None
    expect_continue: bool = False
    chunked: bool = False
    timeout_ns: int = 30_000_000_000
    expect_status: tuple[tuple[int, int], ...] = ((200, 399),)
    checks: tuple[Check, ...] = ()
    take: tuple[Take, ...] = ()
    follow_redirects: int = 0
    dialogue: tuple[Turn, ...] = ()

    @property
    def endpoint(self) -> str:
        """The key of the share's endpoint table: `scheme://host`."""
        return f"{self.scheme}://{self.host}"

    @property
    def secure(self) -> bool:
        """Whether its connections have a TLS session."""
        return self.scheme in ("https", "tls")

    @property
    def goes_anywhere(self) -> bool:
        """Whether answers may lead it to any address of the lab."""
        return self.url is not None or self.follow_redirects > 0

    @property
    def ends_connection(self) -> bool:
        """Whether its own end is the connection's."""
        return bool(self.dialogue) and self.dialogue[-1].until_close

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part that varies or not: of address, headers, body, dialogue and checks."""
        texts: list[Template] = [self.path, self.url or (), *(value for _, value in self.headers)]
        texts.append((self.body and self.body.text) or ())
        texts += [turn.send for turn in self.dialogue if turn.send]
        for check in self.checks:
            if isinstance(check, SizeCheck):
                texts.append((check.size_bytes,) if isinstance(check.size_bytes, FeederPart) else ())
            elif isinstance(check, DigestCheck):
                texts.append(check.equals)
            elif not isinstance(check, StatusCheck):
                test = check.test if isinstance(check, HeaderCheck) else check.body
                texts.append(test.equals or test.contains or ())
        return tuple(part for text in texts for part in text)


TakeRows = Literal["first", "walk", "sequential", "unique", "random", "vu"]


class Feeder(Frozen):
    """Rows for iterations: which table of inputs/, and how it is walked. `offset` is between the begins of two VUs' walks."""

    name: str
    table: str
    take: TakeRows = "walk"
    offset: int | None = None
    when_exhausted: Literal["repeat", "stop"] = "repeat"


class TableSource(Frozen):
    """A table of the study's own: a CSV or Parquet file (an absolute path), a list, or a range [from, to] of whole numbers."""

    name: str
    csv: str | None = None
    parquet: str | None = None
    values: tuple[str, ...] | None = None
    numbers: tuple[int, int] | None = None


class ThinkTime(Frozen):
    """Pause between a VU's requests; exactly one is set. `lognormal_ns` is (median, p99)."""

    constant_ns: int | None = None
    uniform_ns: tuple[int, int] | None = None
    exponential_ns: int | None = None
    lognormal_ns: tuple[int, int] | None = None

    @property
    def mean_ns(self) -> float:
        """Its expectation."""
        if self.uniform_ns:
            return sum(self.uniform_ns) / 2
        if self.lognormal_ns:
            return _lognormal_mean(*self.lognormal_ns)
        return float(self.exponential_ns or self.constant_ns or 0)


Shape = Literal["constant", "ramping", "finite"]
"""Constant: a steady state is sought. Ramping: shown over time only, no warm-up cut. Finite: a fixed amount of work, measured whole."""


class ClosedLoop(Frozen):
    """What closed executors share: VUs that each wait for their answer, then think. Iterations begin at least `pacing_ns` apart."""

    think_time: ThinkTime = ThinkTime(constant_ns=0)
    pacing_ns: int = 0

    @property
    def model(self) -> str:
        """Load model, for every table."""
        return "closed loop"

    @property
    def shape(self) -> Shape:
        """What the load is like over time."""
        return "constant"

    @property
    def most_vus(self) -> int:
        """The most VUs that there ever are, over all shares."""
        raise NotImplementedError

    @property
    def stages_ns(self) -> int | None:
        """How long its stages take; None without stages."""
        return None

    @property
    def cycle_ns(self) -> float:
        """The least that a VU's cycle takes on average, requests apart."""
        return max(self.think_time.mean_ns, float(self.pacing_ns))

    @property
    def peak_rps(self) -> float | None:
        """The most requests a second that it can make; None if only the server bounds it."""
        return self.most_vus / (self.cycle_ns / 1e9) if self.cycle_ns else None

    def users_ns(self, low_ns: float, high_ns: float) -> float:
        """Σ over VUs of their planned time between two moments, ns from the group's start."""
        raise NotImplementedError


class Spread(ClosedLoop):
    """A fixed set of `vus`; without a ramp they start spread over the first cycle, or together."""

    vus: int = Field(ge=1)
    start: Literal["spread", "together"] = "spread"

    @property
    def most_vus(self) -> int:
        """The most VUs that there ever are, over all shares."""
        return self.vus

    @property
    def spread_ns(self) -> int:
        """What they start spread over."""
        return max(round(self.cycle_ns), FIRST_CYCLE_NS) if self.start == "spread" else 0

    def users_ns(self, low_ns: float, high_ns: float) -> float:
        """Σ over VUs of the time after their planned first request (for a fixed amount of work: if it never ended)."""
        return present_ns(0.0, self.spread_ns / self.vus, self.vus, low_ns, high_ns)


class ConstantVus(Spread):
    """Closed loop: `vus` virtual users, each waits for its answer, then thinks (k6's constant-vus with a ramp)."""

    kind: Literal["constant-vus"] = "constant-vus"
    ramp_up_ns: int = 0

    @property
    def spread_ns(self) -> int:
        """What they start spread over: their ramp, else the first cycle."""
        return self.ramp_up_ns or super().spread_ns


class FixedWork(Spread):
    """What closed executors of a fixed amount of work share: `iterations`, measured whole."""

    iterations: int = Field(ge=1)

    @property
    def ramp_up_ns(self) -> int:
        """It has no ramp."""
        return 0

    @property
    def shape(self) -> Shape:
        """What the load is like over time."""
        return "finite"

    @property
    def work(self) -> int:
        """All its requests."""
        raise NotImplementedError


class SharedIterations(FixedWork):
    """So many iterations of all VUs together (k6's shared-iterations); between generators they are dealt beforehand."""

    kind: Literal["shared-iterations"] = "shared-iterations"

    @property
    def work(self) -> int:
        """All its requests."""
        return self.iterations


class PerVuIterations(FixedWork):
    """So many iterations of each VU (k6's per-vu-iterations)."""

    kind: Literal["per-vu-iterations"] = "per-vu-iterations"

    @property
    def work(self) -> int:
        """All its requests."""
        return self.vus * self.iterations


class InStages(Frozen):
    """What executors share whose load changes in stages."""

    stages: tuple[Stage, ...] = Field(min_length=1)

    @property
    def ramp_up_ns(self) -> int:
        """Nothing is excluded from measurement: it is shown over time."""
        return 0

    @property
    def shape(self) -> Shape:
        """What the load is like over time."""
        return "ramping"

    @property
    def stages_ns(self) -> int | None:
        """How long its stages take."""
        return stages_ns(self.stages)


class RampingVus(InStages, ClosedLoop):
    """Closed loop whose number of VUs follows stages (k6's ramping-vus); who must go finishes its request first."""

    kind: Literal["ramping-vus"] = "ramping-vus"
    start_vus: int = 0

    @property
    def most_vus(self) -> int:
        """The most VUs that there ever are, over all shares."""
        return max([self.start_vus, *(round(stage.target) for stage in self.stages)])

    def users_ns(self, low_ns: float, high_ns: float) -> float:
        """Σ over VUs of their planned time between two moments, ns from the group's start."""
        return users_ns(self.start_vus, self.stages, low_ns, high_ns)


class OpenLoop(Frozen):
    """What open executors share: arrivals that do not wait for the server; a full pool makes them wait, or drops them."""

    max_vus: int | None = Field(default=None, ge=1)
    arrivals: Literal["constant", "poisson"] = "constant"
    on_full: Literal["wait", "drop"] = "wait"

    @property
    def model(self) -> str:
        """Load model, for every table."""
        return "open loop"

    @property
    def shape(self) -> Shape:
        """What the load is like over time."""
        return "constant"

    @property
    def stages_ns(self) -> int | None:
        """How long its stages take; None without stages."""
        return None

    @property
    def peak_rps(self) -> float:
        """The highest rate."""
        raise NotImplementedError

    def arrivals_until(self, moment_ns: float) -> float:
        """The rate's integral until a moment, ns from the group's start."""
        raise NotImplementedError


class ConstantArrivalRate(OpenLoop):
    """Open loop: arrivals at `rate_rps`, whatever the server does (k6's constant-arrival-rate; a full pool waits)."""

    kind: Literal["constant-arrival-rate"] = "constant-arrival-rate"
    rate_rps: float = Field(gt=0)
    ramp_up_ns: int = 0

    @property
    def peak_rps(self) -> float:
        """The rate."""
        return self.rate_rps

    def arrivals_until(self, moment_ns: float) -> float:
        """The rate's integral until a moment, ns from the group's start."""
        return max(moment_ns, 0.0) / 1e9 * self.rate_rps


class RampingArrivalRate(InStages, OpenLoop):
    """Open loop whose rate follows stages (k6's ramping-arrival-rate; a full pool waits)."""

    kind: Literal["ramping-arrival-rate"] = "ramping-arrival-rate"
    start_rate_rps: float = Field(default=0.0, ge=0)

    @property
    def peak_rps(self) -> float:
        """The highest rate."""
        return max([self.start_rate_rps, *(stage.target for stage in self.stages)])

    def arrivals_until(self, moment_ns: float) -> float:
        """The rate's integral until a moment, ns from the group's start."""
        return arrivals_until(self.start_rate_rps, self.stages, moment_ns)


Executor = Annotated[
    ConstantVus | RampingVus | SharedIterations | PerVuIterations | ConstantArrivalRate | RampingArrivalRate,
    Field(discriminator="kind"),
]


class Step(Frozen):
    """A request of a scenario, and the pause between its end and the due time of the step after it."""

    name: str
    request: Request
    think_time: ThinkTime = ThinkTime(constant_ns=0)


class Scenario(Frozen):
    """Steps in order; of several an iteration takes one by `weight`."""

    name: str
    weight: int = Field(default=1, ge=1)
    steps: tuple[Step, ...] = Field(min_length=1)


class SetUp(Frozen):
    """A request before the load whose variables its groups use: once a trial, or once for each VU of the group that uses them."""

    request: Request
    once: Literal["trial", "vu"] = "trial"


Http2 = bool | Literal["preferred"]
"""Whether HTTP/2 is spoken; preferred: the server may choose HTTP/1.1."""


class Group(Frozen):
    """One traffic group of a case. An iteration is one `request`, or the steps of one of `scenarios`. `start_when` names the group whose ramp must have ended first.

    Over HTTP/2 `streams` users (or requests at once) share a connection; `preferred`: a server may choose HTTP/1.1.

    `graceful_stop_ns` is how long what is due by the end is followed; None: until its time-out. Connections leave from
    `source_addresses` in turn; empty: from where the kernel says. `close: reset` ends them with RST, which leaves no port in TIME_WAIT.

    What waits for its time begins only at multiples of `pacing_quantum_ns` from the trial's start (0: when due); due times stay exact, so the wait is generator lag.
    """

    name: str
    client: Literal["engine", "curl"] = "engine"
    connection: Literal["keep-alive", "new", "shared"] = "keep-alive"
    executor: Executor
    request: Request
    scenarios: tuple[Scenario, ...] = ()
    generators: int = Field(default=1, ge=1)
    start_when: str | None = None
    graceful_stop_ns: int | None = None
    tls_resumption: bool = True
    spin_ns: int = Field(default=0, ge=0, le=10_000_000)
    pacing_quantum_ns: int = Field(default=0, ge=0, le=1_000_000_000)
    source_addresses: tuple[str, ...] = ()
    close: Literal["fin", "reset"] = "fin"
    http2: Http2 = False
    streams: int = Field(default=1, ge=1)
    record: Literal["auto", "rows", "histogram"] = "auto"

    def connections(self, slots: int) -> int:
        """How many connections so many users, or requests at once, share."""
        return -(-slots // self.streams)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps of all scenarios, as results number them; a request alone is the only one."""
        alone = (Step(name=self.request.name, request=self.request),)
        return tuple(step for scenario in self.scenarios for step in scenario.steps) or alone

    @property
    def requests(self) -> tuple[Request, ...]:
        """The requests of all steps."""
        return tuple(step.request for step in self.steps)

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that its requests name; where variables make an address, the empty one is among them."""
        return frozenset(request.host for request in self.requests)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`scheme://host` of its requests, each once; what variables make is not among them."""
        return tuple(dict.fromkeys(request.endpoint for request in self.requests if request.url is None))

    @property
    def longest_timeout_ns(self) -> int:
        """The longest time-out of its requests: what a failure counts in a mean."""
        return max(request.timeout_ns for request in self.requests)

    @property
    def longest_iteration_ns(self) -> float:
        """What an iteration takes if every request of it is answered just in time; its think times at their mean."""
        lengths = [
            sum(step.request.timeout_ns + step.think_time.mean_ns for step in scenario.steps)
            for scenario in self.scenarios
        ]
        return max(lengths, default=float(self.request.timeout_ns))

    @property
    def longest_iteration(self) -> int:
        """The most requests that an iteration may have."""
        return max([len(scenario.steps) for scenario in self.scenarios], default=1)

    @property
    def keeps_rows(self) -> bool:
        """Whether every request becomes a row; histograms alone otherwise."""
        if self.record != "auto":
            return self.record == "rows"
        executor = self.executor
        most = self.longest_iteration
        if isinstance(executor, FixedWork) and executor.work * most <= ROWS_UP_TO:
            return True
        slow = executor.peak_rps is not None and executor.peak_rps * most <= ROWS_UP_TO_RPS
        return self.client == "curl" or slow

"""Load as a case asks for it, every `${…}` resolved except those only a request can know (feeder rows, request.id)."""

from __future__ import annotations

from math import exp, log
from typing import Annotated, Literal

from pydantic import Field

from svload.model.base import Frozen
from svload.model.stages import Stage, arrivals_until, stages_ns, users_ns

FIRST_CYCLE_NS = 5_000_000
"""VUs without think time and without a ramp start spread over this (METHOD §1: spread over the first cycle)."""
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


Part = Text | FeederPart | VarPart
Template = tuple[Part, ...]


class StatusCheck(Frozen):
    """The answer's status lies in [low, high]."""

    name: str
    status: tuple[int, int]


class SizeCheck(Frozen):
    """The body's size is this many bytes, or this column's value."""

    name: str
    size_bytes: int | FeederPart


Check = StatusCheck | SizeCheck


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


def _lognormal_mean(median: float, p99: float) -> float:
    sigma = log(p99 / median) / NORMAL_P99
    return median * exp(sigma * sigma / 2)


class Request(Frozen):
    """One named request. `host` is a service's name or an address; `scheme` http or https."""

    name: str
    method: str = "GET"
    scheme: str
    host: str
    path: Template
    headers: tuple[tuple[str, Template], ...] = ()
    body: Body | None = None
    expect_continue: bool = False
    chunked: bool = False
    timeout_ns: int = 30_000_000_000
    expect_status: tuple[tuple[int, int], ...] = ((200, 399),)
    checks: tuple[Check, ...] = ()
    follow_redirects: int = 0

    @property
    def endpoint(self) -> str:
        """The key of the share's endpoint table: `scheme://host`."""
        return f"{self.scheme}://{self.host}"


class Feeder(Frozen):
    """Rows for requests: which table of inputs/, and how it is walked."""

    name: str
    table: str
    take: Literal["first", "walk", "random"] = "walk"
    when_exhausted: Literal["repeat"] = "repeat"


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
        starts = (self.spread_ns * number / self.vus for number in range(self.vus))
        return sum(max(high_ns - max(low_ns, start), 0.0) for start in starts)


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


class Group(Frozen):
    """One traffic group of a case. `start_when` names the group whose ramp must have ended first.

    `graceful_stop_ns` is how long what is due by the end is followed; None: until its time-out. Connections leave from
    `source_addresses` in turn; empty: from where the kernel says.
    """

    name: str
    client: Literal["engine", "curl"] = "engine"
    connection: Literal["keep-alive", "new", "shared"] = "keep-alive"
    executor: Executor
    request: Request
    generators: int = Field(default=1, ge=1)
    start_when: str | None = None
    graceful_stop_ns: int | None = None
    tls_resumption: bool = True
    spin_ns: int = Field(default=0, ge=0, le=10_000_000)
    source_addresses: tuple[str, ...] = ()
    record: Literal["auto", "rows", "histogram"] = "auto"

    @property
    def keeps_rows(self) -> bool:
        """Whether every request becomes a row; histograms alone otherwise (DESIGN, the river)."""
        if self.record != "auto":
            return self.record == "rows"
        executor = self.executor
        if isinstance(executor, FixedWork) and executor.work <= ROWS_UP_TO:
            return True
        slow = executor.peak_rps is not None and executor.peak_rps <= ROWS_UP_TO_RPS
        return self.client == "curl" or slow

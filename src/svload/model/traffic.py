"""Load as a case asks for it, every `${…}` resolved except those only a request can know (feeder rows, request.id)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from svload.model.base import Frozen


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


class Request(Frozen):
    """One named request. `host` is a service's name or an address; `scheme` http or https."""

    name: str
    method: str = "GET"
    scheme: str
    host: str
    path: Template
    headers: tuple[tuple[str, Template], ...] = ()
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
    """Pause between a VU's requests; exactly one is set."""

    constant_ns: int | None = None
    uniform_ns: tuple[int, int] | None = None
    exponential_ns: int | None = None

    @property
    def mean_ns(self) -> float:
        """Its expectation."""
        if self.uniform_ns:
            return sum(self.uniform_ns) / 2
        return float(self.exponential_ns or self.constant_ns or 0)


class ConstantVus(Frozen):
    """Closed loop: `vus` virtual users, each waits for its answer, then thinks (k6's constant-vus with a ramp)."""

    kind: Literal["constant-vus"] = "constant-vus"
    vus: int = Field(ge=1)
    ramp_up_ns: int = 0
    think_time: ThinkTime = ThinkTime(constant_ns=0)
    start: Literal["spread", "together"] = "spread"

    @property
    def model(self) -> str:
        """Load model, for every table."""
        return "closed loop"


class ConstantArrivalRate(Frozen):
    """Open loop: arrivals at `rate_rps`, whatever the server does (k6's constant-arrival-rate; a full pool waits)."""

    kind: Literal["constant-arrival-rate"] = "constant-arrival-rate"
    rate_rps: float = Field(gt=0)
    max_vus: int | None = Field(default=None, ge=1)
    arrivals: Literal["constant", "poisson"] = "constant"
    on_full: Literal["wait", "drop"] = "wait"
    ramp_up_ns: int = 0

    @property
    def model(self) -> str:
        """Load model, for every table."""
        return "open loop"


Executor = Annotated[ConstantVus | ConstantArrivalRate, Field(discriminator="kind")]


class Group(Frozen):
    """One traffic group of a case. `start_when` names the group whose ramp must have ended first."""

    name: str
    client: Literal["engine", "curl"] = "engine"
    connection: Literal["keep-alive", "new"] = "keep-alive"
    executor: Executor
    request: Request
    generators: int = Field(default=1, ge=1)
    start_when: str | None = None
    tls_resumption: bool = True
    record: Literal["auto", "rows", "histogram"] = "auto"

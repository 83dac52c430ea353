"""Requests and traffic groups of the study file as pydantic models: what may be written where."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from svload.study import bounds
from svload.study.distributions import SizeOrLaw, ThinkTime, ThinkTimePart
from svload.study.mistakes import wrong
from svload.study.values import (
    AtMost,
    Count,
    Decided,
    Flag,
    Name,
    NoLonger,
    OneOrMany,
    OrAlone,
    OrReference,
    Part,
    Pick,
    QuantumNs,
    RateOrZeroRps,
    RateRps,
    Redirects,
    ScalarText,
    SpanNs,
    SpinNs,
    Texts,
    TimeNs,
    When,
    WholeNumber,
    holds_reference,
)

Users = Annotated[Count, AtMost(bounds.VUS)]
UsersOrNone = Annotated[WholeNumber, AtMost(bounds.VUS)]
METHODS = ("get", "head", "delete", "options", "post", "put", "patch")
OF_A_DIALOGUE = {"tcp", "dialogue", "timeout"}
WITH_BODY = ("post", "put", "patch")


def _ascending(text: str) -> str:
    low, _, high = text.partition("-")
    if high and high < low:
        raise wrong("the high end must not be below the low one", f"Write {high}-{low}.")
    return text


StatusRange = Annotated[
    str,
    BeforeValidator(
        lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    ),
    StringConstraints(pattern=r"^([1-5]\d\d)(-[1-5]\d\d)?$"),
    AfterValidator(_ascending),
    WithJsonSchema({"type": ["string", "integer"], "examples": [200, "200-299"]}),
]


def _ip_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise wrong("an IP address was expected", "Write 127.0.0.2.") from None


IpAddress = Annotated[str, AfterValidator(_ip_address)]


class BodyPart(Part):
    """What a request carries: a text (which may hold `${…}`), random bytes of a size, or a file beside the study."""

    text: str | None = Field(None, description="the text itself; `${…}` is filled in for each request")
    random: SizeOrLaw | None = Field(
        None, description="seeded random bytes: 40 KiB, {lognormal: {median: …, p99: …}} or {uniform: […, …]}"
    )
    file: str | None = Field(None, description="a file in the study's folder")

    @model_validator(mode="after")
    def _one_kind(self) -> BodyPart:
        if sum(kind is not None for kind in (self.text, self.random, self.file)) != 1:
            raise wrong("one of text, random, file was expected", "Write {random: 40 KiB}.")
        return self


class TakePart(Part):
    """A variable taken from the answer: a header, a place in a JSON body, or what a regular expression finds in the body."""

    header: str | None = Field(None, description="the header's name")
    json_path: str | None = Field(None, alias="json", description="a path: access.token, items[0].id")
    regex: str | None = Field(None, description="its first group, or all that matches: id=(\\d+)")

    @model_validator(mode="after")
    def _one_kind(self) -> TakePart:
        if sum(kind is not None for kind in (self.header, self.json_path, self.regex)) != 1:
            raise wrong("one of header, json, regex was expected", "Write {header: X-Auth-Token}.")
        return self


class TurnPart(Part):
    """A turn of a raw dialogue: one of these."""

    send: str | None = Field(None, description="this text leaves; `${…}` is filled in for each request")
    send_hex: str | None = Field(None, description="these bytes leave: ff 00 0a")
    expect: str | None = Field(None, description="this text must come; what comes before it is passed over")
    expect_hex: str | None = Field(None, description="these bytes must come")
    match: str | None = Field(None, description="a regular expression must match what has come")
    read: Count | None = Field(None, description="so many bytes must come")
    until_close: bool = Field(False, description="all until the server ends the connection; the last turn")

    @model_validator(mode="after")
    def _one_kind(self) -> TurnPart:
        kinds = ("send", "send_hex", "expect", "expect_hex", "match", "read")
        if sum(getattr(self, kind) is not None for kind in kinds) + self.until_close != 1:
            raise wrong(f"one of {', '.join(kinds)}, until_close was expected")
        for kind in ("send_hex", "expect_hex"):
            text = getattr(self, kind)
            if text is not None and not re.fullmatch(r"([0-9A-Fa-f]{2}\s*)+", text):
                raise wrong(f"{kind} takes pairs of hexadecimal digits", "Write ff 00 0a.")
        if self.expect == "":
            raise wrong("a text to expect was expected")
        return self


class RequestPart(Part):
    """One request. The URL's host is a service's name; its port and certificate authority follow from service and scheme."""

    get: str | None = Field(None, description="the URL of a GET")
    head: str | None = Field(None, description="the URL of a HEAD")
    delete: str | None = Field(None, description="the URL of a DELETE")
    options: str | None = Field(None, description="the URL of an OPTIONS")
    post: str | None = Field(None, description="the URL of a POST")
    put: str | None = Field(None, description="the URL of a PUT")
    patch: str | None = Field(None, description="the URL of a PATCH")
    tcp: str | None = Field(None, description="where a raw dialogue is held: tcp://service or tls://service")
    dialogue: list[TurnPart] = Field([], description="of tcp: the turns in order")
    body: (
        Annotated[
            BodyPart,
            OrAlone(lambda value: {"text": value} if isinstance(value, str) else value, {"type": "string"}),
        ]
        | None
    ) = Field(None, description="of a POST, PUT or PATCH: a text, {random: 40 KiB} or {file: name}")
    expect_continue: Flag = Field(
        False, description="a random or file body waits for the server's 100 (1 s at most)"
    )
    chunked: Flag = Field(
        False, description="a random or file body leaves in chunks, its length is not said before"
    )
    headers: dict[str, ScalarText] = Field(
        {}, description="name: value; left out in cases whose level lacks the field"
    )
    timeout: SpanNs = Field(
        30_000_000_000, description="from its begin until its last byte, redirects included"
    )
    check: Texts = Field(
        [],
        description="status == 200, size_bytes == ${feeder.size_bytes}, header.X-Cache == HIT, body contains ok, sha256 == …",
    )
    take: Annotated[
        dict[Name, TakePart], Field(description="variables for later steps: token: {header: X-Auth-Token}")
    ] = {}
    expect_status: Annotated[list[StatusRange], OneOrMany()] = Field(["200-399"], description="200, 200-299")
    follow_redirects: Redirects = Field(0, description="how many redirects are followed; at most 100")

    @model_validator(mode="after")
    def _one_method(self) -> RequestPart:
        if sum(getattr(self, method) is not None for method in (*METHODS, "tcp")) != 1:
            raise wrong(f"exactly one of {', '.join(METHODS)}, tcp was expected")
        if (self.tcp is None) != (not self.dialogue):
            raise wrong("tcp and dialogue belong together")
        if self.tcp is not None and (other := sorted(self.model_fields_set - OF_A_DIALOGUE)):
            raise wrong(f"{other[0]} belongs to HTTP, and this is a dialogue")
        if any(turn.until_close for turn in self.dialogue[:-1]):
            raise wrong("until_close must be the last turn")
        if self.body is not None and self.method not in WITH_BODY:
            raise wrong(f"a body belongs to {', '.join(WITH_BODY)}, not to {self.method}")
        if self.expect_continue is True and (self.body is None or self.body.text is not None):
            raise wrong("expect_continue needs a random or file body")
        if self.chunked is True and (self.body is None or self.body.text is not None):
            raise wrong("chunked needs a random or file body")
        return self

    @property
    def method(self) -> str:
        """get, head …"""
        return next(method for method in (*METHODS, "tcp") if getattr(self, method) is not None)


class RequestForm(Decided):
    """A request's name, `GET http://service/path`, or the request itself."""

    def read(self, value: Any, context: Any) -> Any:
        """The name or the request."""
        if isinstance(value, str) and (match := re.fullmatch(r"([A-Za-z]+)\s+(\S.*)", value.strip())):
            if match[1].lower() not in METHODS:
                raise wrong(
                    f"one of {', '.join(METHODS).upper()} was expected", "Write GET http://service/path."
                )
            value = {match[1].lower(): match[2]}
        if isinstance(value, str):
            return value
        return RequestPart.model_validate(value, context=context)


InlineRequest = Annotated[str | RequestPart, RequestForm()]


class ScenarioStepPart(Part):
    """A step of a scenario. It is due when the step before it has ended and its think time is over."""

    request: InlineRequest = Field(description="a name under requests, or GET http://service/path")
    think_time: ThinkTime = Field(
        ThinkTimePart(constant=0),
        description="between its end and the next step; the group's follows the last",
    )


class StepForm:
    """What has a request, or that request alone."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.whole, handler(source))

    @staticmethod
    def whole(value: Any) -> Any:
        """The mapping that `value` means."""
        alone = isinstance(value, str) or (isinstance(value, Mapping) and "request" not in value)
        return {"request": value} if alone else value

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema), {"type": "object"}]}


AnyStep = Annotated[ScenarioStepPart, StepForm()]
Steps = Annotated[list[AnyStep], NoLonger(bounds.STEPS), Field(min_length=1)]


class OrName:
    """A name, or the steps themselves."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, inner: ValidatorFunctionWrapHandler, _: ValidationInfo) -> Any:
            return value if isinstance(value, str) else inner(value)

        return core_schema.with_info_wrap_validator_function(check, handler.generate_schema(Steps))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


class SetUpPart(Part):
    """A request before the load; every group may use the variables that it takes. If it fails, so does the trial."""

    request: InlineRequest = Field(description="a name under requests, or the request itself")
    once: Annotated[Literal["trial", "vu"], OrReference()] = Field(
        "trial", description="vu: for each VU of the groups that use it"
    )


AnySetUp = Annotated[SetUpPart, StepForm()]


Executor = Literal[
    "constant-vus",
    "ramping-vus",
    "shared-iterations",
    "per-vu-iterations",
    "constant-arrival-rate",
    "ramping-arrival-rate",
]


class GroupPart(Part):
    """What every traffic group has."""

    when: When = {}
    client: Annotated[Literal["engine", "curl"], OrReference()] = Field("engine", description="curl: asks as curl does, every request a row")  # fmt: skip
    connection: Annotated[Literal["keep-alive", "new", "shared"], OrReference()] = Field("keep-alive", description="new: one for each request; shared: users take any that is free")  # fmt: skip
    request: Annotated[str | RequestPart | None, RequestForm()] = Field(
        None, description="a name under requests, or GET http://service/path"
    )
    scenario: Annotated[str | list[ScenarioStepPart] | None, OrName()] = Field(
        None, description="in place of request: a name under scenarios, or steps in order"
    )
    mix: dict[Name, Count] | None = Field(
        None, min_length=1, description="in place of request: scenarios or requests, each with its weight"
    )
    generators: Annotated[Count, AtMost(bounds.GENERATORS)] = Field(
        1, description="how many processes share the load; no more than the load has cores"
    )
    start_when: str | None = Field(None, description="GROUP.ramped: begin when that group's ramp has ended")
    graceful_stop: TimeNs | None = Field(
        None, description="how long what is due by the end is still followed; left out: to its time-out"
    )
    record: Annotated[Literal["auto", "rows", "histogram"], OrReference()] = Field("auto", description="rows: each request; auto: rows up to 1,000/s")  # fmt: skip
    tls_resumption: Flag = Field(
        True, description="whether a new connection may resume an earlier TLS session"
    )
    spin: SpinNs = Field(0, description="so long before each start, and for awaited answers before sleeping, ask again and again: on time and heard at once, at the price of CPU")  # fmt: skip
    pacing_quantum: QuantumNs = Field(0, description="begin what is due only so often, all at once: far less CPU at high rates, for lag that the result shows")  # fmt: skip
    close: Annotated[Literal["fin", "reset"], OrReference()] = Field("fin", description="reset: connections end with RST, so that no local port rests in TIME_WAIT")  # fmt: skip
    source_addresses: Annotated[list[IpAddress], OneOrMany()] = Field(
        [], description="addresses of this machine that connections leave from, in turn"
    )
    http2: Annotated[Annotated[bool, Field(strict=True)] | Literal["preferred"], OrReference()] = Field(
        False, description="true, or preferred: over TLS a server may choose HTTP/1.1"
    )
    streams: Users = Field(1, description="how many users, or requests at once, share an HTTP/2 connection")

    @model_validator(mode="after")
    def _one_iteration(self) -> Self:
        if sum(kind is not None for kind in (self.request, self.scenario, self.mix)) != 1:
            raise wrong(
                "one of request, scenario, mix was expected", "Write request: GET http://service/path."
            )
        if self.client == "curl" and self.request is None:
            raise wrong("client: curl asks one request", "Leave client out, or write request in place of it.")
        return self


VUS = "how many virtual users"
START_VUS = "users at the begin"
ITERATIONS = "how many requests: of all users together, or of each"
RATE = "arrivals: 500/s"
START_RATE = "arrivals at the begin: 50/s"
EXECUTOR = "constant-vus, constant-arrival-rate …"
THINK_TIME = "pause between a user's requests: 0.1s, {uniform: [1s, 3s]}, {exponential: 2s} or {lognormal: {median: 1s, p99: 10s}}"
START = "spread: users without a ramp begin over their first cycle; together: all at once"
ARRIVALS = "constant: evenly apart; poisson: at random, as independent users arrive"
ON_FULL = "what an arrival does when max_vus are under way: wait for a place, which counts as response, or be dropped, which is counted"
RAMP_UP = "until all are there; excluded from measurement"
PACING = "a user's iterations begin at least so far apart"
MAX_VUS = "how many may be under way; left out: rate × timeout, as far as descriptors and local ports go (svload plan tells)"
HOLD_FOR = "how long the last target is held after the stages"


class Thinking(GroupPart):
    """What every closed group has."""

    think_time: ThinkTime = Field(ThinkTimePart(constant=0), description=THINK_TIME)
    pacing: TimeNs = Field(0, description=PACING)


class ClosedGroup(Thinking):
    """Closed loop: each VU waits for its answer, then thinks."""

    executor: Annotated[Literal["constant-vus"], OrReference()] = Field(description=EXECUTOR)
    vus: Users = Field(description=VUS)
    ramp_up: TimeNs = Field(0, description=RAMP_UP)
    start: Annotated[Literal["spread", "together"], OrReference()] = Field("spread", description=START)


class IterationsGroup(Thinking):
    """Closed loop of a fixed amount of work: of all VUs together (shared-iterations), or of each (per-vu-iterations)."""

    executor: Annotated[Literal["shared-iterations", "per-vu-iterations"], OrReference()] = Field(
        description=EXECUTOR
    )
    vus: Users = Field(1, description=VUS)
    iterations: Annotated[Count, AtMost(bounds.ITERATIONS)] = Field(description=ITERATIONS)
    start: Annotated[Literal["spread", "together"], OrReference()] = Field("spread", description=START)

    @model_validator(mode="after")
    def _enough(self) -> IterationsGroup:
        counts = (self.iterations, self.vus)
        known = all(isinstance(count, int) for count in counts)
        if self.executor == "shared-iterations" and known and self.iterations < self.vus:
            raise wrong("at least one iteration a user was expected (iterations ≥ vus)")
        if self.executor == "per-vu-iterations" and known and math.prod(counts) > bounds.ITERATIONS.most:
            raise wrong(bounds.ITERATIONS.told, "Ask for fewer users, or fewer iterations of each.")
        return self


class VusStage(Part):
    """From as many users as before to `target`, in a straight line."""

    duration: TimeNs = Field(description="how long it takes; 0s is a jump")
    target: UsersOrNone = Field(description="users at its end")


class RateStage(Part):
    """From the rate before to `target`, in a straight line."""

    duration: TimeNs = Field(description="how long it takes; 0s is a jump")
    target: RateOrZeroRps = Field(description="arrivals at its end: 500/s")


class InStages(Part):
    """What groups have whose load changes in stages: they must last, and bring something."""

    stages: Sequence[VusStage | RateStage]
    hold_for: TimeNs = Field(0, description=HOLD_FOR)

    @property
    def start_level(self) -> Any:
        """Users or arrivals a second at the begin."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _some_load(self) -> Self:
        lengths: list[Any] = [stage.duration for stage in self.stages]
        if not any(isinstance(length, str) or length > 0 for length in lengths):
            raise wrong("the stages must last longer than 0s")
        levels: list[Any] = [self.start_level, *(stage.target for stage in self.stages)]
        if not any(isinstance(level, str) or level > 0 for level in levels):
            raise wrong("a target above 0 was expected in at least one stage")
        return self


class RampingVusGroup(InStages, Thinking):
    """Closed loop whose number of VUs follows stages; shown over time only."""

    executor: Annotated[Literal["ramping-vus"], OrReference()] = Field(description=EXECUTOR)
    stages: Annotated[list[VusStage], NoLonger(bounds.STAGES)] = Field(
        min_length=1, description="{duration: 30s, target: 100}, one after another"
    )
    start_vus: UsersOrNone = Field(0, description=START_VUS)

    @property
    def start_level(self) -> Any:
        """Users at the begin."""
        return self.start_vus


class Arriving(GroupPart):
    """What every open group has."""

    max_vus: Users | None = Field(None, description=MAX_VUS)
    arrivals: Annotated[Literal["constant", "poisson"], OrReference()] = Field("constant", description=ARRIVALS)  # fmt: skip
    on_full: Annotated[Literal["wait", "drop"], OrReference()] = Field("wait", description=ON_FULL)


class OpenGroup(Arriving):
    """Open loop: arrivals at a rate, whatever the server does."""

    executor: Annotated[Literal["constant-arrival-rate"], OrReference()] = Field(description=EXECUTOR)
    rate: RateRps = Field(description=RATE)
    ramp_up: TimeNs = Field(0, description=RAMP_UP)


class RampingRateGroup(InStages, Arriving):
    """Open loop whose rate follows stages; shown over time only."""

    executor: Annotated[Literal["ramping-arrival-rate"], OrReference()] = Field(description=EXECUTOR)
    stages: Annotated[list[RateStage], NoLonger(bounds.STAGES)] = Field(
        min_length=1, description="{duration: 30s, target: 500/s}, one after another"
    )
    start_rate: RateOrZeroRps = Field(0.0, description=START_RATE)

    @property
    def start_level(self) -> Any:
        """Arrivals a second at the begin."""
        return self.start_rate


class AnyGroup(GroupPart):
    """A group whose executor is itself a `${…}`: checked again in each case."""

    executor: Annotated[Executor, OrReference()] = Field(description=EXECUTOR)
    vus: Users | None = Field(None, description=VUS)
    iterations: Count | None = Field(None, description=ITERATIONS)
    stages: list[Any] | None = Field(None, description="{duration: 30s, target: …}, one after another")
    start_vus: UsersOrNone | None = Field(None, description=START_VUS)
    start_rate: RateOrZeroRps | None = Field(None, description=START_RATE)
    hold_for: TimeNs | None = Field(None, description=HOLD_FOR)
    ramp_up: TimeNs | None = Field(None, description=RAMP_UP)
    think_time: ThinkTime | None = Field(None, description=THINK_TIME)
    pacing: TimeNs | None = Field(None, description=PACING)
    start: str | None = Field(None, description=START)
    rate: RateRps | None = Field(None, description=RATE)
    max_vus: Users | None = Field(None, description=MAX_VUS)
    arrivals: str | None = Field(None, description=ARRIVALS)
    on_full: str | None = Field(None, description=ON_FULL)


_GROUPS: Mapping[str, type[GroupPart]] = {
    "constant-vus": ClosedGroup,
    "ramping-vus": RampingVusGroup,
    "shared-iterations": IterationsGroup,
    "per-vu-iterations": IterationsGroup,
    "constant-arrival-rate": OpenGroup,
    "ramping-arrival-rate": RampingRateGroup,
}


class _WrongExecutor(AnyGroup):
    executor: Executor = Field(description=EXECUTOR)


def _group_kind(value: Any) -> type[BaseModel]:
    executor = value.get("executor") if isinstance(value, Mapping) else None
    if holds_reference(executor):
        return AnyGroup
    return _GROUPS.get(str(executor), _WrongExecutor)


AnyOneGroup = Annotated[
    ClosedGroup | OpenGroup | RampingVusGroup | RampingRateGroup | IterationsGroup | AnyGroup,
    Pick(_group_kind),
]

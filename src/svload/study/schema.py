"""The study file as pydantic models: what may be written where. The same models check a case once its `${…}` are resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from svload.study.mistakes import wrong
from svload.study.values import (
    QUANTITY,
    Count,
    FileName,
    Flag,
    Name,
    OneOrMany,
    OrAlone,
    OrReference,
    Part,
    Pick,
    PlainCount,
    PlainSpanNs,
    PlainWholeNumber,
    RateOrZeroRps,
    RateRps,
    ScalarText,
    SizeBytes,
    SpanNs,
    Texts,
    TimeNs,
    When,
    WholeNumber,
    holds_reference,
)

# the lab


class Service(Part):
    """A service: a kit and its options; or `run`, a command of your own; or `at`, something that runs already."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kit: str | None = Field(None, description="which kind of server: swift, varnish, nginx, truth …")
    run: str | None = Field(None, description="a command; ${port} is the port it shall listen on")
    ready: str | None = Field(None, description="the request that a started command must answer: GET /health")
    at: str | None = Field(None, description="the URL of something that runs already")

    @model_validator(mode="after")
    def _one_kind(self) -> Service:
        kinds = [word for word in ("kit", "run", "at") if getattr(self, word) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of them"
            raise wrong(f"one of kit, run, at was expected, and it has {found}")
        return self

    @property
    def kind(self) -> str:
        """The kit's name, short forms included."""
        return self.kit or ("command" if self.run is not None else "external")

    def options(self) -> dict[str, Any]:
        """All that is said of it, the kit's name apart."""
        said = self.model_dump(exclude_unset=True)
        said.pop("kit", None)
        return said


class Lognormal(Part):
    """Log-normal sizes."""

    median: SizeBytes = Field(description="half of the objects are smaller")
    p99: SizeBytes = Field(description="99 % of the objects are smaller")

    @model_validator(mode="after")
    def _ordered(self) -> Lognormal:
        if isinstance(self.median, int) and isinstance(self.p99, int) and self.p99 < self.median:
            raise wrong("p99 must not be below the median")
        return self


class LognormalSize(Part):
    """`{lognormal: {median, p99}}`."""

    lognormal: Lognormal


class UniformSize(Part):
    """`{uniform: [low, high]}`."""

    uniform: tuple[SizeBytes, SizeBytes]

    @model_validator(mode="after")
    def _ordered(self) -> UniformSize:
        if all(isinstance(end, int) for end in self.uniform) and self.uniform[1] < self.uniform[0]:
            raise wrong("the high end must not be below the low one")
        return self


class ConstantSize(Part):
    """A size written alone."""

    constant: SizeBytes


def _size_kind(value: Any) -> type[BaseModel]:
    kinds: dict[str, type[BaseModel]] = {
        "lognormal": LognormalSize,
        "uniform": UniformSize,
        "constant": ConstantSize,
    }
    named = [kind for kind in kinds if kind in value]
    if len(value) != 1 or not named:
        raise wrong("a size or one distribution was expected", "Write 40 KiB, {lognormal: {median: 40 KiB, p99: 400 KiB}} or {uniform: [1 KiB, 9 KiB]}.")  # fmt: skip
    return kinds[named[0]]


SizeOrLaw = Annotated[
    LognormalSize | UniformSize | ConstantSize,
    Pick(_size_kind),
    OrAlone(lambda value: {"constant": value}, QUANTITY),
]


class Objects(Part):
    """A set of objects that a store is filled with."""

    service: str = Field(alias="in", description="the service that stores them")
    accounts: Count = Field(1, description="how many accounts they are spread over")
    containers: Count = Field(1, description="how many containers, over all accounts")
    count: Count = Field(description="how many objects")
    size: SizeOrLaw = Field(description="40 KiB, {lognormal: {median: …, p99: …}} or {uniform: […, …]}")


class FeederPart(Part):
    """Rows for requests, from a set of objects: columns path, size_bytes, digest."""

    source: str = Field(alias="from", description="the name of a set under data")
    take: Annotated[Literal["first", "walk", "random"], OrReference()] = Field(
        "walk", description="which rows: always the first, the whole table from each VU's own offset, or any"
    )
    when_exhausted: Annotated[Literal["repeat"], OrReference()] = Field(
        "repeat", description="after the last row"
    )


class StepPart(Part):
    """A step before each trial: reset services, or warm a feeder's rows through a service."""

    when: When = {}
    reset: Texts | None = Field(
        None, description="services that are brought back to their state before any trial"
    )
    warm: str | None = Field(None, description="the feeder whose rows are asked for once")
    through: str | None = Field(None, description="the service that is asked")

    @model_validator(mode="after")
    def _one_kind(self) -> StepPart:
        if (self.reset is None) == (self.warm is None):
            raise wrong("one of reset, warm was expected")
        if (self.warm is None) != (self.through is None):
            raise wrong("warm and through go together")
        return self


# what varies


class ExclusionPart(Part):
    """Combinations that are not run, with the reason that every report shows."""

    when: When = Field(min_length=1, description="factor: level of the combinations that are left out")
    because: str = Field(description="why they cannot or need not be run")


# traffic

METHODS = ("get", "head", "delete", "options", "post", "put", "patch")
WITH_BODY = ("post", "put", "patch")
StatusRange = Annotated[
    str,
    BeforeValidator(
        lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    ),
    StringConstraints(pattern=r"^([1-5]\d\d)(-[1-5]\d\d)?$"),
    WithJsonSchema({"type": ["string", "integer"], "examples": [200, "200-299"]}),
]


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


class RequestPart(Part):
    """One request. The URL's host is a service's name; its port and certificate authority follow from service and scheme."""

    get: str | None = Field(None, description="the URL of a GET")
    head: str | None = Field(None, description="the URL of a HEAD")
    delete: str | None = Field(None, description="the URL of a DELETE")
    options: str | None = Field(None, description="the URL of an OPTIONS")
    post: str | None = Field(None, description="the URL of a POST")
    put: str | None = Field(None, description="the URL of a PUT")
    patch: str | None = Field(None, description="the URL of a PATCH")
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
    headers: dict[str, ScalarText] = Field(
        {}, description="name: value; left out in cases whose level lacks the field"
    )
    timeout: SpanNs = Field(
        30_000_000_000, description="from its begin until its last byte, redirects included"
    )
    check: Texts = Field([], description="status == 200, size_bytes == ${feeder.size_bytes}")
    expect_status: Annotated[list[StatusRange], OneOrMany()] = Field(["200-399"], description="200, 200-299")
    follow_redirects: WholeNumber = Field(0, description="how many redirects are followed")

    @model_validator(mode="after")
    def _one_method(self) -> RequestPart:
        if sum(getattr(self, method) is not None for method in METHODS) != 1:
            raise wrong(f"exactly one of {', '.join(METHODS)} was expected")
        if self.body is not None and self.method not in WITH_BODY:
            raise wrong(f"a body belongs to {', '.join(WITH_BODY)}, not to {self.method}")
        if self.expect_continue is True and (self.body is None or self.body.text is not None):
            raise wrong("expect_continue needs a random or file body")
        return self

    @property
    def method(self) -> str:
        """get, head …"""
        return next(method for method in METHODS if getattr(self, method) is not None)


class RequestForm:
    """A request's name, `GET http://service/path`, or the request itself."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, _: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
            if isinstance(value, str) and (match := re.fullmatch(r"([A-Za-z]+)\s+(\S.*)", value.strip())):
                if match[1].lower() not in METHODS:
                    raise wrong(
                        f"one of {', '.join(METHODS).upper()} was expected", "Write GET http://service/path."
                    )
                value = {match[1].lower(): match[2]}
            if isinstance(value, str):
                return value
            return RequestPart.model_validate(value, context=info.context)

        return core_schema.with_info_wrap_validator_function(check, handler(source))


InlineRequest = Annotated[str | RequestPart, RequestForm()]


class LognormalTime(Part):
    """Log-normal times."""

    median: SpanNs = Field(description="half of them are shorter")
    p99: SpanNs = Field(description="99 % of them are shorter")

    @model_validator(mode="after")
    def _ordered(self) -> LognormalTime:
        if isinstance(self.median, int) and isinstance(self.p99, int) and self.p99 < self.median:
            raise wrong("p99 must not be below the median")
        return self


class ThinkTimePart(Part):
    """A pause between a VU's requests."""

    constant: TimeNs | None = None
    uniform: tuple[TimeNs, TimeNs] | None = None
    exponential: SpanNs | None = Field(default=None, description="its mean")
    lognormal: LognormalTime | None = Field(default=None, description="{median: 1s, p99: 10s}")

    @model_validator(mode="after")
    def _one_kind(self) -> ThinkTimePart:
        kinds = (self.constant, self.uniform, self.exponential, self.lognormal)
        if sum(kind is not None for kind in kinds) != 1:
            raise wrong(
                "one of constant, uniform, exponential, lognormal was expected",
                "Write 0.1s, or {exponential: 2s}.",
            )
        if (
            self.uniform
            and all(isinstance(end, int) for end in self.uniform)
            and self.uniform[1] < self.uniform[0]
        ):
            raise wrong("the high end must not be below the low one")
        return self


ThinkTime = Annotated[ThinkTimePart, OrAlone(lambda value: {"constant": value}, QUANTITY)]
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
    connection: Annotated[Literal["keep-alive", "new"], OrReference()] = Field("keep-alive", description="new: one for each request")  # fmt: skip
    request: InlineRequest = Field(description="a name under requests, or GET http://service/path")
    generators: Count = Field(1, description="how many processes share the load")
    start_when: str | None = Field(None, description="GROUP.ramped: begin when that group's ramp has ended")
    graceful_stop: TimeNs | None = Field(
        None, description="how long what is due by the end is still followed; left out: to its time-out"
    )
    record: Annotated[Literal["auto", "rows", "histogram"], OrReference()] = "auto"
    tls_resumption: Flag = True


RAMP_UP = "until all are there; excluded from measurement"
PACING = "a user's iterations begin at least so far apart"
HOLD_FOR = "how long the last target is held after the stages"


class Thinking(GroupPart):
    """What every closed group has."""

    think_time: ThinkTime = ThinkTimePart(constant=0)
    pacing: TimeNs = Field(0, description=PACING)


class ClosedGroup(Thinking):
    """Closed loop: each VU waits for its answer, then thinks."""

    executor: Annotated[Literal["constant-vus"], OrReference()]
    vus: Count = Field(description="how many virtual users")
    ramp_up: TimeNs = Field(0, description=RAMP_UP)
    start: Annotated[Literal["spread", "together"], OrReference()] = "spread"


class IterationsGroup(Thinking):
    """Closed loop of a fixed amount of work: of all VUs together (shared-iterations), or of each (per-vu-iterations)."""

    executor: Annotated[Literal["shared-iterations", "per-vu-iterations"], OrReference()]
    vus: Count = Field(1, description="how many virtual users")
    iterations: Count = Field(description="how many requests: of all users together, or of each")
    start: Annotated[Literal["spread", "together"], OrReference()] = "spread"

    @model_validator(mode="after")
    def _enough(self) -> IterationsGroup:
        counts = (self.iterations, self.vus)
        known = all(isinstance(count, int) for count in counts)
        if self.executor == "shared-iterations" and known and self.iterations < self.vus:
            raise wrong("at least one iteration a user was expected (iterations ≥ vus)")
        return self


class VusStage(Part):
    """From as many users as before to `target`, in a straight line."""

    duration: TimeNs = Field(description="how long it takes; 0s is a jump")
    target: WholeNumber = Field(description="users at its end")


class RateStage(Part):
    """From the rate before to `target`, in a straight line."""

    duration: TimeNs = Field(description="how long it takes; 0s is a jump")
    target: RateOrZeroRps = Field(description="arrivals at its end: 500/s")


def _some_load(group: Any, start: Any) -> None:
    """A group in stages must last, and bring something."""
    known = [stage for stage in group.stages if not isinstance(stage.duration, str)]
    if len(known) == len(group.stages) and not sum(stage.duration for stage in known):
        raise wrong("the stages must last longer than 0s")
    levels = [start, *(stage.target for stage in group.stages)]
    if not any(isinstance(level, str) or level > 0 for level in levels):
        raise wrong("a target above 0 was expected in at least one stage")


class RampingVusGroup(Thinking):
    """Closed loop whose number of VUs follows stages; shown over time only."""

    executor: Annotated[Literal["ramping-vus"], OrReference()]
    stages: list[VusStage] = Field(
        min_length=1, description="{duration: 30s, target: 100}, one after another"
    )
    start_vus: WholeNumber = Field(0, description="users at the begin")
    hold_for: TimeNs = Field(0, description=HOLD_FOR)

    @model_validator(mode="after")
    def _some(self) -> RampingVusGroup:
        _some_load(self, self.start_vus)
        return self


class Arriving(GroupPart):
    """What every open group has."""

    max_vus: Count | None = Field(None, description="how many may be under way; left out: rate × timeout")
    arrivals: Annotated[Literal["constant", "poisson"], OrReference()] = "constant"
    on_full: Annotated[Literal["wait", "drop"], OrReference()] = "wait"


class OpenGroup(Arriving):
    """Open loop: arrivals at a rate, whatever the server does."""

    executor: Annotated[Literal["constant-arrival-rate"], OrReference()]
    rate: RateRps = Field(description="arrivals: 500/s")
    ramp_up: TimeNs = Field(0, description=RAMP_UP)


class RampingRateGroup(Arriving):
    """Open loop whose rate follows stages; shown over time only."""

    executor: Annotated[Literal["ramping-arrival-rate"], OrReference()]
    stages: list[RateStage] = Field(
        min_length=1, description="{duration: 30s, target: 500/s}, one after another"
    )
    start_rate: RateOrZeroRps = Field(0.0, description="arrivals at the begin: 50/s")
    hold_for: TimeNs = Field(0, description=HOLD_FOR)

    @model_validator(mode="after")
    def _some(self) -> RampingRateGroup:
        _some_load(self, self.start_rate)
        return self


class AnyGroup(GroupPart):
    """A group whose executor is itself a `${…}`: checked again in each case."""

    executor: Annotated[Executor, OrReference()] = Field(description="constant-vus, constant-arrival-rate …")
    vus: Count | None = None
    iterations: Count | None = None
    stages: list[Any] | None = None
    start_vus: WholeNumber | None = None
    start_rate: RateOrZeroRps | None = None
    hold_for: TimeNs | None = None
    ramp_up: TimeNs | None = None
    think_time: ThinkTime | None = None
    pacing: TimeNs | None = None
    start: str | None = None
    rate: RateRps | None = None
    max_vus: Count | None = None
    arrivals: str | None = None
    on_full: str | None = None


_GROUPS: Mapping[str, type[GroupPart]] = {
    "constant-vus": ClosedGroup,
    "ramping-vus": RampingVusGroup,
    "shared-iterations": IterationsGroup,
    "per-vu-iterations": IterationsGroup,
    "constant-arrival-rate": OpenGroup,
    "ramping-arrival-rate": RampingRateGroup,
}


class _WrongExecutor(AnyGroup):
    executor: Executor = Field(description="constant-vus, constant-arrival-rate …")


def _group_kind(value: Any) -> type[BaseModel]:
    executor = value.get("executor") if isinstance(value, Mapping) else None
    if holds_reference(executor):
        return AnyGroup
    return _GROUPS.get(str(executor), _WrongExecutor)


AnyOneGroup = Annotated[
    ClosedGroup | OpenGroup | RampingVusGroup | RampingRateGroup | IterationsGroup | AnyGroup,
    Pick(_group_kind),
]

# how long, and what is claimed

Factors = Annotated[
    dict[
        Name,
        Annotated[
            Any,
            WithJsonSchema(
                {
                    "anyOf": [
                        {"type": "array", "minItems": 1},
                        {"type": "object", "minProperties": 1},
                    ]
                }
            ),
        ],
    ],
    Field(
        description="what varies: a list of values, or level: {field: value}; `expect` is the manipulation check"
    ),
]


class MeasurePart(Part):
    """How long and how often. A `${…}` cannot stand here."""

    duration: PlainSpanNs = Field(description="the measured time of each trial, ramps apart: 60s")
    replicates: PlainCount = Field(6, description="trials of each case; each replicate is a block")
    order: Literal["randomised-blocks", "as-listed"] = Field(
        "randomised-blocks", description="order inside a block"
    )
    replace_refused: PlainWholeNumber = Field(0, description="how often a refused trial may be replaced")


class ComparisonPart(Part):
    """A planned contrast: every other level of the factor against the baseline."""

    name: str | None = None
    factor: str = Field(description="the factor whose levels are compared")
    baseline: ScalarText = Field(description="the level that the others are compared with")
    metric: str = Field(description="[group.]metric[.stat], such as response.p95")
    per: Literal["contrast", "case"] = "contrast"
    when: dict[str, ScalarText] = {}
    fail_if: (
        Annotated[str, StringConstraints(pattern=r"^(worse|better|different) by more than \d+(\.\d+)? ?%$")]
        | None
    ) = Field(None, description="worse by more than 5 %")


class ThresholdPart(Part):
    """A criterion on every case that matches `when`."""

    when: When = {}
    that: str = Field(
        description="[group.|service.]metric[.stat] OP value unit, such as response.p95 < 200 ms"
    )


class StudyFile(Part):
    """A study: what varies, what load, what is watched."""

    name: FileName = Field(description="the study's name, also of its runs' folders")
    question: str = Field("", description="what it shall answer, in a sentence")
    seed: PlainWholeNumber = Field(1, description="of everything random; --seed overrides it")
    lab: Annotated[dict[Name, Service], Field(description="the services: name: {kit, options}")] = {}
    data: Annotated[dict[Name, Objects], Field(description="what the stores are filled with")] = {}
    factors: Factors = {}
    exclude: list[ExclusionPart] = Field([], description="combinations that are not run, and why")
    case_names: str | None = Field(
        None, description="a CSV beside the study: case, one column a factor, valid"
    )
    feeders: Annotated[dict[Name, FeederPart], Field(description="rows for requests")] = {}
    before_trial: list[StepPart] = Field([], description="steps before each trial: reset services, warm rows")
    requests: Annotated[dict[Name, RequestPart], Field(description="named requests")] = {}
    traffic: Annotated[
        dict[Name, AnyOneGroup],
        Field(description="the groups of load", min_length=1),
    ]
    measure: MeasurePart = Field(description="how long and how often: {duration: 60s, replicates: 6}")
    compare: list[ComparisonPart] = Field(
        [], description="planned contrasts: a factor's levels against a baseline"
    )
    thresholds: list[
        Annotated[
            ThresholdPart,
            OrAlone(lambda value: {"that": value} if isinstance(value, str) else value, {"type": "string"}),
        ]
    ] = Field([], description="criteria: response.p95 < 200 ms, or {when: {factor: level}, that: criterion}")
    profiles: dict[Name, dict[str, Any]] = Field({}, description="merged over the study by --profile NAME")

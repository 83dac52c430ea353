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


class Objects(Part):
    """A set of objects that a store is filled with."""

    service: str = Field(alias="in", description="the service that stores them")
    accounts: Count = Field(1, description="how many accounts they are spread over")
    containers: Count = Field(1, description="how many containers, over all accounts")
    count: Count = Field(description="how many objects")
    size: Annotated[
        LognormalSize | UniformSize | ConstantSize,
        Pick(_size_kind),
        OrAlone(lambda value: {"constant": value}, QUANTITY),
    ] = Field(description="40 KiB, {lognormal: {median: …, p99: …}} or {uniform: […, …]}")


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

METHODS = ("get", "head", "delete", "options")
StatusRange = Annotated[
    str,
    BeforeValidator(
        lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    ),
    StringConstraints(pattern=r"^([1-5]\d\d)(-[1-5]\d\d)?$"),
    WithJsonSchema({"type": ["string", "integer"], "examples": [200, "200-299"]}),
]


class RequestPart(Part):
    """One request. The URL's host is a service's name; its port and certificate authority follow from service and scheme."""

    get: str | None = Field(None, description="the URL of a GET")
    head: str | None = Field(None, description="the URL of a HEAD")
    delete: str | None = Field(None, description="the URL of a DELETE")
    options: str | None = Field(None, description="the URL of an OPTIONS")
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


class ThinkTimePart(Part):
    """A pause between a VU's requests."""

    constant: TimeNs | None = None
    uniform: tuple[TimeNs, TimeNs] | None = None
    exponential: SpanNs | None = Field(default=None, description="its mean")

    @model_validator(mode="after")
    def _one_kind(self) -> ThinkTimePart:
        if sum(kind is not None for kind in (self.constant, self.uniform, self.exponential)) != 1:
            raise wrong(
                "one of constant, uniform, exponential was expected", "Write 0.1s, or {exponential: 2s}."
            )
        if (
            self.uniform
            and all(isinstance(end, int) for end in self.uniform)
            and self.uniform[1] < self.uniform[0]
        ):
            raise wrong("the high end must not be below the low one")
        return self


ThinkTime = Annotated[ThinkTimePart, OrAlone(lambda value: {"constant": value}, QUANTITY)]
Executor = Literal["constant-vus", "constant-arrival-rate"]


class GroupPart(Part):
    """What every traffic group has."""

    when: When = {}
    client: Annotated[Literal["engine", "curl"], OrReference()] = Field("engine", description="curl: asks as curl does, every request a row")  # fmt: skip
    connection: Annotated[Literal["keep-alive", "new"], OrReference()] = Field("keep-alive", description="new: one for each request")  # fmt: skip
    request: InlineRequest = Field(description="a name under requests, or GET http://service/path")
    generators: Count = Field(1, description="how many processes share the load")
    ramp_up: TimeNs = Field(0, description="until all are there; excluded from measurement")
    start_when: str | None = Field(None, description="GROUP.ramped: begin when that group's ramp has ended")
    record: Annotated[Literal["auto", "rows", "histogram"], OrReference()] = "auto"
    tls_resumption: Flag = True


class ClosedGroup(GroupPart):
    """Closed loop: each VU waits for its answer, then thinks."""

    executor: Annotated[Literal["constant-vus"], OrReference()]
    vus: Count = Field(description="how many virtual users")
    think_time: ThinkTime = ThinkTimePart(constant=0)
    start: Annotated[Literal["spread", "together"], OrReference()] = "spread"


class OpenGroup(GroupPart):
    """Open loop: arrivals at a rate, whatever the server does."""

    executor: Annotated[Literal["constant-arrival-rate"], OrReference()]
    rate: RateRps = Field(description="arrivals: 500/s")
    max_vus: Count | None = Field(None, description="how many may be under way; left out: rate × timeout")
    arrivals: Annotated[Literal["constant", "poisson"], OrReference()] = "constant"
    on_full: Annotated[Literal["wait", "drop"], OrReference()] = "wait"


class AnyGroup(GroupPart):
    """A group whose executor is itself a `${…}`: checked again in each case."""

    executor: Annotated[Executor, OrReference()] = Field(description="constant-vus or constant-arrival-rate")
    vus: Count | None = None
    think_time: ThinkTime | None = None
    start: str | None = None
    rate: RateRps | None = None
    max_vus: Count | None = None
    arrivals: str | None = None
    on_full: str | None = None


_GROUPS: Mapping[str, type[GroupPart]] = {"constant-vus": ClosedGroup, "constant-arrival-rate": OpenGroup}


class _WrongExecutor(AnyGroup):
    executor: Executor = Field(description="constant-vus or constant-arrival-rate")


def _group_kind(value: Any) -> type[BaseModel]:
    executor = value.get("executor") if isinstance(value, Mapping) else None
    if holds_reference(executor):
        return AnyGroup
    return _GROUPS.get(str(executor), _WrongExecutor)


AnyOneGroup = Annotated[ClosedGroup | OpenGroup | AnyGroup, Pick(_group_kind)]

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

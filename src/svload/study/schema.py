"""The study file as pydantic models: what may be written where. The same models check a case once its `${…}` are resolved."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from svload.study.bounds import CONTAINERS, DATA_BYTES, OBJECTS, ROWS, SERVICES
from svload.study.distributions import ConstantSize, LognormalSize, SizeOrLaw, UniformSize
from svload.study.mistakes import wrong
from svload.study.schema_traffic import AnyOneGroup, AnySetUp, RequestPart, Steps
from svload.study.values import (
    AnyWholeNumber,
    AtMost,
    Count,
    FileName,
    Name,
    NoLonger,
    OrAlone,
    OrReference,
    Part,
    PlainCount,
    PlainSpanNs,
    PlainWholeNumber,
    ScalarText,
    Texts,
    When,
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


class Objects(Part):
    """A set of objects that a store is filled with."""

    service: str = Field(alias="in", description="the service that stores them")
    accounts: Annotated[Count, AtMost(CONTAINERS)] = Field(
        1, description="how many accounts they are spread over"
    )
    containers: Annotated[Count, AtMost(CONTAINERS)] = Field(
        1, description="how many containers, over all accounts"
    )
    count: Annotated[Count, AtMost(OBJECTS)] = Field(description="how many objects")
    size: SizeOrLaw = Field(description="40 KiB, {lognormal: {median: …, p99: …}} or {uniform: […, …]}")

    @model_validator(mode="after")
    def _not_too_much(self) -> Objects:
        match self.size:
            case ConstantSize(constant=typical) | UniformSize(uniform=(typical, _)):
                pass
            case LognormalSize(lognormal=law):
                typical = law.median
        if (
            isinstance(typical, int)
            and isinstance(self.count, int)
            and typical * self.count > DATA_BYTES.most
        ):
            raise wrong(DATA_BYTES.told, "Write fewer objects, or smaller ones.")
        return self


class FeederPart(Part):
    """Rows for iterations: of a set of objects (columns path, size_bytes, digest), a file, a list or a range (column value)."""

    source: str | None = Field(None, alias="from", description="the name of a set under data")
    csv: str | None = Field(
        None, description="a CSV file in the study's folder; its first line names the columns"
    )
    parquet: str | None = Field(None, description="a Parquet file in the study's folder")
    values: list[ScalarText] | None = Field(None, min_length=1, description="the rows of the column value")
    numbers: tuple[AnyWholeNumber, AnyWholeNumber] | None = Field(
        None, alias="range", description="[first, last]: whole numbers as rows of the column value"
    )
    take: Annotated[Literal["first", "walk", "sequential", "unique", "random"], OrReference()] = Field(
        "walk",
        description="which rows: always the first; the whole table from each VU's own offset; dealt to VUs like cards; "
        "a part that is the VU's own; any",
    )
    offset: Count | None = Field(None, description="rows between the begins of two VUs' walks")
    when_exhausted: Annotated[Literal["repeat", "stop"], OrReference()] = Field(
        "repeat", description="after the last row: begin again, or make no more iterations"
    )

    @model_validator(mode="after")
    def _one_source(self) -> FeederPart:
        sources = (self.source, self.csv, self.parquet, self.values, self.numbers)
        if sum(source is not None for source in sources) != 1:
            raise wrong("one of from, csv, parquet, values, range was expected")
        if self.offset is not None and self.take not in ("walk", None) and not holds_reference(self.take):
            raise wrong("offset belongs to take: walk")
        if self.when_exhausted == "stop" and self.take in ("first", "random"):
            raise wrong(f"take: {self.take} has no last row", "Leave when_exhausted out.")
        if self.numbers is not None:
            low, high = self.numbers
            if isinstance(low, int) and isinstance(high, int) and not 0 <= high - low < ROWS.most:
                raise wrong(f"a range of 1 to {ROWS.most:,} numbers was expected ({ROWS.because})")
        return self


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
    bring_ups: PlainCount = Field(
        1,
        description="how often the lab comes up anew, blocks spread over them; from 6 on a claim speaks of any bring-up",
    )
    awake: bool = Field(
        False,
        strict=True,
        description="true: CPUs are kept from sleeping between requests, where root allows; else as the machine is set",
    )


class ComparisonPart(Part):
    """A planned contrast: every other level of the factor against the baseline."""

    name: str | None = Field(None, description="what reports call it; left out: treatment against baseline")
    factor: str = Field(description="the factor whose levels are compared")
    baseline: ScalarText = Field(description="the level that the others are compared with")
    metric: str = Field(description="[group.]metric[.stat], such as response.p95")
    per: Literal["contrast", "case"] = Field(
        "contrast",
        description="contrast: matched cases pooled into one claim; case: a claim for each of them",
    )
    when: dict[str, ScalarText] = Field(
        {}, description="factor: level; only cases of that level are compared"
    )
    by: str | None = Field(
        None,
        description="another factor: is the effect at each of its levels the same as at its first? (an interaction)",
    )
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


VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""An environment variable."""


class StudyFile(Part):
    """A study: what varies, what load, what is watched."""

    name: FileName = Field(description="the study's name, also of its runs' folders")
    question: str = Field("", description="what it shall answer, in a sentence")
    seed: PlainWholeNumber = Field(1, description="of everything random; --seed overrides it")
    lab: Annotated[
        dict[Name, Service], NoLonger(SERVICES), Field(description="the services: name: {kit, options}")
    ] = {}
    data: Annotated[dict[Name, Objects], Field(description="what the stores are filled with")] = {}
    factors: Factors = {}
    exclude: list[ExclusionPart] = Field([], description="combinations that are not run, and why")
    case_names: str | None = Field(
        None, description="a CSV beside the study: case, one column a factor, valid"
    )
    feeders: Annotated[dict[Name, FeederPart], Field(description="rows for requests")] = {}
    secrets: Annotated[
        dict[Name, VariableName],
        Field(description="name: the environment variable that holds it, for ${secret.NAME}"),
    ] = {}
    before_trial: list[StepPart] = Field([], description="steps before each trial: reset services, warm rows")
    requests: Annotated[dict[Name, RequestPart], Field(description="named requests")] = {}
    scenarios: Annotated[dict[Name, Steps], Field(description="named scenarios: steps in order")] = {}
    setup: list[AnySetUp] = Field(
        [], description="requests before the load, in order; their variables are for all groups"
    )
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

"""The study file as pydantic models: its keys and values. The same models check a case once its `${…}` are
resolved."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema

from svload.model.bounds import CONTAINERS, DATA_BYTES, OBJECTS, ROWS, SERVICES
from svload.study.distributions import ConstantSize, LognormalSize, SizeOrLaw, UniformSize
from svload.study.k6 import METRICS
from svload.study.k6_thresholds import ABORTS
from svload.study.mistakes import closest, wrong
from svload.study.schema_faults import FaultPart
from svload.study.schema_requests import NamedRequest
from svload.study.schema_scenarios import AnySetUp, Steps
from svload.study.schema_traffic import AnyOneGroup
from svload.study.values import (
    AnyWholeNumber,
    AtMost,
    Count,
    FileName,
    Flag,
    Formed,
    Label,
    Name,
    OrAlone,
    OrReference,
    Part,
    PlainCount,
    PlainWholeNumber,
    ScalarText,
    SentText,
    SpanNs,
    Texts,
    UnderNames,
    When,
    WholeNumber,
    WithoutReference,
    holds_reference,
)

# the lab


class Service(Part):
    """A service: a kit and its options; or `run`, your own command; or `at`, a server already running."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kit: str | None = Field(None, description="which kind of server: swift, varnish, nginx, truth …")
    run: str | None = Field(
        None,
        description="a command; ${port} is the port to listen on, ${db.port} that of the service db, "
        "${build} what was built",
    )
    ready: str | None = Field(
        None,
        description="what a started command must answer: GET /health, GET admin/health at its port admin, tcp",
    )
    at: str | None = Field(None, description="the URL of something that runs already")

    @model_validator(mode="after")
    def _one_kind(self) -> Service:
        kinds = [word for word in ("kit", "run", "at") if getattr(self, word) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of them"
            raise wrong(f"expected one of kit, run, at, but it has {found}")
        return self

    @property
    def kind(self) -> str:
        """Return the kit's name, short forms included."""
        return self.kit or ("command" if self.run is not None else "external")

    def options(self) -> dict[str, Any]:
        """Return everything in it except the kit's name."""
        written = self.model_dump(exclude_unset=True)
        written.pop("kit", None)
        return written


class Objects(Part):
    """A set of objects with which a store is filled."""

    service: str = Field(alias="in", description="the service that stores them")
    accounts: Annotated[Count, AtMost(CONTAINERS)] = Field(
        1, description="how many accounts they are spread over"
    )
    containers: Annotated[Count, AtMost(CONTAINERS)] = Field(
        1, description="how many containers, over all accounts"
    )
    count: Annotated[Count, AtMost(OBJECTS)] = Field(description="how many objects")
    size: SizeOrLaw = Field(description="40 KiB, {lognormal: {median: …, p99: …}} or {uniform: […, …]}")
    content: Annotated[Literal["random", "jpeg"], OrReference()] = Field(
        "random", description="random bytes, or jpeg: complete images of these sizes, at least 1 KiB each"
    )

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
            raise wrong(DATA_BYTES.text, "Write fewer objects, or smaller ones.")
        return self


class HotPart(Part):
    """The first rows of a feeder, as a share of all, and the share of the requests that they get."""

    rows: Annotated[float, Field(gt=0, lt=1), OrReference()] = Field(0.1, description="share of the rows")
    requests: Annotated[float, Field(gt=0, lt=1), OrReference()] = Field(
        0.9, description="share of the requests that ask for these"
    )


class FeederPart(Part):
    """Rows for iterations: from a set of objects (columns path, size_bytes, digest), a file, a list or a
    range (column value)."""

    source: str | None = Field(None, alias="from", description="the name of a set under data")
    csv: str | None = Field(
        None, description="a CSV file in the study's folder; its first line names the columns"
    )
    parquet: str | None = Field(None, description="a Parquet file in the study's folder")
    values: list[SentText] | None = Field(None, min_length=1, description="the rows of the column value")
    numbers: tuple[AnyWholeNumber, AnyWholeNumber] | None = Field(
        None, alias="range", description="[first, last]: whole numbers as rows of the column value"
    )
    written: Annotated[Literal["md5", "sha256"] | None, OrReference()] = Field(
        None,
        description="rows are the objects that requests with `adds` have written, with this digest; from "
        "names those that exist at the start",
    )
    take: Annotated[
        Literal["first", "walk", "sequential", "unique", "vu", "random", "zipf", "hot"], OrReference()
    ] = Field(
        "walk",
        description="first: always row 0; walk: the whole table, from each VU's own offset; sequential: "
        "dealt to the VUs like cards; unique: each VU's own part of the table; vu: one fixed row per VU; "
        "random; zipf: random, earlier rows more often (Zipf's law); hot: random, mostly from a few hot rows",
    )
    skew: Annotated[float, Field(gt=0, le=10), OrReference()] | None = Field(
        None, description="of zipf: its exponent; 1 if left out"
    )
    hot: HotPart | None = Field(None, description="of hot: {rows: 0.1, requests: 0.9} if left out")
    offset: WholeNumber | None = Field(
        None, description="rows between the starting points of two VUs; 0: all start at the first row"
    )
    when_exhausted: Annotated[Literal["repeat", "stop"], OrReference()] = Field(
        "repeat", description="after the last row: start again, or start no more iterations"
    )

    @model_validator(mode="after")
    def _one_source(self) -> FeederPart:
        sources = (self.source, self.csv, self.parquet, self.values, self.numbers)
        given = sum(source is not None for source in sources)
        if self.written is not None and (
            given > (self.source is not None) or self.take not in ("walk", "random")
        ):
            raise wrong("written objects are taken at random, and may start with those of a set (from) only")
        if given != 1 and self.written is None:
            raise wrong("expected one of from, csv, parquet, values, range, written")
        for option, take in ((self.skew, "zipf"), (self.hot, "hot")):
            if option is not None and self.take != take and not holds_reference(self.take):
                raise wrong(f"{'skew' if take == 'zipf' else 'hot'} belongs to take: {take}")
        if self.offset is not None and self.take not in ("walk", None) and not holds_reference(self.take):
            raise wrong("offset belongs to take: walk")
        if self.when_exhausted == "stop" and self.take in ("first", "vu", "random", "zipf", "hot"):
            raise wrong(f"take: {self.take} has no last row", "Leave when_exhausted out.")
        if self.numbers is not None:
            low, high = self.numbers
            if isinstance(low, int) and isinstance(high, int) and not 0 <= high - low < ROWS.most:
                raise wrong(f"expected a range of 1 to {ROWS.most:,} numbers ({ROWS.because})")
        return self


class StepPart(Part):
    """A step before each trial: one of reset, restart, drop_cache, warm, populate. Steps are carried out in order."""

    when: When = {}
    reset: Texts | None = Field(None, description="services that are returned to their initial state")
    restart: Texts | None = Field(None, description="services that are restarted, with those that need them")
    drop_cache: Texts | None = Field(
        None, description="services whose files are dropped from the page cache; each trial checks this"
    )
    warm: str | None = Field(None, description="the feeder whose rows are each requested once")
    through: str | None = Field(None, description="the service to which these requests are sent")
    populate: (
        Annotated[str, WithoutReference("a group must be load in all cases, or a population in all cases")]
        | None
    ) = Field(
        None,
        description="a group under traffic that runs to completion now; its requests are in none of the "
        "trial's numbers",
    )
    lasts: SpanNs | None = Field(
        None, description="how long a population lasts; for a fixed amount of work its time limit (10 min)"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> StepPart:
        if sum(getattr(self, kind) is not None for kind in STEPS) != 1:
            raise wrong(f"expected one of {', '.join(STEPS)}")
        if (self.warm is None) != (self.through is None):
            raise wrong("warm and through go together")
        if self.lasts is not None and self.populate is None:
            raise wrong("lasts belongs to populate")
        return self


STEPS = ("reset", "restart", "drop_cache", "warm", "populate")


SysctlName = Annotated[str, Formed(r"[a-z0-9]+(\.[A-Za-z0-9_-]+)+", "a setting such as net.core.somaxconn")]
"""A setting of the kernel, such as net.core.somaxconn."""


class OrFile:
    """Besides the mapping, the name of a file that contains it: only for editors, since files are read before
    a study is checked."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "string"}]}


class SetPart(Part):
    """A parameter set: options of services and settings of the kernel, applied to the study if `tuning` names
    the set."""

    lab: dict[Name, dict[str, Any]] = Field({}, description="service: its options, tuning among them")
    sysctl: dict[SysctlName, ScalarText] = Field({}, description="settings of the kernel")


# what varies


class ExclusionPart(Part):
    """Combinations that are not run, with the reason that every report shows."""

    when: When = Field(min_length=1, description="factor: level of the combinations that are left out")
    because: str = Field(description="why they cannot or need not be run")

    @classmethod
    def hint(cls, key: str, written: Any) -> str:
        """Return where a factor's level belongs."""
        return "" if closest(key, cls.model_fields) else f"Write when: {{{key}: LEVEL}} for a factor's level."

    @classmethod
    def other_kind(cls, stranger: str, missing: str) -> bool:
        """Return whether an unknown key is a factor that `when` should contain."""
        return missing == "when" and closest(stranger, cls.model_fields) is None


# how long, and what is claimed

Factors = Annotated[
    dict[
        Name,
        Annotated[
            Any,
            WithJsonSchema(
                {"anyOf": [{"type": "array", "minItems": 1}, {"type": "object", "minProperties": 1}]}
            ),
        ],
    ],
    Field(
        description="what varies: a list of values, or level: {field: value}; `expect` is the manipulation "
        "check; {open: [1, 4000]} leaves the values to a search"
    ),
]


_WIDTH = r"^(?:±|\+-|\+/-)? ?(\d{1,3}(?:\.\d+)?) ?%$"


def _width(text: object) -> float:
    found = re.match(_WIDTH, text) if isinstance(text, str) else None
    if found is None or not 0 < float(found[1]) <= 100:
        raise wrong("expected half the width of an interval in percent", "Write ± 5 %.", "± 5 %")
    return float(found[1]) / 100


Width = Annotated[float, BeforeValidator(_width), WithJsonSchema({"type": "string", "pattern": _WIDTH})]


class MeasurePart(Part):
    """How long and how often to measure. The value may be a level's field: `${users.time}`."""

    duration: SpanNs = Field(description="the measured time of each trial, without ramps: 60s")
    replicates: Count = Field(
        6,
        description="trials of each case; each replicate is a block, and a case with fewer runs in the "
        "first blocks",
    )
    order: (
        Annotated[
            Literal["turns", "trials", "as-listed", "randomised-blocks"],
            WithoutReference("the order within a block is the same setting for all its cases"),
        ]
        | None
    ) = Field(
        None,
        description="order within a block; turns: the sides of the comparison are up at the same time and "
        "loaded in turns; trials (or randomised-blocks): one after the other, in random order; default: "
        "turns for a gate whose sides fit side by side, otherwise trials",
    )
    until: (
        Annotated[Width, WithoutReference("it applies to comparisons, which need several cases")] | None
    ) = Field(
        None,
        description="± 5 %: add blocks until each comparison's interval is no wider, whatever the effect",
    )
    at_most: Annotated[PlainCount, WithoutReference("a block holds all its cases")] | None = Field(
        None,
        description="with until or a gate: the maximum number of blocks; default: four times `replicates`",
    )
    bring_ups: Annotated[PlainCount, WithoutReference("a bring-up holds blocks with all their cases")] = (
        Field(
            1,
            description="how often the lab is brought up, with the blocks spread over these bring-ups; with "
            "6 or more a claim holds for any bring-up",
        )
    )
    control: Annotated[
        bool, Field(strict=True), WithoutReference("a control takes part in all sets of turns")
    ] = Field(
        False,
        description="with order: turns: add a second server of the baseline as one more side, to show the "
        "effect of the setup itself",
    )
    awake: Flag = Field(
        False,
        description="true: keep CPUs from sleeping between requests, where root allows; default: as the "
        "machine is set",
    )

    @classmethod
    def hint(cls, key: str, written: Any) -> str:
        """Return what takes the place of a warm-up's duration."""
        if key.lower().replace("_", "").replace("-", "") not in ("warmup", "warmuptime"):
            return ""
        return (
            "Leave it out: svload finds the warm-up and cuts it off. "
            "A group's ramp_up comes before the measured time."
        )


_GATE = (
    r"^(worse|better|different) by more than \d+(\.\d+)? ?%"
    r"(,? (or )?success by more than \d+(\.\d+)? points?)?$"
)


def _gate(text: str) -> str:
    if re.match(_GATE, text):
        return text
    word = re.search("worse|better|different", text)
    percent = re.search(r"(?<![\d.])\d{1,6}(\.\d{1,6})?(?![\d.])", text)
    form = f"{word[0] if word else 'worse'} by more than {percent[0] if percent else 5} %"
    reason = "expected worse, better or different by more than a number of percent"
    raise wrong(reason, f"Write {form}.", form if word and percent else None)


Gate = Annotated[str, AfterValidator(_gate), WithJsonSchema({"type": "string", "pattern": _GATE})]


class ComparisonPart(Part):
    """A planned contrast: every other level of the factor against the baseline."""

    name: str | None = Field(None, description="its name in reports; default: treatment against baseline")
    factor: str = Field(description="the factor whose levels are compared")
    baseline: ScalarText = Field(description="the level that the others are compared with")
    metric: str = Field(description="[group.]metric[.stat], such as response.p95")
    per: Literal["contrast", "case"] = Field(
        "contrast",
        description="contrast: matched cases are pooled into one claim; case: one claim for each of them",
    )
    when: dict[str, ScalarText] = Field(
        {}, description="factor: level; only cases of that level are compared"
    )
    by: str | None = Field(
        None,
        description="another factor: is the effect at each of its levels the same as at its first? (an interaction)",
    )
    fail_if: Gate | None = Field(
        None,
        description="worse by more than 5 %; to let success fall by more than 0.1 points: worse by more "
        "than 5 %, success by more than 1 point",
    )


class ThresholdPart(Part):
    """A criterion on every case that matches `when`."""

    when: When = {}
    that: str = Field(
        description="[group.|service.]metric[.stat] OP value unit, such as response.p95 < 200 ms"
    )

    @classmethod
    def hint(cls, key: str, written: Any) -> str:
        """Return the equivalent of k6's `abortOnFail`, or the form of a criterion."""
        if key == ABORTS:
            return (
                "A threshold is judged after its trial; to end a run during the load, use abort_if "
                "(response.p95 > 2 s, api.rss > 2 GiB)."
            )
        known = key in cls.model_fields or closest(key, cls.model_fields)
        return "" if known else "Write a criterion as one text, such as response.p95 < 200 ms."

    @classmethod
    def other_kind(cls, stranger: str, missing: str) -> bool:
        """Return whether an unknown key stands for a criterion."""
        return stranger != ABORTS and closest(stranger, cls.model_fields) is None


class OrByMetric:
    """Besides the annotated shapes that of k6, `http_req_duration: [p(95)<200]`: only for editors, since
    `k6_thresholds` has converted it before a study is checked."""

    FORM: ClassVar[dict[str, Any]] = {
        "type": "object",
        "minProperties": 1,
        "properties": {"when": {"type": "object", "description": "factor: level of the cases it is for"}},
        "patternProperties": {f"^({'|'.join(METRICS)})": {"type": ["string", "array"]}},
        "additionalProperties": False,
    }

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        shown = handler(schema)
        return {"anyOf": [*shown.get("anyOf", [shown]), self.FORM]}


VariableName = Annotated[str, Formed("[A-Za-z_][A-Za-z0-9_]*", "the name of a variable, such as API_TOKEN")]
"""An environment variable."""


class StudyFile(Part):
    """A study: its factors, its load, and what is watched."""

    name: FileName = Field(description="the study's name, also of its runs' folders")
    question: str = Field("", description="the question that it answers, in a sentence")
    seed: PlainWholeNumber = Field(1, description="seed of everything random; --seed overrides it")
    lab: Annotated[
        dict[Name, Service],
        AtMost(SERVICES),
        UnderNames("kit"),
        UnderNames("at"),
        Field(
            description="the services by name: {web: {kit: nginx}}, or {web: {at: http://127.0.0.1:8080}} for "
            "one that runs already"
        ),
    ] = {}
    sysctl: Annotated[
        dict[SysctlName, ScalarText],
        Field(
            description="settings of the kernel, for the lab's own network; those of the whole machine only "
            "with --host-settings"
        ),
    ] = {}
    sets: Annotated[
        dict[Name, Annotated[SetPart, OrFile()]],
        Field(
            description="parameter sets by name: {lab, sysctl}, or a file next to the study that contains one"
        ),
    ] = {}
    tuning: str | None = Field(None, description="the set that is merged over the study, such as ${tuning}")
    data: Annotated[
        dict[Name, Objects],
        UnderNames("in"),
        Field(
            description="what the stores are filled with, by name: {things: {in: store, count: 100, "
            "size: 4 KiB}}"
        ),
    ] = {}
    factors: Factors = {}
    exclude: list[ExclusionPart] = Field(
        [], description="combinations that are not run, and why: {when: {factor: level}, because: text}"
    )
    case_names: str | None = Field(
        None, description="a CSV file next to the study: case, one column per factor, valid"
    )
    feeders: Annotated[
        dict[Name, FeederPart], Field(description="rows for requests, by name: {users: {csv: users.csv}}")
    ] = {}
    secrets: Annotated[
        dict[Name, VariableName],
        Field(description="name: the environment variable that holds it, for ${secret.NAME}"),
    ] = {}
    before_trial: list[StepPart] = Field(
        [], description="steps before each trial, of reset, restart, drop_cache, warm, populate: {reset: web}"
    )
    requests: Annotated[
        dict[Label, NamedRequest],
        Field(description="named requests: {front: GET http://web/}, or the request as a mapping"),
    ] = {}
    scenarios: Annotated[
        dict[Name, Steps],
        Field(
            description="named scenarios, steps in order: {buy: [GET http://web/, {request: GET "
            "http://web/cart, think_time: 2s}]}"
        ),
    ] = {}
    setup: list[AnySetUp] = Field(
        [],
        description="requests before the load, in order, whose variables are for all groups: "
        "[POST http://web/login]",
    )
    traffic: Annotated[
        dict[Label, AnyOneGroup],
        UnderNames("executor"),
        Field(
            description="the groups of load by name: {users: {executor: constant-vus, vus: 8, request: GET "
            "http://web/}}",
            min_length=1,
        ),
    ]
    faults: list[FaultPart] = Field(
        [], description="what is done to the servers during each trial, and when: {at: 10s, stop: web[2]}"
    )
    measure: MeasurePart = Field(description="how long and how often: {duration: 60s, replicates: 6}")
    compare: list[ComparisonPart] = Field(
        [],
        description="planned contrasts, a factor's levels against a baseline: {factor: build, baseline: old, "
        "metric: response.p95}",
    )
    thresholds: Annotated[
        list[
            Annotated[
                ThresholdPart,
                OrAlone(
                    lambda value: {"that": value} if isinstance(value, str) else value, {"type": "string"}
                ),
                OrByMetric(),
            ]
        ],
        OrByMetric(),
    ] = Field(
        [],
        description="criteria: response.p95 < 200 ms (at 50 users: of that level of a load in stages), or "
        "{when: {factor: level}, that: criterion}; k6's syntax works too",
    )
    abort_if: list[str] = Field(
        [],
        description="criteria checked during the load, over monitored metrics and what clients see; if one "
        "holds, the run ends: error_rate > 10 %, response.p95 > 2 s, throughput < 450/s, app.rss > 2 GiB",
    )
    profile: str | None = Field(
        None,
        description="the service whose call stacks are sampled during the load; the report draws them as a "
        "flame graph. Variants of a study are under profiles",
    )
    profiles: dict[Name, dict[str, Any]] = Field(
        {},
        description="parts of a study by name, merged over it by --profile NAME: {quick: {measure: "
        "{duration: 1s}}}",
    )

    @classmethod
    def hint(cls, key: str, written: Any) -> str:
        """Return the section of a key that belongs into one."""
        return f"Write it under measure: {{{key}: …}}." if key in MeasurePart.model_fields else ""

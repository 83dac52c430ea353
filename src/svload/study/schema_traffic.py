"""Traffic groups of the study file as pydantic models: the keys of each executor."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from svload.model import bounds
from svload.model.other_words import OTHER_WORDS
from svload.study.described import with_options
from svload.study.distributions import ThinkTime, ThinkTimePart
from svload.study.mistakes import Gap, closest, shortened, wrong
from svload.study.schema_requests import RequestForm, RequestPart
from svload.study.schema_scenarios import OrName, ScenarioStepPart
from svload.study.values import (
    AtMost,
    Count,
    Label,
    OneOrMany,
    OrReference,
    Part,
    Pick,
    RateOrZeroRps,
    RateRps,
    TimeNs,
    When,
    WholeNumber,
    holds_reference,
)

Users = Annotated[Count, AtMost(bounds.VUS)]
UsersOrNone = Annotated[WholeNumber, AtMost(bounds.VUS)]


def _ip_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise wrong("expected an IP address", "Write 127.0.0.2.") from None


def _http2(value: object) -> object:
    """Return the value; raise one error, where a union reports one for each of its types."""
    if isinstance(value, bool) or value == "preferred":
        return value
    raise wrong("expected true, false or preferred")


IpAddress = Annotated[str, AfterValidator(_ip_address)]

Executor = Literal[
    "constant-vus",
    "ramping-vus",
    "shared-iterations",
    "per-vu-iterations",
    "constant-arrival-rate",
    "ramping-arrival-rate",
]


@with_options
class GroupPart(Part):
    """The common part of all traffic groups."""

    if TYPE_CHECKING:  # fields that `with_options` adds and that are used by name
        client: str
        generators: int

    when: When = {}
    request: Annotated[str | RequestPart | None, RequestForm()] = Field(
        None, description="a name under requests, or GET http://service/path"
    )
    scenario: Annotated[str | list[ScenarioStepPart] | None, OrName()] = Field(
        None, description="in place of request: a name under scenarios, or steps in order"
    )
    mix: dict[Label, Count] | None = Field(
        None, min_length=1, description="in place of request: scenarios or requests, each with its weight"
    )
    start_when: str | None = Field(None, description="GROUP.ramped: begin when that group's ramp has ended")
    source_addresses: Annotated[list[IpAddress], OneOrMany()] = Field(
        [], description="addresses of this machine to connect from, in turn"
    )
    http2: Annotated[bool | Literal["preferred"], BeforeValidator(_http2), OrReference()] = Field(
        False, description="true, or preferred: over TLS a server may choose HTTP/1.1"
    )

    @classmethod
    def hint(cls, key: str, written: Any) -> str:
        """Return the executor for a key that this executor does not know, or that is missing."""
        word = OTHER_WORDS.get(key.lower(), key)
        if key == "executor":
            return _executor_of(written)
        if word == "request" and (url := str(written.get(key))).startswith(("http://", "https://")):
            return f"Write request: GET {shortened(url)}."
        if word in cls.model_fields or word in _OF_K6:
            return _OF_K6.get(word, "")
        if word == "stages":
            return STAGES_HINT
        others = _executors_with(word)
        return f"“{word}” goes with executor: {' or '.join(others)}." if others else ""

    @classmethod
    def other_kind(cls, stranger: str, missing: str) -> bool:
        """Return whether constant-vus has stages: another executor is meant, no number is missing."""
        word = OTHER_WORDS.get(stranger.lower(), stranger)
        return missing != "executor" and word not in cls.model_fields and bool(_executors_with(word))

    @classmethod
    def gap(cls, written: Mapping[str, Any]) -> Gap | None:
        """Report a group without exactly one of request, scenario and mix, unless one was misspelt."""
        given = [key for key in ("request", "scenario", "mix") if written.get(key) is not None]
        if len(given) == 1 or any(
            closest(key, ("request", "scenario", "mix")) for key in written if key not in cls.model_fields
        ):
            return None
        reason = "expected one of request, scenario, mix"
        return Gap(given[-1] if given else "request", reason, "Write request: GET http://service/path.")

    @model_validator(mode="after")
    def _one_iteration(self) -> Self:
        if self.client == "curl" and self.request is None:
            raise wrong(
                "client: curl sends a single request", "Leave client out, or write request in place of it."
            )
        return self


VUS = "how many virtual users"
START_VUS = "users at the start"
ITERATIONS = "how many iterations: of all users together, or of each"
RATE = "arrivals: 500/s"
START_RATE = "arrivals at the start: 50/s"
EXECUTOR = "constant-vus, constant-arrival-rate …"
THINK_TIME = (
    "pause between a user's requests: 0.1s, {uniform: [1s, 3s]}, {exponential: 2s} or {lognormal: "
    "{median: 1s, p99: 10s}}"
)
START = "spread: users without a ramp begin over their first cycle; together: all at once"
ARRIVALS = "constant: evenly apart; poisson: at random, as independent users arrive"
ON_FULL = (
    "what an arrival does when all max_vus are busy: wait, which counts as part of its response time, or be "
    "dropped and counted"
)
RAMP_UP = "until all are there; excluded from measurement"
RATE_RAMP_UP = "first part of the load, at the whole rate; excluded from measurement"
PACING = "shortest time between the starts of a user's iterations"
MAX_VUS = (
    "maximum number of requests in progress; default: rate × timeout, limited by descriptors and local "
    "ports (svload plan shows it)"
)
HOLD_FOR = "how long the last target is held after the stages"


class Thinking(GroupPart):
    """The common part of all closed groups."""

    think_time: ThinkTime = Field(ThinkTimePart(constant=0), description=THINK_TIME)
    pacing: TimeNs = Field(0, description=PACING)


class ClosedGroup(Thinking):
    """Closed loop: each VU waits for its answer, then thinks."""

    executor: Annotated[Literal["constant-vus"], OrReference()] = Field(description=EXECUTOR)
    vus: Users = Field(description=VUS)
    ramp_up: TimeNs = Field(0, description=RAMP_UP)
    start: Annotated[Literal["spread", "together"], OrReference()] = Field("spread", description=START)


class IterationsGroup(Thinking):
    """Closed loop of a fixed amount of work: of all VUs together (shared-iterations),
    or of each (per-vu-iterations)."""

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
            raise wrong("expected at least one iteration per user (iterations ≥ vus)")
        if self.executor == "per-vu-iterations" and known and math.prod(counts) > bounds.ITERATIONS.most:
            raise wrong(bounds.ITERATIONS.text, "Ask for fewer users, or fewer iterations of each.")
        return self


class VusStage(Part):
    """A straight line from the previous number of users to `target`."""

    duration: TimeNs = Field(description="how long it takes; 0s is a jump")
    target: UsersOrNone = Field(description="users at its end")


class RateStage(Part):
    """A straight line from the previous rate to `target`."""

    duration: TimeNs = Field(description="how long it takes; 0s is a jump")
    target: RateOrZeroRps = Field(description="arrivals at its end: 500/s")


class InStages(Part):
    """The common part of groups whose load changes in stages: they must last some time and make some load."""

    stages: Sequence[VusStage | RateStage]
    hold_for: TimeNs = Field(0, description=HOLD_FOR)

    start_level_field: ClassVar[str]
    """The field with the users, or arrivals per second, at the start."""

    @model_validator(mode="after")
    def _some_load(self) -> Self:
        lengths: list[Any] = [stage.duration for stage in self.stages]
        if not any(isinstance(length, str) or length > 0 for length in lengths):
            raise wrong("the stages must last longer than 0s")
        levels: list[Any] = [getattr(self, self.start_level_field), *(stage.target for stage in self.stages)]
        if not any(isinstance(level, str) or level > 0 for level in levels):
            raise wrong("expected a target above 0 in at least one stage")
        return self


class RampingVusGroup(InStages, Thinking):
    """Closed loop whose number of VUs follows stages; shown over time only."""

    executor: Annotated[Literal["ramping-vus"], OrReference()] = Field(description=EXECUTOR)
    stages: Annotated[list[VusStage], AtMost(bounds.STAGES)] = Field(
        min_length=1, description="{duration: 30s, target: 100}, one after another"
    )
    start_vus: UsersOrNone = Field(0, description=START_VUS)
    start_level_field = "start_vus"


class Arriving(GroupPart):
    """The common part of all open groups."""

    max_vus: Users | None = Field(None, description=MAX_VUS)
    arrivals: Annotated[Literal["constant", "poisson"], OrReference()] = Field("constant", description=ARRIVALS)  # fmt: skip
    on_full: Annotated[Literal["wait", "drop"], OrReference()] = Field("wait", description=ON_FULL)


class OpenGroup(Arriving):
    """Open loop: arrivals at a rate, whatever the server does."""

    executor: Annotated[Literal["constant-arrival-rate"], OrReference()] = Field(description=EXECUTOR)
    rate: RateRps = Field(description=RATE)
    ramp_up: TimeNs = Field(0, description=RATE_RAMP_UP)


class RampingRateGroup(InStages, Arriving):
    """Open loop whose rate follows stages; shown over time only."""

    executor: Annotated[Literal["ramping-arrival-rate"], OrReference()] = Field(description=EXECUTOR)
    stages: Annotated[list[RateStage], AtMost(bounds.STAGES)] = Field(
        min_length=1, description="{duration: 30s, target: 500/s}, one after another"
    )
    start_rate: RateOrZeroRps = Field(0.0, description=START_RATE)
    start_level_field = "start_rate"


class AnyGroup(GroupPart):
    """A group whose executor is a `${…}`: checked again in each case."""

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


STAGES_HINT = (
    "With stages write executor: ramping-vus, whose targets are users ({duration: 30s, target: 100}), or "
    "ramping-arrival-rate, whose targets are rates ({duration: 30s, target: 500/s})."
)


def _executors_with(key: str) -> list[str]:
    return [name for name, kind in _GROUPS.items() if key in kind.model_fields]


_GRACE = "Leave it out: requests in progress are followed to their end, or to their timeout."
_OF_K6 = {
    "duration": "The measured time is set at the top level: measure: {duration: 30s}.",
    "timeUnit": "Write it with the rate: rate: 50/s, or 50/min.",
    "gracefulStop": _GRACE,
    "gracefulRampDown": _GRACE,
}
"""Options of k6's executors that are elsewhere here, or do not exist."""


def _executor_of(written: Mapping[str, Any]) -> str:
    """Return the executor to write, from the description of the load."""
    if "stages" in written:
        return STAGES_HINT
    meant = _meant(written)
    names = ", ".join(_GROUPS)
    return f"Write executor: {meant}, or another one of {names}." if meant else f"Write one of {names}."


def _meant(written: Mapping[str, Any]) -> str | None:
    """Return the executor that a group without one most likely means."""
    match written:
        case {"stages": [*stages]}:
            rates = any(isinstance(one, Mapping) and "/" in str(one.get("target")) for one in stages)
            return "ramping-arrival-rate" if rates else "ramping-vus"
        case {"rate": _}:
            return "constant-arrival-rate"
        case {"iterations": _}:
            return "shared-iterations"
        case {"vus": _}:
            return "constant-vus"
    return None


def _group_kind(value: Any) -> type[BaseModel]:
    """Return the kind to check a group as; without an executor the likeliest, to report other mistakes."""
    written = value if isinstance(value, Mapping) else {}
    executor = written.get("executor")
    if holds_reference(executor):
        return AnyGroup
    return _GROUPS.get(str(executor if "executor" in written else _meant(written)), _WrongExecutor)


AnyOneGroup = Annotated[
    ClosedGroup | OpenGroup | RampingVusGroup | RampingRateGroup | IterationsGroup | AnyGroup,
    Pick(_group_kind),
]

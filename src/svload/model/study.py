"""A study as resolved: the lock (what resume uses), its cases, and the configuration of one case."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from svload.model.base import Artefact, Frozen
from svload.model.traffic import Feeder, Group, SetUp, TableSource


class Level(Frozen):
    """One level of a factor: a value, or a name with fields. `expect` are its manipulation checks."""

    name: str
    value: Any = None
    fields: dict[str, Any] = {}
    expect: tuple[str, ...] = ()


class Factor(Frozen):
    """What varies. `change` says what setting it costs: nothing, a reset, or a restart of services (split plot)."""

    name: str
    levels: tuple[Level, ...]
    change: Literal["request", "live", "restart", "rebuild"] = "request"


class Case(Frozen):
    """One combination of levels (factor → level name), named in the study's order; `excluded` holds the reason or None."""

    name: str
    levels: dict[str, str]
    excluded: str | None = None


class Comparison(Frozen):
    """A planned contrast. `per: case` makes one claim per matched pair instead of one that pools them."""

    name: str
    factor: str
    baseline: str
    metric: str
    per: Literal["contrast", "case"] = "contrast"
    when: dict[str, str] = {}
    fail_if: str | None = None


class Threshold(Frozen):
    """A criterion on every case that matches `when`."""

    that: str
    when: dict[str, Any] = {}


class Measure(Frozen):
    """How long and how often, and whether CPUs are kept awake. Durations exclude ramps, which come before."""

    duration_ns: int
    replicates: int = Field(default=6, ge=1)
    order: Literal["randomised-blocks", "as-listed"] = "randomised-blocks"
    replace_refused: int = 0
    awake: bool = False


class ObjectSet(Frozen):
    """Objects that a store is filled with. `size` is bytes or a distribution; everything is drawn from the study's seed."""

    name: str
    service: str
    accounts: int = 1
    containers: int = 1
    count: int
    size: dict[str, Any]


class ServiceSpec(Frozen):
    """One service of the lab: its kit and the kit's options, not yet checked by the kit."""

    name: str
    kit: str
    options: dict[str, Any] = {}


class Step(Frozen):
    """A step before a trial: `reset` these services, or `warm` a feeder through a service."""

    reset: tuple[str, ...] = ()
    warm: str | None = None
    through: str | None = None


class CaseConfig(Frozen):
    """All that a trial of one case needs, every `${…}` resolved."""

    case: Case
    services: tuple[ServiceSpec, ...]
    objects: tuple[ObjectSet, ...] = ()
    tables: tuple[TableSource, ...] = ()
    feeders: tuple[Feeder, ...] = ()
    set_up: tuple[SetUp, ...] = ()
    secrets: dict[str, str] = {}
    """What requests call each → the environment variable that holds it; the value stands in no artefact."""
    groups: tuple[Group, ...]
    before_trial: tuple[Step, ...] = ()
    expects: tuple[str, ...] = ()
    thresholds: tuple[str, ...] = ()

    @property
    def ramp_ns(self) -> int:
        """From the load's start until every ramp has ended: excluded from measurement by definition."""
        return max((group.executor.ramp_up_ns for group in self.groups), default=0)


class Lock(Artefact):
    """study.lock.json: the study as resolved under one profile. `source` is the merged study as plain data."""

    FORMAT: ClassVar[int] = 1
    name: str
    question: str = ""
    profile: str | None = None
    seed: int
    svload_version: str
    study_sha256: str
    study_dir: str = Field(
        description="the study's folder as named by the user; files beside it are read from there"
    )
    trusted: bool = False
    authorised: tuple[str, ...] = ()
    factors: tuple[Factor, ...]
    cases: tuple[Case, ...]
    measure: Measure
    comparisons: tuple[Comparison, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    source: dict[str, Any]
    plants: dict[str, str] = Field(
        default={},
        description="planted faults by case name, for demonstrations: they are shown wherever the run is",
    )

    @property
    def valid_cases(self) -> tuple[Case, ...]:
        """The cases that are run."""
        return tuple(case for case in self.cases if case.excluded is None)

    def case(self, name: str) -> Case:
        """The case of that name; raises KeyError."""
        return next(case for case in self.cases if case.name == name)

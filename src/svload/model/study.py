"""A study as resolved: the lock (what resume uses), its cases, and the configuration of one case."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from svload.model.base import Artefact, Frozen
from svload.model.faults import Fault
from svload.model.traffic import Feeder, Group, SetUp, TableSource, WrittenSet


class Level(Frozen):
    """One level of a factor: a value, or a name with fields."""

    name: str
    """the level; of a plain value as YAML writes it"""
    value: Any = None
    """what `${factor}` stands for; null for a name with fields"""
    fields: dict[str, Any] = {}
    """what `${factor.field}` stands for"""
    expect: tuple[str, ...] = ()
    """manipulation checks: criteria that show the level did what it says"""


class Factor(Frozen):
    """What varies. One that needs a restart makes a split plot."""

    name: str
    """the factor, as in the study"""
    levels: tuple[Level, ...]
    """in the study's order; none of an open factor"""
    open: tuple[int | float, int | float] | None = None
    """least and largest value of an open factor, between which batches choose; null: it has levels"""
    change: Literal["request", "live", "restart", "rebuild"] = "request"
    """what another level costs: nothing (request), a setting in place (live), new
    servers (restart), new data (rebuild)"""


class Case(Frozen):
    """One combination of levels."""

    name: str
    """from the study's table of names, else its telling levels (`pool-8`), else `case-` and its place"""
    levels: dict[str, str]
    """factor → level"""
    excluded: str | None = None
    """why it is not run; null: it is"""


class Comparison(Frozen):
    """A planned contrast."""

    name: str
    """from the study, else made of factor and levels"""
    factor: str
    """the factor that is compared over"""
    baseline: str
    """its level that every other one is compared with"""
    metric: str
    """`[group.|service.]metric[.stat]`; without an owner it is the case's main group's"""
    per: Literal["contrast", "case"] = "contrast"
    """contrast: one claim for each other level, matched cases pooled; case: one for each matched pair"""
    when: dict[str, str] = {}
    """factor → level: only cases with these are compared"""
    by: str | None = None
    """another factor: is the effect the same at each of its levels as at its first (an
    interaction)? null: a plain comparison"""
    fail_if: str | None = None
    """`worse|better|different by more than x %`, with `, success by more than y points`; null: it gates nothing"""


class Threshold(Frozen):
    """A criterion on every case that matches `when`."""

    that: str
    """the criterion as the study wrote it"""
    when: dict[str, Any] = {}
    """factor → level, or a list of levels; empty: every case"""


Order = Literal["randomised-blocks", "as-listed", "turns"]


class Measure(Frozen):
    """How long and how often, and whether CPUs are kept awake. Durations exclude ramps, which come before.

    Of a lock where cases differ: the most that any case has. A case's own follow from its levels, as all of it does.
    """

    duration_ns: int
    """length of a trial's load after its ramps"""
    replicates: int = Field(default=6, ge=1)
    """trials of each case, and so blocks"""
    order: Order = "randomised-blocks"
    """of cases in a block: at random, as the study lists them, or in turns: those that differ in the compared factor are up at
    once, and the load alternates between them"""
    until: float | None = None
    """blocks are added until half of each comparison's interval is no wider than this share; null: they are not"""
    at_most: int | None = None
    """blocks that are made then at most; null: four times the planned ones"""
    within_s: float | None = None
    """seconds of the run in which a block may be added (--for); null: no bound"""
    bring_ups: int = Field(default=1, ge=1)
    """bring-ups of the lab that the blocks are spread over, evenly; a factor that needs a restart makes more"""
    control: bool = False
    """with turns: a second server of the baseline is one more side, so that the baseline is compared with itself"""
    awake: bool = False
    """CPUs are kept from sleeping between requests while load is made"""

    @property
    def blocked(self) -> bool:
        """Whether chance decides the order inside a block, so that comparisons can be decided."""
        return self.order != "as-listed"


ONCE = Measure(duration_ns=1_000_000_000, replicates=1)


class ObjectSet(Frozen):
    """Objects that a store is filled with. `size` is bytes or a distribution; everything
    is drawn from the study's seed.

    `table` is what inputs/ and feeders call them: the set's name, with a digest of what it
    holds where cases differ in that.
    """

    name: str
    table: str = Field(default_factory=lambda made: made["name"])
    service: str
    accounts: int = 1
    containers: int = 1
    count: int
    size: dict[str, Any]
    content: Literal["random", "jpeg"] = "random"
    """random bytes, or whole JPEG files"""


REPLICAS = 100
"""Most replicas of a service: more are refused wherever options are read."""


class ServiceSpec(Frozen):
    """One service of the lab: its kit and the kit's options, not yet checked by the kit."""

    name: str
    kit: str
    options: dict[str, Any] = {}

    @property
    def replicas(self) -> int | None:
        """How many servers of it there are; None for a service that does not say, which
        is one server of its own name."""
        count = self.options.get("replicas")
        return count if isinstance(count, int) and not isinstance(count, bool) else None

    @property
    def servers(self) -> tuple[str, ...]:
        """What its servers are called: `web[1]`, `web[2]` …, or its own name."""
        if self.replicas is None:
            return (self.name,)
        return tuple(f"{self.name}[{number + 1}]" for number in range(min(self.replicas, REPLICAS)))


class Preparation(Frozen):
    """A step before a trial: `reset` these services, `restart` them, drop their files from the page
    cache, `warm` a feeder through a service, or run the group `populate`, for `lasts_ns` (of a
    fixed amount of work: at most)."""

    reset: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    drop_cache: tuple[str, ...] = ()
    warm: str | None = None
    through: str | None = None
    populate: Group | None = None
    lasts_ns: int = 600_000_000_000


class CaseConfig(Frozen):
    """All that a trial of one case needs, every `${…}` resolved."""

    case: Case
    services: tuple[ServiceSpec, ...]
    sysctl: dict[str, str] = {}
    """Settings of the kernel, by name."""
    set_name: str = ""
    """Its parameter set; empty: there is none."""
    tuned: tuple[str, ...] = ()
    """What that says of services, as `service.option`."""
    objects: tuple[ObjectSet, ...] = ()
    tables: tuple[TableSource, ...] = ()
    feeders: tuple[Feeder, ...] = ()
    sets: tuple[WrittenSet, ...] = ()
    set_up: tuple[SetUp, ...] = ()
    secrets: dict[str, str] = {}
    """What requests call each → the environment variable that holds it; the value stands in no artefact."""
    groups: tuple[Group, ...]
    measure: Measure = ONCE
    before_trial: tuple[Preparation, ...] = ()
    faults: tuple[Fault, ...] = ()
    """What is done to the servers while load is made."""
    expects: tuple[str, ...] = ()
    thresholds: tuple[str, ...] = ()
    abort_ifs: tuple[str, ...] = ()
    """Criteria over what monitors read, asked while load is made: one that holds ends the run."""
    profile: str = ""
    """The service whose call stacks are sampled in its first replicate; empty: none."""

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The groups of the load, and those that populate before it."""
        return (*self.groups, *(step.populate for step in self.before_trial if step.populate is not None))

    @property
    def main_group(self) -> str:
        """The group meant when a metric names none: the curl-like probe where there is one, else the last."""
        probes = [group.name for group in self.groups if group.client == "curl"]
        return probes[0] if probes else self.groups[-1].name

    @property
    def starts_servers(self) -> bool:
        """Whether svload starts any of its services; else all of them run already."""
        return any(service.kit != "external" for service in self.services)

    @property
    def ramp_ns(self) -> int:
        """From the load's start until every ramp has ended: excluded from measurement by definition."""
        return max((group.executor.ramp_up_ns for group in self.groups), default=0)


ANSWERING, LONGEST_ANSWERING_S = 0.12, 15.0
"""The share of a search's time that its answer takes after the last trial, and the most of it that is kept free: on
two cores that others share, 7 s after 21 trials in 45 s."""


class CapacitySearch(Frozen):
    """What `svload capacity` asks of an open factor: the largest value that keeps criteria, or the one
    above which more gains little."""

    over: str
    """the open factor: users, or requests a second"""
    least: int
    """no load below it is measured"""
    most: int
    """nor above it"""
    start: int
    """the first load"""
    that: tuple[str, ...] = ()
    """criteria that all must hold; empty where `gain` is asked"""
    gain: float | None = None
    """the load is sought above which throughput grows by less than this share of it (0.1:
    a tenth); null: `that` is asked"""
    tolerance: float = 0.05
    """width of the bracket that is narrow enough (0.05: 5 %)"""
    most_trials: int | None = None
    """trials that the time allows, as an older svload wrote it; null: as many as it needs, or as `within_s` says"""
    within_s: float | None = None
    """time until its answer; null: as long as it needs"""
    trial_s: float | None = None
    """what a trial is reckoned to take, before any has shown it; null: no bound of time"""
    given_up_s: float | None = None
    """after what time its requests are given up, where `within_s` made that shorter; null: as typed, or as usual"""
    at_least: int | None = None
    """the load that is needed: the search is a gate; null: it is none"""

    @property
    def measuring_s(self) -> float | None:
        """Of `within_s`, what trials may take: judging and the report come out of the rest."""
        if self.within_s is None:
            return None
        return self.within_s - min(ANSWERING * self.within_s, LONGEST_ANSWERING_S)


class Lock(Artefact):
    """study.lock.json: the study as resolved under one profile. `source` is the merged study as plain data."""

    FORMAT: ClassVar[int] = 1
    name: str
    """the study's name"""
    question: str = ""
    """what the study asks, in its own words"""
    profile: str | None = None
    """the profile that was merged; null: the study without one"""
    seed: int
    """of all that is random: order, load and data"""
    svload_version: str
    """the svload that resolved the study"""
    study_sha256: str
    """SHA-256 of the study file and its table of case names: an edit since is noticed"""
    study_dir: str
    """the study's folder; of a run its absolute path. Files beside it are read from there"""
    nonce: str = ""
    """random text of each run: no other run has the same lock, and trust in one is in no other; empty: of an older svload"""
    trusted: bool = False
    """commands and code of the study may run: `--trust`, now or before, or a study that `init` wrote"""
    authorised: tuple[str, ...] = ()
    """hosts outside the lab that `--authorise` allows load to"""
    factors: tuple[Factor, ...]
    """in the study's order"""
    cases: tuple[Case, ...]
    """every combination of levels, excluded ones too: named ones in their table's order, then the rest"""
    measure: Measure
    """how long, how often, in which order"""
    comparisons: tuple[Comparison, ...] = ()
    """planned before any data"""
    thresholds: tuple[Threshold, ...] = ()
    """criteria that cases are held to"""
    search: CapacitySearch | None = None
    """the search that chooses the values of its open factor; null: it has none"""
    source: dict[str, Any]
    """the merged study as plain data, references not yet put in"""
    plants: dict[str, str] = {}
    """planted faults by case name, for demonstrations: they are shown wherever the run is"""

    @model_validator(mode="before")
    @classmethod
    def _without_replace_refused(cls, data: Any) -> Any:
        """Of an older svload's lock: no trial is refused any more for what strangers did, so none is replaced."""
        if not isinstance(data, dict):
            return data
        found = dict(data)
        for holder, name in ((found, "measure"), (source := dict(found.get("source") or {}), "measure")):
            if isinstance(holder.get(name), dict):
                holder[name] = {key: value for key, value in holder[name].items() if key != "replace_refused"}
        return found | {"source": source} if "source" in found else found

    @property
    def valid_cases(self) -> tuple[Case, ...]:
        """The cases that are run."""
        return tuple(case for case in self.cases if case.excluded is None)

    def case(self, name: str) -> Case:
        """The case of that name; raises KeyError."""
        return next(case for case in self.cases if case.name == name)

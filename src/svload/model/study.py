"""A resolved study: the lock (which resume uses), its cases, and the configuration of one case."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from svload.model.base import Artefact, Frozen
from svload.model.faults import Fault
from svload.model.traffic import Feeder, Group, SetUp, TableSource, WrittenSet


class Level(Frozen):
    """One level of a factor: a value, or a name with fields."""

    name: str
    """the level's name; for a plain value as YAML writes it"""
    value: Any = None
    """value of `${factor}`; null for a name with fields"""
    fields: dict[str, Any] = {}
    """values of `${factor.field}`"""
    expect: tuple[str, ...] = ()
    """manipulation checks: criteria that show that the level has its intended effect"""


class Factor(Frozen):
    """A factor. One that needs a restart makes a split plot."""

    name: str
    """the factor, as in the study"""
    levels: tuple[Level, ...]
    """in the study's order; empty for an open factor"""
    open: tuple[int | float, int | float] | None = None
    """smallest and largest value of an open factor, between which batches choose; null: it has levels"""
    change: Literal["request", "live", "restart", "rebuild"] = "request"
    """what changing the level requires: nothing (request), a setting of running servers (live), new servers
    (restart), new data (rebuild)"""


class Case(Frozen):
    """One combination of levels."""

    name: str
    """from the study's table of names, else its distinguishing levels (`pool-8`), else `case-` and a
    number"""
    levels: dict[str, str]
    """factor → level"""
    excluded: str | None = None
    """why it is not run; null: it is run"""


class Comparison(Frozen):
    """A planned contrast."""

    name: str
    """from the study, else made from factor and levels"""
    factor: str
    """the factor that is compared over"""
    baseline: str
    """the level with which every other one is compared"""
    metric: str
    """`[group.|service.]metric[.stat]`; without an owner it belongs to the case's main group"""
    per: Literal["contrast", "case"] = "contrast"
    """contrast: one claim for each other level, matched cases pooled; case: one for each matched pair"""
    when: dict[str, str] = {}
    """factor → level: only cases with these levels are compared"""
    by: str | None = None
    """another factor: whether the effect at each of its levels is the same as at the first one (an
    interaction); null: a plain comparison"""
    fail_if: str | None = None
    """`worse|better|different by more than x %`, with `, success by more than y points`; null: no gate"""


class Threshold(Frozen):
    """A criterion on every case that matches `when`."""

    that: str
    """the criterion as the study wrote it"""
    when: dict[str, Any] = {}
    """factor → level, or a list of levels; empty: every case"""


Order = Literal["randomised-blocks", "as-listed", "turns"]


class Measure(Frozen):
    """How long and how often to measure, and whether CPUs are kept awake. Durations exclude the ramps before.

    In a lock whose cases differ: the largest value of any. A case's own values follow from its levels.
    """

    duration_ns: int
    """length of a trial's load after its ramps"""
    replicates: int = Field(default=6, ge=1)
    """trials of each case, and therefore blocks"""
    order: Order = "randomised-blocks"
    """order of cases in a block: at random, as listed in the study, or in turns: cases that differ in the
    compared factor run side by side, and the load alternates between them"""
    until: float | None = None
    """blocks are added until half of each comparison's interval is at most this share; null: none are
    added"""
    at_most: int | None = None
    """the largest number of blocks then; null: four times the planned ones"""
    within_s: float | None = None
    """seconds of the run in which a block may be added (--for); null: no bound"""
    bring_ups: int = Field(default=1, ge=1)
    """bring-ups over which the blocks are spread evenly; a factor that needs a restart makes more"""
    control: bool = False
    """with turns: a second server of the baseline is a further side, to compare the baseline with itself"""
    awake: bool = False
    """CPUs are kept from sleeping between requests while load is made"""

    @property
    def blocked(self) -> bool:
        """Return whether the order in a block is random, so that comparisons can be decided."""
        return self.order != "as-listed"


ONCE = Measure(duration_ns=1_000_000_000, replicates=1)


class ObjectSet(Frozen):
    """Objects with which a store is filled. `size` is bytes or a distribution; everything is drawn from the
    study's seed.

    `table` is the name in inputs/ and for feeders: the set's name, with a digest of its content if cases
    differ in it.
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
"""Most replicas of a service: more are rejected wherever options are read."""


class ServiceSpec(Frozen):
    """One service of the lab: its kit and the kit's options, not yet checked by the kit."""

    name: str
    kit: str
    options: dict[str, Any] = {}

    @property
    def replicas(self) -> int | None:
        """Return the number of its servers; None if the service does not set it: then it is one server of the
        service's name."""
        count = self.options.get("replicas")
        return count if isinstance(count, int) and not isinstance(count, bool) else None

    @property
    def servers(self) -> tuple[str, ...]:
        """Return the names of its servers: `web[1]`, `web[2]` …, or the service's name."""
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
    """The complete configuration of one case's trials, every `${…}` resolved."""

    case: Case
    services: tuple[ServiceSpec, ...]
    sysctl: dict[str, str] = {}
    """Settings of the kernel, by name."""
    set_name: str = ""
    """Its parameter set; empty: none."""
    tuned: tuple[str, ...] = ()
    """Options that the parameter set gives for services, as `service.option`."""
    objects: tuple[ObjectSet, ...] = ()
    tables: tuple[TableSource, ...] = ()
    feeders: tuple[Feeder, ...] = ()
    sets: tuple[WrittenSet, ...] = ()
    set_up: tuple[SetUp, ...] = ()
    secrets: dict[str, str] = {}
    """Name in requests → the environment variable that holds the secret; its value is in no artefact."""
    groups: tuple[Group, ...]
    measure: Measure = ONCE
    before_trial: tuple[Preparation, ...] = ()
    faults: tuple[Fault, ...] = ()
    """What is done to the servers while load is made."""
    expects: tuple[str, ...] = ()
    thresholds: tuple[str, ...] = ()
    abort_ifs: tuple[str, ...] = ()
    """Criteria over monitors' readings, evaluated while load is made: if one holds, the run ends."""
    profile: str = ""
    """The service whose call stacks are sampled in the first replicate; empty: none."""

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """Return the groups of the load, and those that populate before it."""
        return (*self.groups, *(step.populate for step in self.before_trial if step.populate is not None))

    @property
    def main_group(self) -> str:
        """Return the group meant when a metric names none: the curl-like probe if there is one, else the
        last."""
        probes = [group.name for group in self.groups if group.client == "curl"]
        return probes[0] if probes else self.groups[-1].name

    @property
    def starts_servers(self) -> bool:
        """Return whether svload starts any of its services; otherwise all of them are already running."""
        return any(service.kit != "external" for service in self.services)

    def begin_ns(self, group: Group) -> int:
        """Return when the group's load begins, in ns from the trial's start: at once, or when the ramp of the
        group that it waits for has ended."""
        named = {one.name: one for one in self.groups}
        waited_ns, seen = 0, {group.name}
        while (before := named.get(group.start_when or "")) is not None and before.name not in seen:
            seen.add(before.name)
            waited_ns += before.executor.ramp_up_ns
            group = before
        return waited_ns

    @property
    def ramp_ns(self) -> int:
        """Return the time until every ramp has ended: excluded from measurement by definition."""
        return max((self.begin_ns(group) + group.executor.ramp_up_ns for group in self.groups), default=0)


ANSWERING, LONGEST_ANSWERING_S = 0.12, 15.0
"""The share of a search's time reserved for the answer after the last trial, and its maximum: on two shared
cores, 7 s after 21 trials in 45 s."""


class CapacitySearch(Frozen):
    """What `svload capacity` seeks for an open factor: the largest value that meets criteria, or the one
    above which more gains little."""

    over: str
    """the open factor: users, or requests per second"""
    least: int
    """the smallest load that is measured"""
    most: int
    """the largest load that is measured"""
    start: int
    """the first load"""
    that: tuple[str, ...] = ()
    """criteria that must all hold; empty if `gain` is set"""
    gain: float | None = None
    """seek the load above which throughput grows by less than this share of the added load (0.1: a tenth);
    null: `that` is set"""
    tolerance: float = 0.05
    """bracket width at which the search ends (0.05: 5 %)"""
    most_trials: int | None = None
    """number of trials that the time allows, as an older svload wrote it; null: as many as needed, or as
    `within_s` allows"""
    within_s: float | None = None
    """time until the answer; null: as long as it needs"""
    trial_s: float | None = None
    """expected duration of a trial before the first one; null: no time limit"""
    given_up_s: float | None = None
    """the requests' timeout, if `within_s` made it shorter; null: as typed, or the default"""
    at_least: int | None = None
    """the required load: the search is a gate; null: no gate"""

    @property
    def measuring_s(self) -> float | None:
        """Return the part of `within_s` that trials may take, without the time for judging and the report."""
        if self.within_s is None:
            return None
        return self.within_s - min(ANSWERING * self.within_s, LONGEST_ANSWERING_S)


class Lock(Artefact):
    """study.lock.json: the study resolved under one profile. `source` is the merged study as plain data."""

    FORMAT: ClassVar[int] = 1
    name: str
    """the study's name"""
    question: str = ""
    """what the study asks, in its own words"""
    profile: str | None = None
    """the profile that was merged; null: the study without a profile"""
    seed: int
    """of everything random: order, load and data"""
    svload_version: str
    """the svload that resolved the study"""
    study_sha256: str
    """SHA-256 of the study file and its table of case names: shows later edits"""
    study_dir: str
    """the study's folder; for a run its absolute path. Files beside the study are read from there"""
    nonce: str = ""
    """random text of each run, so that no two runs have the same lock, and trust in one does not extend to
    another; empty: from an older svload"""
    trusted: bool = False
    """commands and code of the study may run: `--trust`, now or earlier, or a study that `init` wrote"""
    authorised: tuple[str, ...] = ()
    """hosts outside the lab for which `--authorise` permits load"""
    factors: tuple[Factor, ...]
    """in the study's order"""
    cases: tuple[Case, ...]
    """every combination of levels, also excluded ones: named ones in their table's order, then the rest"""
    measure: Measure
    """how long, how often, in which order"""
    comparisons: tuple[Comparison, ...] = ()
    """planned before there is any data"""
    thresholds: tuple[Threshold, ...] = ()
    """criteria that cases must meet"""
    search: CapacitySearch | None = None
    """the search that chooses the values of its open factor; null: it has none"""
    source: dict[str, Any]
    """the merged study as plain data, with its references unresolved"""
    plants: dict[str, str] = {}
    """planted faults by case name, for demonstrations: they are shown wherever the run is"""

    @model_validator(mode="before")
    @classmethod
    def _without_replace_refused(cls, data: Any) -> Any:
        """Read an older svload's lock: trials are no longer refused for other programs, nor replaced."""
        if not isinstance(data, dict):
            return data
        found = dict(data)
        for holder, name in ((found, "measure"), (source := dict(found.get("source") or {}), "measure")):
            if isinstance(holder.get(name), dict):
                holder[name] = {key: value for key, value in holder[name].items() if key != "replace_refused"}
        return found | {"source": source} if "source" in found else found

    @property
    def valid_cases(self) -> tuple[Case, ...]:
        """Return the cases that are run."""
        return tuple(case for case in self.cases if case.excluded is None)

    def case(self, name: str) -> Case:
        """Return the case of that name; raises KeyError."""
        return next(case for case in self.cases if case.name == name)

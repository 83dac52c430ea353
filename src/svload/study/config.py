"""One case of a study with every `${…}` resolved. Pure: the same lock and case give the same configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from svload.model.bounds import STREAMS
from svload.model.errors import SvloadError
from svload.model.executors import ClosedLoop, ThinkTime
from svload.model.plan import Point
from svload.model.study import (
    Case,
    CaseConfig,
    Factor,
    Level,
    Lock,
    Measure,
    ObjectSet,
    Preparation,
    ServiceSpec,
)
from svload.model.traffic import FeederPart, Group, Request, Scenario, SetUp, Step, TakenPart
from svload.study import schema, schema_faults, schema_requests, schema_scenarios, schema_traffic
from svload.study.factors import level_name, matches
from svload.study.faults import read_faults
from svload.study.feeders import feeder_columns, read_feeder, read_set, written_sets
from svload.study.mistakes import Mistake, bad_value, mistakes_of, unknown_name, where
from svload.study.placed import placed
from svload.study.references import (
    MISSING,
    REFERENCE,
    Resolver,
    Vocabulary,
    origin_of,
    references_in,
    strings_in,
    unescaped,
)
from svload.study.requests import read_request
from svload.study.sets import options_of_set, with_set
from svload.study.steps import RawStep, hosts_of, populations, raw_scenarios, secrets, variables
from svload.study.targets import target_mistakes
from svload.study.templates import Names
from svload.study.traffic import group_mistakes, read_group, read_think_time
from svload.study.tree import Node, Path, section_of, sequence_of, value_at
from svload.study.values import holds_reference
from svload.study.variables import (
    gone_later,
    secret_in_address,
    taken_twice,
    unknown_to,
    untaken,
    written_apart,
)

T = TypeVar("T")


AS_THE_LOCK_SAYS = Point()


def resolve(lock: Lock, case: Case, at: Point = AS_THE_LOCK_SAYS) -> CaseConfig:
    """Return the configuration of a trial of `case`, with the batch's point `at`; open factors missing there
    have their least value.

    Raises SvloadError if the lock does not fit this svload.
    """
    config, mistakes = sound_part(lock.source, lock.factors, case, at.values)
    if config is None or mistakes:
        raise _misfit(mistakes)
    whole = placed(config, FilePath(lock.study_dir))
    return whole.model_copy(update={"measure": _as_locked(config.measure, lock, at)})


def measure_of(lock: Lock, case: Case, at: Point = AS_THE_LOCK_SAYS) -> Measure:
    """Return how long and how often a case is measured: `resolve(…).measure` only. Raises like `resolve`."""
    if not any(map(holds_reference, section_of(lock.source, "measure").values())):
        return _as_locked(lock.measure, lock, at)
    reader = _Reader(lock.source, lock.factors, case, at.values)
    if reader.measure is None:
        raise _misfit(reader.mistakes)
    return _as_locked(reader.measure, lock, at)


_WRITTEN_AS = {"duration_ns": "duration"}


def _as_locked(measure: Measure, lock: Lock, at: Point) -> Measure:
    """Use the lock's values for what no level sets; a batch's own duration takes precedence over both."""
    written = section_of(lock.source, "measure")
    fixed = {
        name: value
        for name, value in lock.measure
        if not holds_reference(written.get(_WRITTEN_AS.get(name, name)))
    }
    own = {} if at.duration_ns is None else {"duration_ns": at.duration_ns}
    return measure.model_copy(update=fixed | own)


def _misfit(mistakes: Sequence[Mistake]) -> SvloadError:
    return SvloadError(*(mistake.problem(Node(None, "study.lock.json")) for mistake in mistakes))


def sound_part(
    source: Mapping[str, Any], factors: Sequence[Factor], case: Case, values: Mapping[str, int | float]
) -> tuple[CaseConfig | None, list[Mistake]]:
    """Return the configuration of `case` with open factors' `values`, without its broken parts, and what is
    wrong with these; None if nothing is left."""
    reader = _Reader(source, factors, case, values)
    config = reader.config()
    return config, reader.mistakes


def _level_of(factor: Factor, case: Case, values: Mapping[str, int | float]) -> Level:
    """Return the case's level; for an open factor its value here."""
    if factor.open is None:
        return next(level for level in factor.levels if level.name == case.levels[factor.name])
    value = values.get(factor.name, factor.open[0])
    return Level(name=level_name(value), value=value)


_LISTS = ("before_trial", "faults", "setup", "thresholds")
"""Sections whose entries have no names."""


@dataclass(frozen=True)
class _Entry:
    """A named part of a section after its references were resolved."""

    name: str
    path: Path
    value: Any


class _Reader:
    """Reads the sections of one case. Collects mistakes and skips broken entries, to find all in one pass."""

    def __init__(
        self,
        source: Mapping[str, Any],
        factors: Sequence[Factor],
        case: Case,
        values: Mapping[str, int | float],
    ) -> None:
        self.case = case
        self.levels = {factor.name: _level_of(factor, case, values) for factor in factors}
        feeders, taken = feeder_columns(source), frozenset(variables(source))
        lab = section_of(source, "lab")
        self.mistakes: list[Mistake] = []
        self.resolved: dict[Path, Any] = {}
        self.vocabulary = Vocabulary(
            {factor.name: factor for factor in factors}, feeders, variables=taken, services=frozenset(lab)
        )
        self.secrets = secrets(source)
        self.names = Names(hosts_of(lab), feeders, taken, written_sets(source))
        self.set_name = ""
        self.source = self._with_set(source)

    def _with_set(self, source: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the study under this case's parameter set."""
        raw = source.get("tuning")
        if not isinstance(raw, str):
            return source
        name = self.text(raw, ("tuning",))
        known = section_of(source, "sets")
        if name not in known:
            self.mistakes.append(unknown_name(("tuning",), name, "set under sets", known))
        self.set_name = name
        return with_set(source, name)

    def config(self) -> CaseConfig | None:
        """Return the sound part; complete if `mistakes` stays empty."""
        services = tuple(
            ServiceSpec(name=entry.name, kit=part.kind, options=unescaped(part.options()))
            for entry, part in self.parts("lab", schema.Service)
        )
        resolver = Resolver(self.levels, self.vocabulary)
        settings = resolver.put_in(section_of(self.source, "sysctl"), ("sysctl",))
        self.mistakes += resolver.mistakes
        sysctl = {
            name: str(int(value) if isinstance(value, bool) else value) for name, value in settings.items()
        }
        written: dict[Any, Any] = section_of(self.source, "data")
        objects = tuple(
            _objects(entry.name, part, written[entry.path[1]])
            for entry, part in self.parts("data", schema.Objects)
        )
        tables = {one.name: one.table for one in objects}
        parts = self.parts("feeders", schema.FeederPart)
        feeders = [read_feeder(entry.name, part, tables) for entry, part in parts if part.written is None]
        sets = [read_set(entry.name, part, tables) for entry, part in parts if part.written is not None]
        set_up = self.set_up()
        made = self.groups(set_up)
        before = populations(self.source)
        groups = tuple(group for group in made if group.name not in before)
        steps = tuple(
            self.preparation(entry.path, part, made)
            for entry, part in self.parts("before_trial", schema.StepPart)
        )
        if not groups and not self.mistakes:
            reason = "no traffic group is left" + self._where()
            self.mistakes.append(
                bad_value(("traffic",), reason, "nothing", "Let at least one group generate load.")
            )
        sampled = self._sampled(services)
        faults = tuple(
            fault
            for entry, part in self.parts("faults", schema_faults.FaultPart)
            for fault in read_faults(int(entry.name), part)
        )
        self.mistakes += self._targets()
        expects = [self.text(text, path) for text, path in self._expects()]
        thresholds = [part.that for _, part in self.parts("thresholds", schema.ThresholdPart)]
        if not self.mistakes:
            self.mistakes += self._unasked(groups)
            if self.measure is not None:
                restarted = {name for step in steps for name in step.restart}
                self.mistakes += gone_later(self.source, groups, restarted, self.measure.replicates)
        if self.measure is None or not (groups or self.mistakes):
            return None
        return CaseConfig(
            case=self.case,
            services=services,
            sysctl=sysctl,
            set_name=self.set_name,
            tuned=options_of_set(self.source, self.set_name),
            objects=objects,
            tables=tuple(table for _, table in feeders if table is not None),
            feeders=tuple(feeder for feeder, _ in feeders),
            sets=tuple(sets),
            set_up=set_up,
            secrets=self.secrets,
            groups=groups,
            measure=self.measure,
            before_trial=steps,
            faults=faults,
            profile=sampled,
            expects=tuple(expects),
            thresholds=tuple(thresholds),
            abort_ifs=tuple(text for text in sequence_of(self.source, "abort_if") if isinstance(text, str)),
        )

    def _sampled(self, services: Sequence[ServiceSpec]) -> str:
        """Return the service whose stacks are sampled in this case; empty: none."""
        raw = self.source.get("profile")
        name = self.text(raw, PROFILE) if isinstance(raw, str) else ""
        self.mistakes += sampling_mistakes(name, section_of(self.source, "lab"), services)
        return name

    def entries(self, section: str) -> list[tuple[str, Path, Any]]:
        """Return the entries of a section in this case, as written; none if it is no list or no mapping,
        which is reported elsewhere."""
        named = (
            enumerate(sequence_of(self.source, section))
            if section in _LISTS
            else section_of(self.source, section).items()
        )
        found: list[tuple[str, Path, Any]] = []
        for key, value in named:
            when = value.get("when") if isinstance(value, dict) and section != "lab" else None
            if not isinstance(when, dict) or matches(when, self.case.levels):
                found.append((str(key), (section, key), value))
        return found

    def parts(self, section: str, model: type[T]) -> list[tuple[_Entry, T]]:
        """Return the section's entries, resolved and checked."""
        return [
            pair for name, path, raw in self.entries(section) if (pair := self.part(name, path, raw, model))
        ]

    def part(self, name: str, path: Path, raw: Any, model: Any) -> tuple[_Entry, Any] | None:
        """Return one entry, resolved and checked; None if it is still broken without its wrong parts."""
        if isinstance(raw, str) and model is schema.ThresholdPart:
            raw = {"that": raw}
        resolver = Resolver(self.levels, self.vocabulary)
        value = self.resolved[path] = resolver.put_in(raw, path)
        mistakes = resolver.mistakes
        if not mistakes:
            try:
                return _Entry(name, path, value), _adapter(model).validate_python(value)
            except ValidationError as why:
                mistakes = [self._at_its_level(mistake, raw, path) for mistake in mistakes_of(why, path)]
                broken = mistakes_of(why, path)
        else:
            broken = mistakes
        self.mistakes += mistakes
        return self._sound_rest(name, path, value, model, broken)

    def _sound_rest(self, name: str, path: Path, value: Any, model: Any, broken: Sequence[Mistake]) -> tuple[_Entry, Any] | None:  # fmt: skip
        """Return the entry without its wrong parts, so that the search for mistakes can continue."""
        wrong = {mistake.path[len(path)] for mistake in broken if len(mistake.path) > len(path)}
        rest = (
            {key: child for key, child in value.items() if key not in wrong}
            if isinstance(value, dict)
            else None
        )
        try:
            return _Entry(name, path, rest), _adapter(model).validate_python(rest)
        except ValidationError:
            return None

    def _at_its_level(self, mistake: Mistake, raw: Any, path: Path) -> Mistake:
        """Report a value that came from a level's field at that field."""
        origin = self._origin(value_at(raw, mistake.path[len(path) :]))
        return Mistake(origin, mistake.code, mistake.details) if origin else mistake

    def _origin(self, raw: Any) -> Path | None:
        whole = REFERENCE.fullmatch(raw) if isinstance(raw, str) else None
        return origin_of(whole[2], self.levels) if whole else None

    def text(self, raw: str, path: Path) -> str:
        """Return a text outside requests, resolved."""
        resolver = Resolver(self.levels, self.vocabulary)
        value = resolver.put_in(raw, path)
        if value is MISSING:
            resolver.lacking(raw, path)
        self.mistakes += resolver.mistakes
        return str(value)

    def groups(self, set_up: Sequence[SetUp]) -> tuple[Group, ...]:
        """Return the traffic groups of this case."""
        entries = self.entries("traffic")
        before = populations(self.source)
        present = [name for name, _, _ in entries if name not in before]
        groups = []
        for name, path, raw in entries:
            pair = self.part(name, path, raw, schema_traffic.AnyOneGroup)
            part: schema_traffic.GroupPart | None = pair[1] if pair else None
            if not isinstance(raw, dict):
                continue  # reported as written
            if part is None:
                if "request" in raw:
                    self.request(raw["request"], (*path, "request"))
                continue
            scenarios = self.scenarios(part, path, raw)
            request = scenarios[0].steps[0].request if scenarios else None
            if part.request is not None:
                request = self.request(raw.get("request"), (*path, "request"))
            if request is None:
                continue
            if wrong := self._waits_for_none(part, path):
                self.mistakes.append(wrong)
                continue
            measured_ns = self.measure.duration_ns if self.measure and name not in before else None
            found = group_mistakes(part, path, measured_ns)
            group = None if found else read_group(name, part, request, scenarios, present)
            if group is not None:
                found = [
                    *untaken(group, path, set_up, self.secrets),
                    *http2_mistakes(group, path),
                    *written_apart(group, path),
                ]
            self.mistakes += found
            if group is not None and not found:
                groups.append(self._recorded(renewing(group, set_up)))
        return tuple(groups)

    def _recorded(self, group: Group) -> Group:
        """Return the group with one row per request if sides take turns: these rows tell the turns apart."""
        in_turns = self.measure is not None and self.measure.order == "turns"
        return group.model_copy(update={"record": "rows"}) if in_turns and group.record == "auto" else group

    def _waits_for_none(self, part: schema_traffic.GroupPart, path: Path) -> Mistake | None:
        """Report a group that is to begin after a group that does not exist."""
        if part.start_when is None:
            return None
        other, _, event = part.start_when.partition(".")
        if event == "ramped" and other != path[-1] and other in section_of(self.source, "traffic"):
            return None
        return bad_value((*path, "start_when"), "expected GROUP.ramped of another group", part.start_when)

    def scenarios(
        self, part: schema_traffic.GroupPart, path: Path, raw: Mapping[str, Any]
    ) -> tuple[Scenario, ...]:
        """Return the scenarios of a group; without those that have a broken step or an unknown name."""
        own = {**raw, "scenario": part.scenario if isinstance(part.scenario, str) else raw.get("scenario")}
        found = []
        for scenario in raw_scenarios(own, path, self.source):
            weight = part.mix.get(scenario.name, 1) if part.mix else 1  # a wrong one is reported as such
            steps = [step for raw_step in scenario.steps if (step := self.step(raw_step))]
            if not scenario.known:
                where = (*path, "mix", scenario.name) if part.mix else (*path, "scenario")
                known = {
                    *section_of(self.source, "scenarios"),
                    *(section_of(self.source, "requests") if part.mix else ()),
                }
                self.mistakes.append(unknown_name(where, scenario.name, "scenario", known))
            elif steps and len(steps) == len(scenario.steps):
                found.append(Scenario(name=scenario.name, weight=weight, steps=tuple(steps)))
        return tuple(found)

    def step(self, raw: RawStep) -> Step | None:
        """Return a step of a scenario."""
        pair = (
            self.part(raw.name, raw.path, raw.raw, schema_scenarios.AnyStep)
            if raw.path[0] != "requests"
            else None
        )
        request = self.request(*raw.request)
        if request is None or (pair is None and raw.path[0] != "requests"):
            return None
        think_time = read_think_time(pair[1].think_time) if pair else ThinkTime(constant_ns=0)
        return Step(name=raw.name, request=request, think_time=think_time)

    def set_up(self) -> tuple[SetUp, ...]:
        """Return the requests before the load."""
        found: list[SetUp] = []
        for name, path, raw in self.entries("setup"):
            pair = self.part(name, path, raw, schema_scenarios.AnySetUp)
            request = self.request(*RawStep(name, path, raw).request)
            if pair is None or request is None:
                continue
            once = pair[1].once
            known = {
                take.name
                for part in found
                if once == "vu" or part.once == "trial"
                for take in part.request.take
            }
            self.mistakes += unknown_to(request, known | set(self.secrets), path)
            self.mistakes += secret_in_address(request, self.secrets, path)
            self.mistakes += taken_twice(
                request, {take.name for part in found for take in part.request.take}, path
            )
            found.append(SetUp(request=request, once=once, renew_ns=pair[1].renew))
        return tuple(found)

    @cached_property
    def measure(self) -> Measure | None:
        """Return how long and how often this case is measured; None if that is broken."""
        pair = self.part("measure", ("measure",), section_of(self.source, "measure"), schema.MeasurePart)
        if pair is None:
            return None
        plain = pair[1].model_dump()
        if plain["order"] in (None, "trials"):
            plain["order"] = "randomised-blocks"
        return Measure(duration_ns=plain.pop("duration"), **plain)

    def request(self, raw: Any, path: Path, via: tuple[str, ...] = ()) -> Request | None:
        """Return a group's request, inline or by name; `via` are the names that led here."""
        name, requests = "request", section_of(self.source, "requests")
        if isinstance(raw, str) and raw in requests:
            via = (*via, raw)
            name, raw, path = raw, requests[raw], ("requests", raw)
        pair = self.part(name, path, raw, schema_requests.InlineRequest)
        if pair is None:
            return None
        named = pair[1]
        if not isinstance(named, str):
            return self._request(name, named, path, raw)
        if named in via:
            way = " → ".join((*via, named))
            self.mistakes.append(
                bad_value(path, f"this request names itself ({way})", named, "Write GET http://service/path.")
            )
            return None
        if named in requests:  # a level's value names it
            return self.request(named, path, via)
        self.mistakes.append(unknown_name(path, named, "request", requests))
        return None

    def _request(self, name: str, part: schema_requests.RequestPart, path: Path, raw: Any) -> Request | None:
        found = read_request(name, part, self.names, path)
        if isinstance(found, Request):
            return found
        self.mistakes += [self._at_its_host(mistake, raw) for mistake in found]
        return None

    def _at_its_host(self, mistake: Mistake, raw: Any) -> Mistake:
        """Report an unknown host or scheme that came from a level at that level."""
        url = raw.get(mistake.path[-1]) if isinstance(raw, dict) else raw
        found = mistake.details.get("name", mistake.details.get("found"))
        for reference in references_in(url) if isinstance(url, str) else ():
            resolver = Resolver(self.levels, self.vocabulary)
            origin = self._origin(f"${{{reference}}}")
            if origin and resolver.put_in(f"${{{reference}}}", ()) == found:
                details = mistake.details | {"where": where(origin)}
                return Mistake(origin, mistake.code, details, meant=mistake.meant)
        return mistake

    def _targets(self) -> Iterator[Mistake]:
        """Report unknown names and unsuitable servers, once this case's levels are resolved."""
        known: dict[str, Any] = dict(self.source)
        for section in ("lab", "data", "feeders"):
            named = section_of(self.source, section)
            known[section] = {name: self.resolved.get((section, name), raw) for name, raw in named.items()}
        steps = range(len(sequence_of(self.source, "before_trial")))
        known["before_trial"] = [self.resolved.get(("before_trial", index)) for index in steps]
        for mistake in target_mistakes(known):
            yield self._at_its_level(mistake, self.source, ())

    def _unasked(self, groups: Sequence[Group]) -> Iterator[Mistake]:
        """Report steps that would warm rows which no group of this case requests: nothing would be warmed."""
        asked = {
            part.feeder
            for group in groups
            for request in group.requests
            for part in request.parts
            if isinstance(part, FeederPart)
        }
        for entry, part in self.parts("before_trial", schema.StepPart):
            if part.warm is not None and part.warm not in asked:
                reason = "no traffic group uses its rows" + self._where()
                hint = "Name a feeder that is used, or limit this step to some cases with when."
                yield bad_value((*entry.path, "warm"), reason, part.warm, hint)

    def _where(self) -> str:
        """Return ` where users: 8`; empty for a study without factors."""
        of = ", ".join(f"{factor}: {level}" for factor, level in self.case.levels.items())
        return f" where {of}" if of else ""

    def preparation(self, path: Path, part: schema.StepPart, made: Sequence[Group]) -> Preparation:
        """Return a step before the trial; a population is one of the groups that were `made`."""
        group = next((group for group in made if group.name == part.populate), None)
        if part.populate is not None and group is None and not self.mistakes:
            reason = "this group generates no load" + self._where()
            hint = "Copy the group's when to this step."
            self.mistakes.append(bad_value((*path, "populate"), reason, part.populate, hint))
        if group is not None and part.lasts is None and group.executor.shape != "finite":
            reason = f"{part.populate} is not a fixed amount of work, so it needs a duration (lasts)"
            hint = "Write lasts: 30s, or take the executor shared-iterations."
            self.mistakes.append(bad_value((*path, "populate"), reason, part.populate, hint))
        lasts = {} if part.lasts is None else {"lasts_ns": part.lasts}
        return Preparation(
            reset=tuple(part.reset or ()),
            restart=tuple(part.restart or ()),
            drop_cache=tuple(part.drop_cache or ()),
            warm=part.warm,
            through=part.through,
            populate=group,
            **lasts,
        )

    def _expects(self) -> list[tuple[str, Path]]:
        return [
            (text, ("factors", factor, level.name, "expect"))
            for factor, level in self.levels.items()
            for text in level.expect
        ]


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(model: Any) -> TypeAdapter[Any]:
    if model not in _ADAPTERS:
        _ADAPTERS[model] = TypeAdapter(model)
    return _ADAPTERS[model]


def _objects(name: str, part: schema.Objects, written: Any) -> ObjectSet:
    """Return a case's object set; one `written` with a reference has a table in each case that differs."""
    size: BaseModel = part.size
    made = ObjectSet(
        name=name,
        table=name,
        service=part.service,
        accounts=part.accounts,
        containers=part.containers,
        count=part.count,
        size=size.model_dump(mode="json"),
        content=part.content,
    )
    if not any(list(references_in(text)) for _, text in strings_in(written, ())):
        return made
    plain = made.model_dump_json(
        exclude={"content"} if made.content == "random" else None
    )  # keeps earlier names
    digest = hashlib.blake2b(plain.encode(), digest_size=4).hexdigest()
    return made.model_copy(update={"table": f"{name}.{digest}"})


CONNECTION_FIELDS = ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
"""Headers that describe a connection (RFC 9113 §8.2.2)."""


def http2_mistakes(group: Group, path: Path) -> Iterator[Mistake]:
    """Return what conflicts with the group's `http2` and `streams`, or needs them."""
    if not group.http2:
        if group.streams > 1:
            reason = "requests share a connection over HTTP/2 only"
            yield bad_value((*path, "streams"), reason, group.streams, "Add http2: true.")
        return
    if group.streams > STREAMS.most:
        yield bad_value((*path, "streams"), f"expected at most {STREAMS.most:,} streams", group.streams)
    if group.connection == "new" and group.streams > 1:
        reason = "a connection for each request carries one stream"
        yield bad_value(
            (*path, "streams"), reason, group.streams, "Leave it out, or write connection: keep-alive."
        )
    executor = group.executor
    vus = executor.most_vus if isinstance(executor, ClosedLoop) else executor.max_vus
    if vus is not None and group.generators > group.connections(vus):
        reason = f"there are only {group.connections(vus)} connections to share"
        yield bad_value((*path, "generators"), reason, group.generators)
    if group.connection == "shared":
        reason = "over HTTP/2 users share connections by streams"
        yield bad_value((*path, "connection"), reason, "shared", "Leave it out, and write streams: 16.")
    for request in dict.fromkeys(group.requests):
        yield from _of_a_request(group, request, path)


def _of_a_request(group: Group, request: Request, path: Path) -> Iterator[Mistake]:
    if request.is_raw:
        reason = "a dialogue needs a stream of bytes, which HTTP/2 is not"
        yield bad_value((*path, "http2"), reason, group.http2, f"Put {request.name} into a group of its own.")
    elif group.http2 == "preferred" and request.url is None and request.scheme != "https":
        reason = "without TLS nothing can choose between HTTP/2 and HTTP/1.1"
        yield bad_value((*path, "http2"), reason, "preferred", "Write http2: true, or use https.")
    for name, _ in request.headers:
        if name.lower() in CONNECTION_FIELDS:
            reason = f"HTTP/2 has no header {name}"
            yield bad_value((*path, "http2"), reason, group.http2, f"Leave it out of {request.name}.")


RENEWAL = "renewal"
"""The scenario, and so the step, that repeats the set-up."""


def renewing(group: Group, set_up: Sequence[SetUp]) -> Group:
    """Return the group with a renewal of its variables, if the set-up asks for one."""
    used = {part.taken for request in group.requests for part in request.parts if isinstance(part, TakenPart)}
    asked = [part for part in set_up if part.renew_ns is not None and used & set(part.request.takes)]
    if not asked:
        return group
    alone = Scenario(name=group.request.name, steps=group.steps)
    step = Step(name=RENEWAL, request=asked[0].request)
    renewal = Scenario(name=RENEWAL, weight=0, renew_ns=asked[0].renew_ns, steps=(step,))
    return group.model_copy(update={"scenarios": (*(group.scenarios or (alone,)), renewal)})


PROFILE = ("profile",)
_WITHOUT_PROCESSES = {
    "external": "{name} is already running, so svload does not know its processes",
    "machine": "{name} is a machine: it has no processes of its own",
}


def sampling_mistakes(
    name: str, known: Collection[str], services: Sequence[ServiceSpec]
) -> Iterator[Mistake]:
    """Return why the stacks of that service cannot be sampled; empty if none are requested."""
    if not name:
        return
    if name not in known:
        yield unknown_name(PROFILE, name, "service under lab", known)
        return
    kit = next((spec.kit for spec in services if spec.name == name), "")
    if reason := _WITHOUT_PROCESSES.get(kit):
        yield bad_value(PROFILE, reason.format(name=name), name, "Name a service that svload starts.")

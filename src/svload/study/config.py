"""One case of a study with every `${…}` resolved. Pure: the same lock and case give the same configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from svload.model.errors import SvloadError
from svload.model.study import (
    Case,
    CaseConfig,
    Factor,
    Level,
    Lock,
    ObjectSet,
    ServiceSpec,
)
from svload.model.study import (
    Step as BeforeStep,
)
from svload.model.traffic import Group, Request, Scenario, SetUp, Step, TableSource, TakenPart, ThinkTime
from svload.model.units import duration_ns
from svload.study import schema, schema_traffic
from svload.study.factors import matches
from svload.study.feeders import feeder_columns, read_feeder
from svload.study.http2 import http2_mistakes
from svload.study.mistakes import Mistake, bad_value, mistakes_of, unknown_name, where
from svload.study.references import REFERENCE, Resolver, Vocabulary, references_in, unescaped
from svload.study.steps import RawStep, raw_scenarios, secrets, variables
from svload.study.templates import Names
from svload.study.traffic import group_mistakes, read_group, read_request, read_think_time
from svload.study.tree import Node, Path

T = TypeVar("T")


def resolve(lock: Lock, case: Case) -> CaseConfig:
    """All that a trial of `case` needs. Raises SvloadError if the lock does not fit this svload."""
    config, mistakes = resolve_case(lock.source, lock.factors, case)
    if config is None:
        raise SvloadError(*(mistake.problem(Node(None, "study.lock.json")) for mistake in mistakes))
    folder = FilePath(lock.study_dir)
    groups = tuple(placed(group, folder) for group in config.groups)
    set_up = tuple(
        part.model_copy(update={"request": _with_file(part.request, folder)}) for part in config.set_up
    )
    tables = tuple(_tableplaced(table, folder) for table in config.tables)
    return config.model_copy(update={"groups": groups, "set_up": set_up, "tables": tables})


def placed(group: Group, folder: FilePath) -> Group:
    """The group with its bodies' files as paths that hold everywhere on this machine; `folder` is the study's."""
    scenarios = tuple(
        scenario.model_copy(
            update={
                "steps": tuple(
                    step.model_copy(update={"request": _with_file(step.request, folder)})
                    for step in scenario.steps
                )
            }
        )
        for scenario in group.scenarios
    )
    return group.model_copy(update={"request": _with_file(group.request, folder), "scenarios": scenarios})


def _with_file(request: Request, folder: FilePath) -> Request:
    body = request.body
    if body is None or body.file is None:
        return request
    file = str((folder / body.file).absolute())
    return request.model_copy(update={"body": body.model_copy(update={"file": file})})


def _tableplaced(table: TableSource, folder: FilePath) -> TableSource:
    kinds = {"csv": table.csv, "parquet": table.parquet}
    return table.model_copy(
        update={kind: str((folder / name).absolute()) for kind, name in kinds.items() if name is not None}
    )


def resolve_case(source: Mapping[str, Any], factors: Sequence[Factor], case: Case) -> tuple[CaseConfig | None, list[Mistake]]:  # fmt: skip
    """The configuration of `case`, or what of `source` cannot be resolved in it."""
    reader = _Reader(source, factors, case)
    config = reader.config()
    return (None if reader.mistakes else config), reader.mistakes


@dataclass(frozen=True)
class _Entry:
    """A named part of a section after its references were put in."""

    name: str
    path: Path
    value: Any


class _Reader:
    """Reads the sections of one case. Mistakes gather; a broken entry is passed over, so that all are found at once."""

    def __init__(self, source: Mapping[str, Any], factors: Sequence[Factor], case: Case) -> None:
        self.source, self.case = source, case
        self.levels: dict[str, Level] = {
            factor.name: next(level for level in factor.levels if level.name == case.levels[factor.name])
            for factor in factors
        }
        feeders, taken = feeder_columns(source), frozenset(variables(source))
        self.vocabulary = Vocabulary({factor.name: factor for factor in factors}, feeders, variables=taken)
        self.secrets = secrets(source)
        self.names = Names(tuple(_mapping(source, "lab")), feeders, taken)
        self.mistakes: list[Mistake] = []

    def config(self) -> CaseConfig | None:
        services = tuple(
            ServiceSpec(name=entry.name, kit=part.kind, options=unescaped(part.options()))
            for entry, part in self.parts("lab", schema.Service)
        )
        objects = tuple(_objects(entry.name, part) for entry, part in self.parts("data", schema.Objects))
        feeders = [read_feeder(entry.name, part) for entry, part in self.parts("feeders", schema.FeederPart)]
        set_up = self.set_up()
        groups = self.groups(set_up)
        steps = tuple(
            BeforeStep(reset=tuple(part.reset or ()), warm=part.warm, through=part.through)
            for _, part in self.parts("before_trial", schema.StepPart)
        )
        expects = [self.text(text, path) for text, path in self._expects()]
        thresholds = [part.that for _, part in self.parts("thresholds", schema.ThresholdPart)]
        if self.mistakes or not groups:
            return None
        return CaseConfig(
            case=self.case,
            services=services,
            objects=objects,
            tables=tuple(table for _, table in feeders if table is not None),
            feeders=tuple(feeder for feeder, _ in feeders),
            set_up=set_up,
            secrets=self.secrets,
            groups=groups,
            before_trial=steps,
            expects=tuple(expects),
            thresholds=tuple(thresholds),
        )

    def entries(self, section: str) -> list[tuple[str, Path, Any]]:
        """The entries of a section that this case has, as written."""
        raw = self.source.get(section) or {}
        named = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
        found: list[tuple[str, Path, Any]] = []
        for key, value in named:
            when = value.get("when") if isinstance(value, dict) and section != "lab" else None
            if not isinstance(when, dict) or matches(when, self.case.levels):
                found.append((str(key), (section, key), value))
        return found

    def parts(self, section: str, model: type[T]) -> list[tuple[_Entry, T]]:
        """The section's entries, resolved and checked."""
        return [
            pair for name, path, raw in self.entries(section) if (pair := self.part(name, path, raw, model))
        ]

    def part(self, name: str, path: Path, raw: Any, model: Any) -> tuple[_Entry, Any] | None:
        """One entry, resolved and checked; None if it is broken beyond leaving out what is wrong in it."""
        if isinstance(raw, str) and model is schema.ThresholdPart:
            raw = {"that": raw}
        resolver = Resolver(self.levels, self.vocabulary)
        value = resolver.put_in(raw, path)
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
        """The entry without what is wrong in it, so that the search for mistakes goes on behind it."""
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
        """A value that came from a level's field is told at that field."""
        for step in mistake.path[len(path) :]:
            raw = raw[step] if isinstance(raw, dict) and step in raw else None
        origin = self._origin(raw)
        return Mistake(origin, mistake.code, mistake.details) if origin else mistake

    def _origin(self, raw: Any) -> Path | None:
        whole = REFERENCE.fullmatch(raw) if isinstance(raw, str) else None
        if not whole:
            return None
        factor, _, field = whole[2].strip().partition(".")
        level = self.levels.get(factor)
        return ("factors", factor, level.name, *(field.split(".") if field else ())) if level else None

    def text(self, raw: str, path: Path) -> str:
        """A text outside requests, resolved."""
        resolver = Resolver(self.levels, self.vocabulary)
        value = resolver.put_in(raw, path)
        self.mistakes += resolver.mistakes
        return str(value)

    def groups(self, set_up: Sequence[SetUp]) -> tuple[Group, ...]:
        """The traffic groups of this case."""
        entries = self.entries("traffic")
        present = [name for name, _, _ in entries]
        groups = []
        for name, path, raw in entries:
            pair = self.part(name, path, raw, schema_traffic.AnyOneGroup)
            part: schema_traffic.GroupPart | None = pair[1] if pair else None
            if part is None:
                if isinstance(raw, dict) and "request" in raw:
                    self.request(raw["request"], (*path, "request"))
                continue
            scenarios = self.scenarios(part, path, raw)
            request = scenarios[0].steps[0].request if scenarios else None
            if part.request is not None:
                request = self.request(raw.get("request"), (*path, "request"))
            if request is None:
                continue
            found = group_mistakes(part, path, self._duration_ns())
            group = None if found else read_group(name, part, request, scenarios, present)
            if group is not None:
                found = [*_untaken(group, path, set_up, self.secrets), *http2_mistakes(group, path)]
            self.mistakes += found
            if group is not None and not found:
                groups.append(group)
        return tuple(groups)

    def scenarios(
        self, part: schema_traffic.GroupPart, path: Path, raw: Mapping[str, Any]
    ) -> tuple[Scenario, ...]:
        """The scenarios of a group; a broken step, or a name that stands for nothing, leaves its scenario out."""
        own = {**raw, "scenario": part.scenario if isinstance(part.scenario, str) else raw.get("scenario")}
        found = []
        for scenario in raw_scenarios(own, path, self.source):
            weight = part.mix[scenario.name] if part.mix else 1
            steps = [step for raw_step in scenario.steps if (step := self.step(raw_step))]
            if not scenario.known:
                where = (*path, "mix", scenario.name) if part.mix else (*path, "scenario")
                known = {
                    *_mapping(self.source, "scenarios"),
                    *(_mapping(self.source, "requests") if part.mix else ()),
                }
                self.mistakes.append(unknown_name(where, scenario.name, "scenario", known))
            elif steps and len(steps) == len(scenario.steps):
                found.append(Scenario(name=scenario.name, weight=weight, steps=tuple(steps)))
        return tuple(found)

    def step(self, raw: RawStep) -> Step | None:
        """A step of a scenario."""
        pair = (
            self.part(raw.name, raw.path, raw.raw, schema_traffic.AnyStep)
            if raw.path[0] != "requests"
            else None
        )
        request = self.request(*raw.request)
        if request is None or (pair is None and raw.path[0] != "requests"):
            return None
        think_time = read_think_time(pair[1].think_time) if pair else ThinkTime(constant_ns=0)
        return Step(name=raw.name, request=request, think_time=think_time)

    def set_up(self) -> tuple[SetUp, ...]:
        """The requests before the load."""
        found: list[SetUp] = []
        for name, path, raw in self.entries("setup"):
            pair = self.part(name, path, raw, schema_traffic.AnySetUp)
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
            self.mistakes += _unknown_to(request, known | set(self.secrets), path)
            self.mistakes += _secret_in_address(request, self.secrets, path)
            self.mistakes += _taken_twice(
                request, {take.name for part in found for take in part.request.take}, path
            )
            found.append(SetUp(request=request, once=once))
        return tuple(found)

    def _duration_ns(self) -> int | None:
        """The trial's measured time; None if it is broken, which the schema tells."""
        raw = _mapping(self.source, "measure").get("duration")
        try:
            return duration_ns(raw) if isinstance(raw, str | int | float) else None
        except ValueError:
            return None

    def request(self, raw: Any, path: Path) -> Request | None:
        """A group's request, inline or by name."""
        name, requests = "request", _mapping(self.source, "requests")
        if isinstance(raw, str) and raw in requests:
            name, raw, path = raw, requests[raw], ("requests", raw)
        pair = self.part(name, path, raw, schema_traffic.InlineRequest)
        if pair is None:
            return None
        if isinstance(pair[1], str):
            self.mistakes.append(unknown_name(path, pair[1], "request", requests))
            return None
        return self._request(name, pair[1], path, raw)

    def _request(self, name: str, part: schema_traffic.RequestPart, path: Path, raw: Any) -> Request | None:
        found = read_request(name, part, self.names, path)
        if isinstance(found, Request):
            return found
        self.mistakes += [self._at_its_host(mistake, raw) for mistake in found]
        return None

    def _at_its_host(self, mistake: Mistake, raw: Any) -> Mistake:
        """An unknown host or scheme that came from a level is told at that level."""
        url = raw.get(mistake.path[-1]) if isinstance(raw, dict) else raw
        found = mistake.details.get("name", mistake.details.get("found"))
        for reference in references_in(url) if isinstance(url, str) else ():
            resolver = Resolver(self.levels, self.vocabulary)
            origin = self._origin(f"${{{reference}}}")
            if origin and resolver.put_in(f"${{{reference}}}", ()) == found:
                details = mistake.details | {"where": where(origin)}
                return Mistake(origin, mistake.code, details, meant=mistake.meant)
        return mistake

    def _expects(self) -> list[tuple[str, Path]]:
        return [
            (text, ("factors", factor, level.name, "expect"))
            for factor, level in self.levels.items()
            for text in level.expect
        ]


def _unknown_to(request: Request, known: Collection[str], path: Path) -> Iterator[Mistake]:
    """Variables that a request uses before they are taken."""
    for part in request.parts:
        if isinstance(part, TakenPart) and part.taken not in known:
            told = f"{request.name} uses ${{{part.taken}}}, which no earlier step nor setup takes"
            yield bad_value(path, told, part.taken, "Take it in a step before, or under setup.")


def _secret_in_address(request: Request, secrets: Collection[str], path: Path) -> Iterator[Mistake]:
    """An address is what tables, logs and errors name, here and at the server."""
    for part in (*request.path, *(request.url or ())):
        if isinstance(part, TakenPart) and part.taken in secrets:
            told = f"{request.name} has ${{{part.taken}}} in its address, which logs and tables name"
            yield bad_value(path, told, part.taken, "Send it in a header or in the body.")


def _taken_twice(request: Request, known: Collection[str], path: Path) -> Iterator[Mistake]:
    for take in request.take:
        if take.name in known:
            yield bad_value(path, "setup takes this variable already", take.name, "Take another name.")


def _untaken(
    group: Group, path: Path, set_up: Sequence[SetUp], secrets: Collection[str]
) -> Iterator[Mistake]:
    """What is wrong with a group's variables."""
    before = {take.name: part.once for part in set_up for take in part.request.take}
    for request in group.requests:
        yield from _secret_in_address(request, secrets, path)
    chains = [scenario.steps for scenario in group.scenarios] or [group.steps]
    for steps in chains:
        known = {*before, *secrets}
        for step in steps:
            yield from _unknown_to(step.request, known, path)
            yield from _taken_twice(step.request, before, path)
            known |= {take.name for take in step.request.take}
    used = {part.taken for request in group.requests for part in request.parts if isinstance(part, TakenPart)}
    of_vu = sorted(name for name in used if before.get(name) == "vu")
    if of_vu and group.executor.model == "open loop":
        told = f"${{{of_vu[0]}}} is taken once a VU, and an open loop has no VUs"
        yield bad_value(path, told, group.executor.kind, "Write once: trial, or take a closed executor.")


def _mapping(source: Mapping[str, Any], section: str) -> dict[str, Any]:
    raw = source.get(section)
    return raw if isinstance(raw, dict) else {}


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(model: Any) -> TypeAdapter[Any]:
    if model not in _ADAPTERS:
        _ADAPTERS[model] = TypeAdapter(model)
    return _ADAPTERS[model]


def _objects(name: str, part: schema.Objects) -> ObjectSet:
    size: BaseModel = part.size
    return ObjectSet(
        name=name,
        service=part.service,
        accounts=part.accounts,
        containers=part.containers,
        count=part.count,
        size=size.model_dump(mode="json"),
    )

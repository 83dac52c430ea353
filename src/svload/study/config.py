"""One case of a study with every `${…}` resolved. Pure: the same lock and case give the same configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from svload.model.errors import SvloadError
from svload.model.study import Case, CaseConfig, Factor, Level, Lock, ObjectSet, ServiceSpec, Step
from svload.model.traffic import Feeder, Group, Request
from svload.model.units import duration_ns
from svload.study import schema, schema_traffic
from svload.study.factors import matches
from svload.study.mistakes import Mistake, mistakes_of, unknown_name, where
from svload.study.references import REFERENCE, Resolver, Vocabulary, references_in, unescaped
from svload.study.traffic import Names, group_mistakes, read_group, read_request
from svload.study.tree import Node, Path

T = TypeVar("T")


def resolve(lock: Lock, case: Case) -> CaseConfig:
    """All that a trial of `case` needs. Raises SvloadError if the lock does not fit this svload."""
    config, mistakes = resolve_case(lock.source, lock.factors, case)
    if config is None:
        raise SvloadError(*(mistake.problem(Node(None, "study.lock.json")) for mistake in mistakes))
    return config.model_copy(
        update={"groups": tuple(_placed(group, lock.study_dir) for group in config.groups)}
    )


def _placed(group: Group, study_dir: str) -> Group:
    """The group with its body's file as a path that holds everywhere on this machine."""
    body = group.request.body
    if body is None or body.file is None:
        return group
    file = str((FilePath(study_dir) / body.file).absolute())
    request = group.request.model_copy(update={"body": body.model_copy(update={"file": file})})
    return group.model_copy(update={"request": request})


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
        feeders = frozenset(_mapping(source, "feeders"))
        self.vocabulary = Vocabulary({factor.name: factor for factor in factors}, feeders)
        self.names = Names(tuple(_mapping(source, "lab")), feeders)
        self.mistakes: list[Mistake] = []

    def config(self) -> CaseConfig | None:
        services = tuple(
            ServiceSpec(name=entry.name, kit=part.kind, options=unescaped(part.options()))
            for entry, part in self.parts("lab", schema.Service)
        )
        objects = tuple(_objects(entry.name, part) for entry, part in self.parts("data", schema.Objects))
        feeders = tuple(
            Feeder(name=entry.name, table=part.source, take=part.take, when_exhausted=part.when_exhausted)
            for entry, part in self.parts("feeders", schema.FeederPart)
        )
        groups = self.groups()
        steps = tuple(
            Step(reset=tuple(part.reset or ()), warm=part.warm, through=part.through)
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
            feeders=feeders,
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

    def groups(self) -> tuple[Group, ...]:
        """The traffic groups of this case."""
        entries = self.entries("traffic")
        present = [name for name, _, _ in entries]
        groups = []
        for name, path, raw in entries:
            pair = self.part(name, path, raw, schema_traffic.AnyOneGroup)
            request = self.request(raw.get("request") if isinstance(raw, dict) else None, (*path, "request"))
            if pair is None or request is None:
                continue
            part: schema_traffic.GroupPart = pair[1]
            found = group_mistakes(part, path, self._duration_ns())
            self.mistakes += found
            if not found:
                groups.append(read_group(name, part, request, present))
        return tuple(groups)

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

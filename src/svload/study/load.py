"""From study.yaml to the lock: read, merge, check everything, and only then make the cases."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

from svload import __version__
from svload.model.errors import Problem, SvloadError, fail
from svload.model.metrics import canonical_limit
from svload.model.study import Case, CaseConfig, Comparison, Factor, Lock, Measure, ServiceSpec, Threshold
from svload.model.traffic import Group
from svload.model.units import duration_ns
from svload.study import bounds, schema, values
from svload.study.beside import file_beside, text_beside
from svload.study.check import check_criteria, check_given, check_names, check_shape, uncompared
from svload.study.comparisons import mixed_loads
from svload.study.config import resolve_case
from svload.study.factors import (
    Kits,
    changes,
    level_name,
    make_cases,
    read_case_names,
    read_factor,
)
from svload.study.feeders import feeder_columns, file_mistakes
from svload.study.mistakes import Mistake, bad_value, nearest, unknown_key
from svload.study.references import Vocabulary, references_in, strings_in, values_in
from svload.study.repair import repaired
from svload.study.steps import INLINE, variables
from svload.study.tree import Node, Path, kit_of, merge, override, plain, read_tree

STUDY_FILE = "study.yaml"
CheckLab = Callable[[Sequence[ServiceSpec]], Sequence[Mistake]]
"""Services → what is wrong with them, at paths that begin with `lab`."""
CheckCase = Callable[[CaseConfig, int, FilePath], Iterable[Mistake]]
"""A case, its measured time in ns and the study's folder → what the engine would refuse of it."""
Measures = Callable[[Sequence[ServiceSpec]], Mapping[str, frozenset[str] | None]]
"""Services → the metrics that each can give; None: not known."""


def find_study(name_or_path: str | FilePath) -> FilePath:
    """The study file that a path, or the name of a packed study (`001-svload`), means. Raises SvloadError study-not-found."""
    path = FilePath(name_or_path)
    if path.is_dir() and (path / STUDY_FILE).is_file():
        return path / STUDY_FILE
    if path.is_file():
        return path
    name = str(name_or_path)
    if name and "/" not in name and not name.startswith("."):
        from importlib.resources import files

        packed = FilePath(str(files("svload._studies"))) / name / STUDY_FILE
        if packed.is_file():
            return packed
    raise fail("study-not-found", path=name_or_path)


def load_study(
    path: str | FilePath,
    profile: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    seed: int | None = None,
    trusted: bool = False,
    authorised: Sequence[str] = (),
    kits: Kits | None = None,
    check_lab: CheckLab | None = None,
    check_case: CheckCase | None = None,
    measures: Measures | None = None,
) -> Lock:
    """The lock of the study at `path` (a folder, a file, or a packed study's name) under `profile`.

    `overrides` maps dotted keys (`measure.duration`) to values, texts being read as YAML. `kits` maps kit names to their
    options models: with it kits are checked, and what a change costs follows the option's `change`. `check_lab` finds what is wrong
    with a lab's services (svload.lab.find_mistakes), `measures` what each of them can say of itself: this room knows no kit.
    `check_case` finds what the engine would refuse (svload.drive.refusals.CaseChecks).
    Raises SvloadError with every mistake of the study and all its profiles at once, each with `file:line`.
    """
    file = find_study(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as why:
        line = 1 + why.object.count(b"\n", 0, why.start)
        raise fail("study-syntax", place=f"{file}:{line}", reason="it is no UTF-8 text") from why
    except OSError as why:
        raise fail("study-syntax", place=str(file), reason=str(why)) from why
    tree, problems = read_tree(text, str(file))
    base, profiles = _split(tree, problems)
    if len(profiles) > bounds.PROFILES.most:
        raise SvloadError(bad_value(("profiles",), bounds.PROFILES.told, len(profiles)).problem(tree))
    if profile is not None and profile not in profiles:
        details: dict[str, object] = {"name": profile, "hint": nearest(profile, profiles)}
        problems.append(Problem("profile-unknown", details, base.place))
        profile = None
    wanted = merge(base, profiles[profile]) if profile else base
    for key, value in (overrides or {}).items():
        wanted = override(wanted, key, value)
    checks = _Checks(file.parent, kits, check_lab, check_case, measures, variants=len(profiles) + 1)
    draft = checks.run(wanted, whole=profile is None and not overrides, chosen=True)
    problems += draft.problems
    for name in (None, *profiles):
        if name != profile or overrides:
            other = merge(base, profiles[name]) if name else base
            problems += checks.run(other, whole=name is None, chosen=False).problems
    if problems:
        raise SvloadError(*_in_order(problems))
    digest = _digest(file, plain(base).get("case_names"))
    return _lock(draft, file, digest, profile, seed, trusted, tuple(authorised))


def study_digest(path: str | FilePath) -> str:
    """SHA-256 of the study's file and of its table of case names: a lock holds it, so that a later edit is noticed."""
    file = find_study(path)
    return _digest(file, plain(read_tree(file.read_text(encoding="utf-8"), str(file))[0]).get("case_names"))


def _digest(file: FilePath, named: Any) -> str:
    digest = hashlib.sha256(file.read_bytes())
    if isinstance(named, str) and (table := file_beside(file.parent, named)):
        digest.update(table.read_bytes())
    return digest.hexdigest()


def _split(tree: Node, problems: list[Problem]) -> tuple[Node, dict[str, Node]]:
    """The study without its profiles, and the profiles; misspelt sections of either are told and mended."""
    base = _mend_sections(tree, SECTIONS, problems)
    if not isinstance(base.value, dict) or "profiles" not in base.value:
        return base, {}
    raw = base.value["profiles"].value
    named = raw if isinstance(raw, dict) else {}
    known = [section for section in SECTIONS if section != "profiles"]
    profiles = {
        name: _mend_sections(child, known, problems)
        for name, child in named.items()
        if isinstance(child.value, dict)
    }
    if raw is not None and (not isinstance(raw, dict) or len(profiles) < len(raw)):
        return base, profiles  # the schema tells what is no mapping
    return Node({key: child for key, child in base.value.items() if key != "profiles"}, base.place), profiles


SECTIONS = tuple(field.alias or name for name, field in schema.StudyFile.model_fields.items())


def _mend_sections(tree: Node, known: Sequence[str], problems: list[Problem]) -> Node:
    """`tree` with its misspelt sections renamed; a section that stands in a study only is taken out of a profile."""
    strangers = [key for key in tree.value if key not in known] if isinstance(tree.value, dict) else []
    mistakes = [unknown_key((key,), known) for key in strangers]
    told = [mistake for mistake in mistakes if mistake.meant or mistake.path[0] in SECTIONS]
    problems += [mistake.problem(tree) for mistake in told]
    tree = repaired(tree, told)
    if isinstance(tree.value, dict) and (surplus := set(SECTIONS) - set(known)):
        tree = Node({key: child for key, child in tree.value.items() if key not in surplus}, tree.place)
    return tree


@dataclass(frozen=True)
class _Draft:
    """A merged study as plain data with what was made of it."""

    data: dict[str, Any]
    factors: tuple[Factor, ...]
    cases: tuple[Case, ...]
    problems: list[Problem]


class _Found:
    """Mistakes so far: one that stands at, above or below the place of another is the same one seen again."""

    def __init__(self, tree: Node) -> None:
        self.tree = tree
        self.paths: list[Path] = []
        self.problems: list[Problem] = []

    @property
    def full(self) -> bool:
        """Whether as many were found as are told."""
        return len(self.paths) >= bounds.TOLD.most

    def add(self, mistakes: Iterable[Mistake]) -> None:
        """Take the new ones of a pass (which may stand in one place), and go on with the study as it was meant."""
        left = bounds.TOLD.most - len(self.paths)
        fresh = list(islice((mistake for mistake in mistakes if not self._known(mistake.path)), max(left, 0)))
        self.paths += [mistake.path for mistake in fresh]
        self.problems += [mistake.problem(self.tree) for mistake in fresh]
        self.tree = repaired(self.tree, fresh)

    def _known(self, path: Path) -> bool:
        return any(path[: len(known)] == known or known[: len(path)] == path for known in self.paths)


@dataclass
class _Checks:
    """Finds all that is wrong in one merged study."""

    folder: FilePath
    kits: Kits | None
    check_lab: CheckLab | None
    check_case: CheckCase | None
    measures: Measures | None
    variants: int

    def run(self, tree: Node, whole: bool, chosen: bool) -> _Draft:
        """The draft of a study; `whole`: neither profile nor override has taken anything out of it.

        `chosen`: this one will be run, so its kits must exist here; another profile may use kits of another machine.
        """
        data = plain(tree)
        if not isinstance(data, dict):
            return _Draft(
                {}, (), (), [bad_value((), "a mapping was expected (key: value)", data).problem(tree)]
            )
        found = _Found(tree)
        found.add(check_shape(data))
        read = [
            (name, *read_factor(name, raw)) for name, raw in _mapping(plain(found.tree), "factors").items()
        ]
        for _, _, mistakes in read:
            found.add(mistakes)
        factors = [factor for _, factor, _ in read if factor]
        data = plain(found.tree)
        vocabulary = Vocabulary(
            {factor.name: factor for factor in factors},
            feeder_columns(data, self.folder),
            frozenset(name for name, _, mistakes in read if mistakes),
            frozenset(variables(data)),
        )
        found.add(file_mistakes(data, self.folder))
        found.add(check_names(data, vocabulary, self.kits if chosen else None))
        found.add(self._lab_as_written(plain(found.tree), chosen))
        data = plain(found.tree)
        cases: tuple[Case, ...] = ()
        if all(factor for _, factor, _ in read):
            factors = [
                factor
                for name, raw in _mapping(data, "factors").items()
                if (factor := read_factor(name, raw)[0])
            ]
            cases, mistakes = _cases(data, factors, self.folder, whole, self.variants)
            self._each_case(data, factors, cases, found, chosen)
            found.add(mistakes)
            found.add(uncompared(data, cases))
        return _Draft(data, changes(data, factors, self.kits), cases, found.problems)

    def _each_case(
        self,
        data: dict[str, Any],
        factors: Sequence[Factor],
        cases: Sequence[Case],
        found: _Found,
        chosen: bool,
    ) -> None:
        """What shows only when a case's levels are put in."""
        labs: set[str] = set()
        configs: dict[str, CaseConfig] = {}
        for case in cases:
            if case.excluded is not None:
                continue
            config, mistakes = resolve_case(data, factors, case)
            found.add(mistakes)
            if config is None:
                continue
            configs[case.name] = config
            found.add(_body_mistakes(config.groups, self.folder))
            found.add(_scheme_mistakes(config.services, config.groups))
            found.add(check_criteria(config.thresholds, data, ("thresholds",)))
            found.add(check_criteria(config.expects, data, ("factors",)))
            if (lab := repr(config.services)) not in labs:
                labs.add(lab)
                found.add(self._lab_mistakes(config.services, chosen))
            if found.full:
                return
            if self.measures is not None:
                given = self.measures(config.services)
                found.add(check_given(config, given, data))
            if chosen and self.check_case is not None and not found.problems:
                found.add(self.check_case(config, _duration_ns(data), self.folder))
        found.add(mixed_loads(data, cases, configs))

    def _lab_as_written(self, data: dict[str, Any], chosen: bool) -> Iterable[Mistake]:
        """What is wrong with the services whatever their `${…}` will stand for: told beside all else, not only once cases resolve."""
        specs = [_as_written(name, service) for name, service in _mapping(data, "lab").items()]
        for mistake in self._lab_mistakes(specs, chosen):
            texts = [text for _, text in strings_in(_value_at(data, mistake.path), ())]
            if not any(list(references_in(text)) for text in texts):
                yield mistake

    def _lab_mistakes(self, specs: Sequence[ServiceSpec], chosen: bool) -> Iterable[Mistake]:
        """What the lab's own check finds; the kits of a profile that is not run may be another machine's."""
        if self.check_lab is None:
            return
        for mistake in self.check_lab(specs):
            if chosen or mistake.details.get("kind") != "kit":
                yield mistake


def _as_written(name: str, service: Any) -> ServiceSpec:
    """A service before its references are put in; one that names no kit is told elsewhere, and still others may need it."""
    said = service if isinstance(service, dict) else {}
    options = {key: value for key, value in said.items() if key != "kit"}
    return ServiceSpec(name=name, kit=kit_of(said) or "", options=options)


def _value_at(data: Any, path: Path) -> Any:
    """What is written at `path`; None where nothing is."""
    for step in path:
        if not (isinstance(data, dict) and step in data):
            return None
        data = data[step]
    return data


def _scheme_mistakes(services: Sequence[ServiceSpec], groups: Sequence[Group]) -> Iterable[Mistake]:
    """Servers that run already and are asked by another scheme than they are said to speak."""
    speaks = {
        service.name: str(service.options["at"]).partition("://")[0].lower()
        for service in services
        if "at" in service.options
    }
    for group in groups:
        for target in group.endpoints:
            scheme, _, name = target.partition("://")
            if speaks.get(name, scheme) != scheme:
                told = f"{name} is at an address of {speaks[name]}"
                yield bad_value(("traffic", group.name), told, target, f"Write {speaks[name]}://{name}.")


def _body_mistakes(groups: Sequence[Group], folder: FilePath) -> Iterable[Mistake]:
    """Bodies from files that are not there, or outside the study's folder."""
    for group in groups:
        for request in group.requests:
            body = request.body
            if body is None or body.file is None:
                continue
            if file_beside(folder, body.file) is None:
                path = ("requests", request.name) if request.name != INLINE else ("traffic", group.name)
                yield bad_value((*path, "body"), "a file inside the study's folder was expected", body.file)


def _duration_ns(data: Mapping[str, Any]) -> int:
    """The measured time of a study without mistakes."""
    return duration_ns(_mapping(data, "measure").get("duration", "1s"))


def _mapping(data: Mapping[str, Any], section: str) -> dict[str, Any]:
    raw = data.get(section)
    return raw if isinstance(raw, dict) else {}


def _cases(data: dict[str, Any], factors: Sequence[Factor], folder: FilePath, strict: bool, variants: int) -> tuple[tuple[Case, ...], list[Mistake]]:  # fmt: skip
    """The cases and what is wrong with their names and exclusions. `strict`: also rows of levels that are not there.

    `variants`: how often all this is done, for the study and its profiles.
    """
    count = math.prod(len(factor.levels) for factor in factors)
    if count > bounds.CASES.most:
        return (), [bad_value(("factors",), bounds.CASES.told, f"{count:,}")]
    values = values_in({key: part for key, part in data.items() if key != "factors"})
    if count * (values + bounds.VALUES_OF_A_CASE) * variants > bounds.WORK.most and count > 1:
        asked = f"{values:,} values × {count:,} cases" + f" × {variants} variants" * (variants > 1)
        return (), [bad_value(("factors",), bounds.WORK.told, asked)]
    mistakes: list[Mistake] = []
    names: dict[tuple[str, ...], str] = {}
    valid: dict[str, bool] = {}
    if isinstance(table := data.get("case_names"), str):
        file = file_beside(folder, table)
        if file is None:
            mistakes.append(
                bad_value(("case_names",), "a file inside the study's folder was expected", table)
            )
        elif factors:
            try:
                text = text_beside(file, bounds.TABLE_BYTES.most)
                names, valid, told = read_case_names(text, str(folder / table), factors)
                mistakes += told if strict else []
            except (OSError, ValueError, csv.Error) as why:
                mistakes.append(bad_value(("case_names",), f"a table of cases was expected ({why})", table))
    rules = data.get("exclude")
    sound = [rule for rule in (rules if isinstance(rules, list) else []) if _is_rule(rule)]
    cases = make_cases(factors, sound, names)
    for case in cases if strict else ():
        if case.name in valid and valid[case.name] != (case.excluded is None):
            said = "valid, but it is excluded" if valid[case.name] else "not valid, but nothing excludes it"
            mistakes.append(bad_value(("case_names",), f"{case.name} is {said}", table))
    replicates = _mapping(data, "measure").get("replicates")
    valid_cases = sum(case.excluded is None for case in cases)
    if isinstance(replicates, int) and valid_cases * replicates > bounds.TRIALS.most:
        asked = f"{valid_cases} × {replicates}"
        mistakes.append(bad_value(("measure", "replicates"), bounds.TRIALS.told, asked))
    if cases and all(case.excluded is not None for case in cases):
        mistakes.append(bad_value(("exclude",), "no case is left", f"{len(cases)} excluded"))
    return cases, mistakes


def _is_rule(rule: Any) -> bool:
    return (
        isinstance(rule, dict) and isinstance(rule.get("when"), dict) and rule["when"] and "because" in rule
    )


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Each problem once, by file and line."""

    def line(problem: Problem) -> tuple[str, int]:
        file, _, number = problem.place.rpartition(":")
        return (file, int(number)) if number.isdigit() else (problem.place, 0)

    # Profiles see the same mistake with other words: what is named, and where, makes it the same one.
    once: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        named = [problem.details.get(word) for word in ("where", "key", "name", "reference", "text")]
        once.setdefault((problem.place, problem.code, *map(str, named)), problem)
    return sorted(once.values(), key=line)


def _lock(draft: _Draft, file: FilePath, digest: str, profile: str | None, seed: int | None, trusted: bool, authorised: tuple[str, ...]) -> Lock:  # fmt: skip
    study = schema.StudyFile.model_validate(draft.data, context=values.AS_WRITTEN)
    return Lock(
        name=study.name,
        question=study.question,
        profile=profile,
        seed=study.seed if seed is None else seed,
        svload_version=__version__,
        study_sha256=digest,
        study_dir=str(file.parent),
        trusted=trusted,
        authorised=authorised,
        factors=draft.factors,
        cases=draft.cases,
        measure=Measure(
            duration_ns=study.measure.duration,
            replicates=study.measure.replicates,
            order=study.measure.order,
            replace_refused=study.measure.replace_refused,
            bring_ups=study.measure.bring_ups,
            awake=study.measure.awake,
        ),
        comparisons=tuple(_comparison(part, draft.factors) for part in study.compare),
        thresholds=tuple(Threshold(that=part.that, when=dict(part.when)) for part in study.thresholds),
        source=draft.data,
    )


def _comparison(part: schema.ComparisonPart, factors: Sequence[Factor]) -> Comparison:
    levels = next(factor.levels for factor in factors if factor.name == part.factor)
    others = ", ".join(level.name for level in levels if level.name != level_name(part.baseline))
    return Comparison(
        name=part.name or f"{part.factor}: {others} against {part.baseline}",
        factor=part.factor,
        baseline=part.baseline,
        metric=canonical_limit(part.metric),
        per=part.per,
        when=part.when,
        by=part.by,
        fail_if=part.fail_if,
    )

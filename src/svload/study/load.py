"""From study.yaml to the lock: read, merge, check everything, and only then make the cases."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from svload import __version__
from svload.model.errors import Problem, SvloadError, fail
from svload.model.study import Case, Comparison, Factor, Lock, Measure, Threshold
from svload.study import schema
from svload.study.check import check_criteria, check_names, check_shape
from svload.study.factors import (
    MAX_CASES,
    Kits,
    changes,
    level_name,
    make_cases,
    read_case_names,
    read_factor,
)
from svload.study.mistakes import Mistake, bad_value, in_our_words, mistakes_of, nearest
from svload.study.references import Vocabulary
from svload.study.resolve import resolve_case
from svload.study.tree import Node, merge, override, plain, read_tree

STUDY_FILE = "study.yaml"


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
) -> Lock:
    """The lock of the study at `path` (a folder, a file, or a packed study's name) under `profile`.

    `overrides` maps dotted keys (`measure.duration`) to values, texts being read as YAML. `kits` maps kit names to their
    options models: with it, kits and options are checked and a factor's cost of change follows the option's.
    Raises SvloadError with every mistake of the study and all its profiles at once, each with `file:line`.
    """
    file = find_study(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as why:
        raise fail("study-syntax", place=str(file), reason=str(why)) from why
    tree, problems = read_tree(text, str(file))
    base, profiles = _split(tree)
    if profile is not None and profile not in profiles:
        raise fail("profile-unknown", place=str(file), name=profile, hint=nearest(profile, profiles))
    wanted = merge(base, profiles[profile]) if profile else base
    for key, value in (overrides or {}).items():
        wanted = override(wanted, key, value)
    draft = _check(wanted, file.parent, kits, strict_names=profile is None and not overrides)
    problems += draft.problems
    for name in (None, *profiles):
        if name != profile or overrides:
            other = merge(base, profiles[name]) if name else base
            problems += _check(other, file.parent, kits, strict_names=name is None).problems
    if problems:
        raise SvloadError(*_in_order(problems))
    return _lock(draft, file, profile, seed, trusted, tuple(authorised))


def study_digest(path: str | FilePath) -> str:
    """SHA-256 of the study's file and of its table of case names: a lock holds it, so that a later edit is noticed."""
    file = find_study(path)
    digest = hashlib.sha256(file.read_bytes())
    named = plain(read_tree(file.read_text(encoding="utf-8"), str(file))[0]).get("case_names")
    if isinstance(named, str) and (file.parent / named).is_file():
        digest.update((file.parent / named).read_bytes())
    return digest.hexdigest()


def _split(tree: Node) -> tuple[Node, dict[str, Node]]:
    """The study without its profiles, and the profiles that are mappings."""
    if not isinstance(tree.value, dict):
        return tree, {}
    raw = tree.value.get("profiles")
    profiles = raw.value if raw is not None and isinstance(raw.value, dict) else {}
    sound = {name: child for name, child in profiles.items() if isinstance(child.value, dict)}
    if raw is None or len(sound) == len(profiles):
        return Node({key: child for key, child in tree.value.items() if key != "profiles" or child.value is None}, tree.place), sound  # fmt: skip
    return tree, sound


@dataclass(frozen=True)
class _Draft:
    """A merged study as plain data with what was made of it."""

    data: dict[str, Any]
    factors: tuple[Factor, ...]
    cases: tuple[Case, ...]
    problems: list[Problem]


def _check(tree: Node, folder: FilePath, kits: Kits | None, strict_names: bool) -> _Draft:
    """Everything that is wrong in one merged study; a mistake is told once, at its deepest place."""
    data = plain(tree)
    if not isinstance(data, dict):
        return _Draft({}, (), (), [bad_value((), "a mapping was expected (key: value)", data).problem(tree)])
    found = _Found(tree)
    found.add(check_shape(data))
    factors, unsure = [], []
    raw_factors = data.get("factors")
    for name, raw in raw_factors.items() if isinstance(raw_factors, dict) else ():
        factor, mistakes = read_factor(name, raw)
        found.add(mistakes)
        factors += [factor] if factor else []
        unsure += [] if factor else [name]
    feeders = data.get("feeders")
    vocabulary = Vocabulary(
        {factor.name: factor for factor in factors},
        frozenset(feeders if isinstance(feeders, dict) else ()),
        frozenset(unsure),
    )
    found.add(check_names(data, vocabulary, kits))
    cases: tuple[Case, ...] = ()
    if not unsure:
        cases, mistakes = _cases(data, factors, folder, strict_names)
        found.add(mistakes)
        for case in cases:
            if case.excluded is None:
                config, mistakes = resolve_case(data, factors, case)
                found.add(mistakes)
                if config is not None:
                    found.add(check_criteria(config.thresholds, data, ("thresholds",)))
                    found.add(check_criteria(config.expects, data, ("factors",)))
                    found.add(_option_mistakes(config.services, kits))
    return _Draft(data, changes(data, factors, kits), cases, found.problems)


class _Found:
    """Mistakes so far: one that stands at, above or below the place of another is the same one seen again."""

    def __init__(self, tree: Node) -> None:
        self.tree = tree
        self.paths: list[tuple[str | int, ...]] = []
        self.problems: list[Problem] = []

    def add(self, mistakes: Any) -> None:
        """Take the new ones of a pass; those of the same pass may stand in one place."""
        fresh = [mistake for mistake in mistakes if mistake.place or not self._known(mistake.path)]
        self.paths += [mistake.path for mistake in fresh if not mistake.place]
        self.problems += [mistake.problem(self.tree) for mistake in fresh]

    def _known(self, path: tuple[str | int, ...]) -> bool:
        return any(path[: len(known)] == known or known[: len(path)] == path for known in self.paths)


def _cases(data: dict[str, Any], factors: Sequence[Factor], folder: FilePath, strict: bool) -> tuple[tuple[Case, ...], list[Mistake]]:  # fmt: skip
    """The cases and what is wrong with their names and exclusions. `strict`: also rows of levels that are not there."""
    count = 1
    for factor in factors:
        count *= len(factor.levels)
    if count > MAX_CASES:
        return (), [bad_value(("factors",), f"at most {MAX_CASES} cases can be planned", count)]
    mistakes: list[Mistake] = []
    names: dict[tuple[str, ...], str] = {}
    valid: dict[str, bool] = {}
    if isinstance(table := data.get("case_names"), str):
        file = (folder / table).resolve()
        if folder.resolve() not in file.parents or not file.is_file():
            mistakes.append(
                bad_value(("case_names",), "a file inside the study's folder was expected", table)
            )
        elif factors:
            names, valid, told = read_case_names(
                file.read_text(encoding="utf-8"), str(folder / table), factors
            )
            mistakes += told if strict else []
    rules = data.get("exclude")
    sound = [rule for rule in (rules if isinstance(rules, list) else []) if _is_rule(rule)]
    cases = make_cases(factors, sound, names)
    for case in cases if strict else ():
        if case.name in valid and valid[case.name] != (case.excluded is None):
            said = "valid, but it is excluded" if valid[case.name] else "not valid, but nothing excludes it"
            mistakes.append(bad_value(("case_names",), f"{case.name} is {said}", table))
    if cases and all(case.excluded is not None for case in cases):
        mistakes.append(bad_value(("exclude",), "no case is left", f"{len(cases)} excluded"))
    return cases, mistakes


def _is_rule(rule: Any) -> bool:
    return (
        isinstance(rule, dict) and isinstance(rule.get("when"), dict) and rule["when"] and "because" in rule
    )


def _option_mistakes(services: Sequence[Any], kits: Kits | None) -> list[Mistake]:
    """Options that a service's kit does not accept, where the kit is known."""
    mistakes: list[Mistake] = []
    for service in services:
        options = (kits or {}).get(service.kit)
        if options is None:
            continue
        try:
            options.model_validate(service.options)
        except ValidationError as why:
            known = {
                field.alias or name: field.description or "" for name, field in options.model_fields.items()
            }
            mistakes += mistakes_of(in_our_words(service.kit, known, why), ("lab", service.name))
    return mistakes


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Each problem once, by file and line."""

    def line(problem: Problem) -> tuple[str, int]:
        file, _, number = problem.place.rpartition(":")
        return (file, int(number)) if number.isdigit() else (problem.place, 0)

    once = {(problem.place, str(problem)): problem for problem in problems}
    return sorted(once.values(), key=line)


def _lock(draft: _Draft, file: FilePath, profile: str | None, seed: int | None, trusted: bool, authorised: tuple[str, ...]) -> Lock:  # fmt: skip
    study = schema.StudyFile.model_validate(draft.data, context=schema.AS_WRITTEN)
    return Lock(
        name=study.name,
        question=study.question,
        profile=profile,
        seed=study.seed if seed is None else seed,
        svload_version=__version__,
        study_sha256=study_digest(file),
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
        ),
        comparisons=tuple(_comparison(part, draft.factors) for part in study.compare),
        thresholds=tuple(
            Threshold(that=part.that, when={key: tuple(levels) for key, levels in part.when.items()})
            for part in study.thresholds
        ),
        source=draft.data,
    )


def _comparison(part: schema.ComparisonPart, factors: Sequence[Factor]) -> Comparison:
    levels = next(factor.levels for factor in factors if factor.name == part.factor)
    others = ", ".join(level.name for level in levels if level.name != level_name(part.baseline))
    return Comparison(
        name=part.name or f"{part.factor}: {others} against {part.baseline}",
        factor=part.factor,
        baseline=part.baseline,
        metric=part.metric,
        per=part.per,
        when=part.when,
        fail_if=part.fail_if,
    )

"""From study.yaml to the lock: read, merge, check everything, then make the cases."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from svload import __version__
from svload.model import bounds
from svload.model.errors import Problem, SvloadError, fail
from svload.model.metrics import Source, canonical_metric
from svload.model.study import Comparison, Factor, Lock, Measure, Threshold
from svload.study import schema, values
from svload.study.beside import file_beside
from svload.study.check import acting, owners_of
from svload.study.draft import CheckCase, CheckLab, Checks, Draft, Measures
from svload.study.factors import Kits, level_name
from svload.study.mistakes import bad_value, nearest, unknown_key
from svload.study.monitored import Known, none_known
from svload.study.order import control_level
from svload.study.references import unescaped
from svload.study.repair import repaired
from svload.study.sets import read_sets, set_files
from svload.study.tree import Node, merge, override, place_of, plain, read_tree, section_of

STUDY_FILE = "study.yaml"
_SCRIPTS = {".js": "a k6 script", ".ts": "a k6 script", ".py": "a Python script", ".jmx": "a JMeter plan"}
"""Endings of files that other load testers run → what they are."""


def find_study(name_or_path: str | FilePath) -> FilePath:
    """Return the study file for a path, or for the name of a packed study (`001-svload`). Raises SvloadError
    study-not-found, study-linked."""
    path = FilePath(name_or_path)
    if path.is_dir() and (path / STUDY_FILE).is_file():
        return _in_its_folder(path / STUDY_FILE)
    if path.is_file():
        return _in_its_folder(path)
    name = str(name_or_path)
    if name and "/" not in name and not name.startswith("."):
        from importlib.resources import files

        packed = FilePath(str(files("svload._studies"))) / name / STUDY_FILE
        if packed.is_file():
            return packed
    raise fail("study-not-found", path=name_or_path)


def _in_its_folder(file: FilePath) -> FilePath:
    """Raise SvloadError study-linked for a link out of its folder: nobody chose to show that file."""
    if file.is_symlink() and file.parent.resolve() not in file.resolve().parents:
        raise fail("study-linked", path=file, target=file.resolve())
    return file


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
    monitored: Known = none_known,
) -> Lock:
    """Return the lock of the study at `path` (a folder, a file, or a packed study's name) under `profile`.

    `overrides` maps dotted keys (`measure.duration`) to values; texts are read as YAML. `kits` maps kit names
    to their options models: with it kits are checked, and what a change requires follows the option's
    `change`. `check_lab` finds what is wrong with a lab's services (svload.lab.find_mistakes), `measures`
    returns the metrics that each reports itself: this package knows no kit. `monitored` returns the names of
    monitors' metrics for a service (svload.watch.monitored_names); without it criteria may use none.
    `check_case` finds what the engine would reject (svload.drive.refusals.CaseChecks). Raises SvloadError
    with every mistake of the study and all its profiles, each with `file:line`.
    """
    file = find_study(path)
    if script := _SCRIPTS.get(file.suffix):
        hint = "Write its requests and its load as a study: see docs/study-file.md."
        raise fail("usage", reason=f"{file} is {script}, not a study", hint=hint)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as why:
        line = 1 + why.object.count(b"\n", 0, why.start)
        raise fail("study-syntax", place=f"{file}:{line}", reason="it is not UTF-8 text") from why
    except OSError as why:
        raise fail("study-syntax", place=str(file), reason=str(why)) from why
    tree, problems = read_tree(text, str(file))
    digest = _digest(file, plain(tree))
    base, profiles = _split(tree, problems)
    base = read_sets(base, file.parent, problems)
    profiles = {name: read_sets(part, file.parent, problems) for name, part in profiles.items()}
    if len(profiles) > bounds.PROFILES.most:
        raise SvloadError(bad_value(("profiles",), bounds.PROFILES.text, len(profiles)).problem(tree))
    if profile is not None and profile not in profiles:
        details: dict[str, object] = {"name": profile, "hint": nearest(profile, profiles)}
        problems.append(Problem("profile-unknown", details, base.place))
        profile = None
    variants = {None: base} | {name: merge(base, part) for name, part in profiles.items()}
    wanted = variants[profile]
    for key, value in (overrides or {}).items():
        wanted = override(wanted, key, value)
    acts = frozenset(place_of(one, path) for one in variants.values() for path in acting(plain(one)))
    checks = Checks(file.parent, kits, check_lab, check_case, measures, monitored, acts)
    draft = checks.run(wanted, whole=profile is None and not overrides, chosen=True)
    problems += draft.problems
    for name, other in variants.items():
        if name != profile or overrides:
            problems += checks.run(other, whole=name is None, chosen=False).problems
    if problems:
        raise SvloadError(*_in_order(problems))
    return _lock(draft, file, digest, profile, seed, trusted, tuple(authorised))


def study_digest(path: str | FilePath) -> str:
    """Return the SHA-256 of the study's file, its table of case names and its parameter sets: a lock holds
    it, so that later edits are noticed."""
    file = find_study(path)
    return _digest(file, plain(read_tree(file.read_text(encoding="utf-8"), str(file))[0]))


def _digest(file: FilePath, data: Any) -> str:
    digest = hashlib.sha256(file.read_bytes())
    named = data.get("case_names") if isinstance(data, dict) else None
    if isinstance(named, str) and (table := file_beside(file.parent, named)):
        digest.update(table.read_bytes())
    for part in (data, *section_of(data, "profiles").values()):
        for one in set_files(part, file.parent):
            digest.update(one.read_bytes())
    return digest.hexdigest()


def _split(tree: Node, problems: list[Problem]) -> tuple[Node, dict[str, Node]]:
    """Return the study without profiles, and these; reports and corrects misspelt sections of either."""
    base = _fix_sections(tree, SECTIONS, problems)
    if not isinstance(base.value, dict) or "profiles" not in base.value:
        return base, {}
    raw = base.value["profiles"].value
    named = raw if isinstance(raw, dict) else {}
    known = [section for section in SECTIONS if section != "profiles"]
    profiles = {
        name: _fix_sections(child, known, problems)
        for name, child in named.items()
        if isinstance(child.value, dict)
    }
    if raw is not None and (not isinstance(raw, dict) or len(profiles) < len(raw)):
        return base, profiles  # the schema reports what is not a mapping
    return Node({key: child for key, child in base.value.items() if key != "profiles"}, base.place), profiles


SECTIONS = tuple(field.alias or name for name, field in schema.StudyFile.model_fields.items())


def _fix_sections(tree: Node, known: Sequence[str], problems: list[Problem]) -> Node:
    """Return `tree` with misspelt sections renamed; a profile loses sections allowed only in a study."""
    strangers = [key for key in tree.value if key not in known] if isinstance(tree.value, dict) else []
    # `profiles` within a profile is not a misspelt `profile`.
    words = {
        key: known if key not in SECTIONS else [word for word in known if word not in key]
        for key in strangers
    }
    mistakes = [unknown_key((key,), words[key]) for key in strangers]
    mistakes_words = [mistake for mistake in mistakes if mistake.meant or mistake.path[0] in SECTIONS]
    problems += [mistake.problem(tree) for mistake in mistakes_words]
    tree = repaired(tree, mistakes_words)
    if isinstance(tree.value, dict) and (surplus := set(SECTIONS) - set(known)):
        tree = Node({key: child for key, child in tree.value.items() if key not in surplus}, tree.place)
    return tree


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Return each problem once, by file and line."""

    def line(problem: Problem) -> tuple[str, int]:
        file, _, number = problem.place.rpartition(":")
        return (file, int(number)) if number.isdigit() else (problem.place, 0)

    # Profiles report the same mistake in other words: its place and the name in it identify it.
    once: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        named = [problem.details.get(word) for word in ("where", "key", "name", "reference", "text")]
        once.setdefault((problem.place, problem.code, *map(str, named)), problem)
    return sorted(once.values(), key=line)


def _lock(draft: Draft, file: FilePath, digest: str, profile: str | None, seed: int | None, trusted: bool, authorised: tuple[str, ...]) -> Lock:  # fmt: skip
    study = schema.StudyFile.model_validate(draft.data, context=values.AS_WRITTEN)
    return Lock(
        name=study.name,
        question=unescaped(study.question),
        profile=profile,
        seed=study.seed if seed is None else seed,
        svload_version=__version__,
        study_sha256=digest,
        study_dir=str(file.parent),
        trusted=trusted,
        authorised=authorised,
        factors=draft.factors,
        cases=draft.cases,
        measure=_most(draft.measures),
        comparisons=tuple(
            _comparisons(study.compare, draft.factors, owners_of(draft.data), study.measure.control)
        ),
        thresholds=tuple(Threshold(that=part.that, when=dict(part.when)) for part in study.thresholds),
        source=draft.data,
    )


def _most(measures: Sequence[Measure]) -> Measure:
    """Return the study's measure: if cases differ, the largest values of any."""
    keys = ("duration_ns", "replicates", "awake")
    return measures[0].model_copy(update={key: max(getattr(one, key) for one in measures) for key in keys})


def _own_name(part: schema.ComparisonPart, factors: Sequence[Factor], control: bool) -> str:
    """Return a comparison's name; with several levels each claim appends its own."""
    levels = next(factor.levels for factor in factors if factor.name == part.factor)
    baseline = level_name(part.baseline)
    baselines = (baseline, control_level(baseline)) if control else (baseline,)
    others = [level.name for level in levels if level.name not in baselines]
    if len(others) == 1:
        return f"{part.factor}: {others[0]} against {part.baseline}"
    return f"{part.factor} against {part.baseline}"


def _comparisons(
    parts: Sequence[schema.ComparisonPart],
    factors: Sequence[Factor],
    owners: dict[str, Source],
    control: bool,
) -> Iterator[Comparison]:
    """Return the comparisons, each with a name of its own: their claims, and the blocks that these need, are
    found by it. Names made here that would be alike get the metric and `when`, else a number."""
    made = [unescaped(part.name) or _own_name(part, factors, control) for part in parts]
    names: list[str] = []
    for part, name in zip(parts, made, strict=True):
        if part.name is None and made.count(name) > 1:
            when = (f"{factor}: {level}" for factor, level in part.when.items())
            name = ", ".join((name, part.metric, *when))
        names.append(name)
        again = f" ({names.count(name)})" if name in names[:-1] else ""
        yield Comparison(
            **part.model_dump() | {"name": name + again, "metric": canonical_metric(part.metric, owners)}
        )

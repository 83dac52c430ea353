"""A merged study as a draft: all its mistakes, found before anything runs, and its cases."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

from svload.model import bounds
from svload.model.errors import Problem
from svload.model.study import Case, CaseConfig, Factor, Measure, ServiceSpec
from svload.model.traffic import Request
from svload.study.beside import NO_FILE, file_beside, text_beside
from svload.study.check import (
    check_case_criteria,
    check_faulted,
    check_given,
    check_names,
    check_shape,
    uncompared,
    without_comparison,
)
from svload.study.comparisons import mixed_loads
from svload.study.config import sound_part
from svload.study.factors import Kits, changes, make_cases, read_case_names, read_factor
from svload.study.faults import fault_mistakes
from svload.study.feeders import feeder_columns, file_mistakes
from svload.study.k6_thresholds import in_our_criteria
from svload.study.mistakes import Mistake, bad_value, shortened
from svload.study.monitored import Known
from svload.study.references import Vocabulary, references_in, strings_in, values_in
from svload.study.repair import repaired
from svload.study.sets import network_mistakes
from svload.study.steps import INLINE, variables
from svload.study.tree import Node, Path, kit_of, mappings_of, place_of, plain, section_of, value_at
from svload.study.turns import side_mistakes, with_control

CheckLab = Callable[[Sequence[ServiceSpec]], Sequence[Mistake]]
"""Services → what is wrong with them, at paths that begin with `lab`."""
CheckCase = Callable[[CaseConfig, int, FilePath], Iterable[Mistake]]
"""A case, its measured time in ns and the study's folder → what the engine would reject in it."""
Measures = Callable[[Sequence[ServiceSpec]], Mapping[str, frozenset[str] | None]]
"""Services → the metrics that each can give; None: not known."""


_NAMED = ("lab", "factors", "feeders", "requests", "scenarios")
"""Sections whose entries are named by other parts of a study."""
_LONGEST = f"{bounds.TIME_S.most}s"
"""Used for a broken measured time: nothing is reported as lasting longer."""


@dataclass(frozen=True)
class Draft:
    """A merged study as plain data, with its factors, cases and problems."""

    data: dict[str, Any]
    factors: tuple[Factor, ...]
    cases: tuple[Case, ...]
    problems: list[Problem]
    measures: tuple[Measure, ...] = ()
    """Of each valid case, if there are no mistakes."""


class Found:
    """Mistakes so far: one at, above or below the place of another is the same mistake found again."""

    def __init__(self, tree: Node) -> None:
        self.tree = tree
        self.paths: list[Path] = []
        self.problems: list[Problem] = []

    @property
    def full(self) -> bool:
        """Return whether the largest reported number of mistakes has been found."""
        return len(self.paths) >= bounds.REPORTED.most

    def add(self, mistakes: Iterable[Mistake]) -> None:
        """Add the new mistakes of a pass (several may be in one place); continue with the corrected study."""
        left = bounds.REPORTED.most - len(self.paths)
        fresh = list(islice((mistake for mistake in mistakes if not self._known(mistake.path)), max(left, 0)))
        self.paths += [mistake.path for mistake in fresh]
        self.problems += [mistake.problem(self.tree) for mistake in fresh]
        self.tree = repaired(self.tree, fresh)

    def at(self, section: str) -> bool:
        """Return whether there is a mistake in that section."""
        return any(path[:1] == (section,) for path in self.paths)

    @property
    def at_load(self) -> bool:
        """Return whether there is a mistake that may change the load."""
        return any(path[:1] not in (("thresholds",), ("compare",), ("abort_if",)) for path in self.paths)

    def _known(self, path: Path) -> bool:
        return any(path[: len(known)] == known or known[: len(path)] == path for known in self.paths)


@dataclass
class Checks:
    """Finds all mistakes in one merged study."""

    folder: FilePath
    kits: Kits | None
    check_lab: CheckLab | None
    check_case: CheckCase | None
    measures: Measures | None
    monitored: Known
    acting: frozenset[str] = frozenset()
    """places of `until` and `at_most` that have an effect in the study or one of its profiles"""
    work: int = 0
    """number of values put into cases so far, for the study and its profiles"""

    def run(self, tree: Node, whole: bool, chosen: bool) -> Draft:
        """Return the draft of a study; `whole`: neither profile nor override has removed anything.

        `chosen`: this one will be run, so its kits must exist here; another profile may use kits of another
        machine.
        """
        tree, of_k6 = in_our_criteria(tree)
        data = plain(tree)
        if not isinstance(data, dict):
            return Draft({}, (), (), [bad_value((), "expected a mapping (key: value)", data).problem(tree)])
        found = Found(tree)
        found.add(of_k6)
        found.add(check_shape(data))
        if any((section,) in found.paths for section in _NAMED):
            return Draft(data, (), (), found.problems)  # what names their entries is no further mistake
        read = [
            (name, *read_factor(name, raw)) for name, raw in section_of(plain(found.tree), "factors").items()
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
            frozenset(section_of(data, "lab")),
        )
        found.add(file_mistakes(data, self.folder))
        found.add(check_names(data, vocabulary, self.kits if chosen else None, self.monitored))
        found.add(self._lab_as_written(plain(found.tree), chosen))
        data = plain(found.tree)
        cases: tuple[Case, ...] = ()
        measures: tuple[Measure, ...] = ()
        if all(factor for _, factor, _ in read):
            factors = [
                factor
                for name, raw in section_of(data, "factors").items()
                if (factor := read_factor(name, raw)[0])
            ]
            factors = with_control(data, factors)
            too_much = self._too_much(data, factors)
            cases, mistakes = ((), [too_much]) if too_much else cases_of(data, factors, self.folder, whole)
            sound = data if not found.at("measure") else data | {"measure": {"duration": _LONGEST}}
            measures = self._each_case(sound, factors, cases, found, chosen)
            found.add(mistakes)
            found.add(uncompared(data, cases))
            if not found.at("compare"):
                found.add(without_comparison(data, lambda path: place_of(found.tree, path) in self.acting))
        return Draft(data, changes(data, factors, self.kits), cases, found.problems, measures)

    def _too_much(self, data: dict[str, Any], factors: Sequence[Factor]) -> Mistake | None:
        """Report more cases, or values in all cases of study and profiles, than a plan processes in time."""
        count = math.prod(len(factor.levels) for factor in factors)
        if count > bounds.CASES.most:
            return bad_value(("factors",), bounds.CASES.text, f"{count:,}")
        values = values_in({key: part for key, part in data.items() if key != "factors"})
        mine = count * (values + bounds.VALUES_OF_A_CASE)
        self.work += mine
        if self.work <= bounds.WORK.most or count <= 1:
            return None
        before = f" after {self.work - mine:,} in its other profiles" if self.work > mine else ""
        return bad_value(("factors",), bounds.WORK.text, f"{values:,} values × {count:,} cases{before}")

    def _each_case(
        self,
        data: dict[str, Any],
        factors: Sequence[Factor],
        cases: Sequence[Case],
        found: Found,
        chosen: bool,
    ) -> tuple[Measure, ...]:
        """Report what only shows when a case's levels are resolved, with open factors at either end; collect
        how each case is measured."""
        labs: set[str] = set()
        configs: dict[str, CaseConfig] = {}
        ranges = {factor.name: factor.open for factor in factors if factor.open is not None}
        ends = [{name: both[end] for name, both in ranges.items()} for end in ((0, 1) if ranges else (0,))]
        for case, point in ((case, point) for case in cases for point in ends):
            if case.excluded is not None:
                continue
            config, mistakes = sound_part(data, factors, case, point)
            found.add(mistakes)
            if config is None:
                continue
            if not mistakes:
                configs[case.name] = config
            found.add(_body_mistakes(config, self.folder))
            found.add(file_mistakes(_tables_of(config), self.folder))
            found.add(_scheme_mistakes(config))
            found.add(check_case_criteria(config, data, self.monitored))
            if found.full:
                return ()
            if len(config.services) < len(section_of(data, "lab")):
                continue  # a missing service would be reported as an unknown name
            found.add(network_mistakes(config.sysctl, config.services))
            if not found.at("faults"):
                found.add(fault_mistakes(config, self.kits if chosen else None))
                found.add(check_faulted(config, data))
            if (lab := repr(config.services)) not in labs:
                labs.add(lab)
                found.add(_at_its_set(self._lab_mistakes(config.services, chosen), config, data))
            if self.measures is not None:
                given = self.measures(config.services)
                found.add(check_given(config, given, data))
            if chosen and self.check_case is not None and not mistakes and not found.at_load:
                found.add(self.check_case(config, config.measure.duration_ns, self.folder))
        found.add(mixed_loads(data, cases, configs))
        found.add(side_mistakes(data, cases, configs))
        measures = tuple(config.measure for config in configs.values())
        if (trials := sum(measure.replicates for measure in measures)) > bounds.TRIALS.most:
            found.add([bad_value(("measure", "replicates"), bounds.TRIALS.text, f"{trials:,}")])
        return measures

    def _lab_as_written(self, data: dict[str, Any], chosen: bool) -> Iterable[Mistake]:
        """Report what is wrong with services whatever their `${…}` stand for: together with other mistakes,
        not only once cases resolve."""
        specs = [_as_written(name, service) for name, service in section_of(data, "lab").items()]
        for mistake in self._lab_mistakes(specs, chosen):
            texts = [text for _, text in strings_in(value_at(data, mistake.path), ())]
            if not any(list(references_in(text)) for text in texts):
                yield mistake

    def _lab_mistakes(self, specs: Sequence[ServiceSpec], chosen: bool) -> Iterable[Mistake]:
        """Report what the lab's check finds; kits of a profile that is not run may be another machine's."""
        if self.check_lab is None:
            return
        for mistake in self.check_lab(specs):
            if chosen or mistake.details.get("kind") != "kit":
                yield mistake


def _at_its_set(
    mistakes: Iterable[Mistake], config: CaseConfig, data: Mapping[str, Any]
) -> Iterator[Mistake]:
    """Report what the case's parameter set puts into a service at the set."""
    part = section_of(section_of(data, "sets"), config.set_name)
    for mistake in mistakes:
        if value_at(part, mistake.path) is None:
            yield mistake
            continue
        details = mistake.details | {"where": f"sets.{config.set_name}.{mistake.details.get('where', '')}"}
        yield replace(mistake, path=("sets", config.set_name, *mistake.path), details=details)


def _as_written(name: str, service: Any) -> ServiceSpec:
    """Return a service before its references are resolved; one that names no kit is reported elsewhere, and
    others may need it."""
    written = service if isinstance(service, dict) else {}
    options = {key: value for key, value in written.items() if key != "kit"}
    return ServiceSpec(name=name, kit=kit_of(written) or "", options=options)


def _tables_of(config: CaseConfig) -> dict[str, Any]:
    """Return the files that a case's feeders read, as paths in the study."""
    tables = {table.name: {"csv": table.csv, "parquet": table.parquet} for table in config.tables}
    return {"feeders": {feeder.name: tables.get(feeder.table) for feeder in config.feeders}}


def _scheme_mistakes(config: CaseConfig) -> Iterable[Mistake]:
    """Report running servers that are requested with another scheme than declared, and names that several
    servers have."""
    speaks = {
        service.name: str(service.options["at"]).partition("://")[0].lower()
        for service in config.services
        if "://" in str(service.options.get("at", ""))
    }
    many = {
        service.name: count
        for service in config.services
        if isinstance(count := service.options.get("replicas"), int)
    }
    for path, request in _asked(config):
        if request.url is not None:
            continue
        scheme, name = request.scheme, request.host
        if many.get(name, 1) > 1:
            reason = f"{name} has {many[name]} replicas, and a connection goes to one of them"
            hint = f"Put a server in front of them that distributes requests: {{kit: nginx, of: {name}}}."
            yield bad_value(path, reason, request.endpoint, hint)
        if speaks.get(name, scheme) != scheme:
            protocol = shortened(speaks[name])
            reason = f"{name} is at an address of {protocol}"
            yield bad_value(path, reason, request.endpoint, f"Write {protocol}://{name}.")


def _body_mistakes(config: CaseConfig, folder: FilePath) -> Iterable[Mistake]:
    """Report bodies from files that are missing, or outside the study's folder."""
    for path, request in _asked(config):
        body = request.body
        if body is not None and body.file is not None and file_beside(folder, body.file) is None:
            at: Path = ("requests", request.name) if request.name != INLINE else path
            yield bad_value((*at, "body"), NO_FILE[0], body.file, NO_FILE[1])


def _asked(config: CaseConfig) -> Iterator[tuple[Path, Request]]:
    """Return all requests of a case, each with the group or the entry under setup that makes it."""
    for group in config.all_groups:
        yield from ((("traffic", group.name), request) for request in group.requests)
    yield from ((("setup", place), part.request) for place, part in enumerate(config.set_up))


def cases_of(
    data: dict[str, Any], factors: Sequence[Factor], folder: FilePath, strict: bool
) -> tuple[tuple[Case, ...], list[Mistake]]:
    """Return the cases and mistakes in their names and exclusions. `strict`: also rows of unknown levels."""
    mistakes: list[Mistake] = []
    names: dict[tuple[str, ...], str] = {}
    valid: dict[str, bool] = {}
    if isinstance(table := data.get("case_names"), str):
        file = file_beside(folder, table)
        if file is None:
            mistakes.append(bad_value(("case_names",), NO_FILE[0], table, NO_FILE[1]))
        elif closed := [factor for factor in factors if factor.open is None]:
            try:
                text = text_beside(file, bounds.TABLE_BYTES.most)
                names, valid, faults = read_case_names(text, str(folder / table), closed)
                mistakes += faults if strict else []
            except (OSError, ValueError, csv.Error) as why:
                mistakes.append(bad_value(("case_names",), f"expected a table of cases ({why})", table))
    rules = [
        rule for _, rule in mappings_of(data, "exclude") if section_of(rule, "when") and "because" in rule
    ]
    cases = make_cases(factors, rules, names, str(data.get("name", "")))
    for case in cases if strict else ():
        if case.name in valid and valid[case.name] != (case.excluded is None):
            state = "valid, but it is excluded" if valid[case.name] else "not valid, but nothing excludes it"
            mistakes.append(bad_value(("case_names",), f"{case.name} is {state}", table))
    replicates = section_of(data, "measure").get("replicates")
    valid_cases = sum(case.excluded is None for case in cases)
    if isinstance(replicates, int) and valid_cases * replicates > bounds.TRIALS.most:
        asked = f"{valid_cases} × {replicates}"
        mistakes.append(bad_value(("measure", "replicates"), bounds.TRIALS.text, asked))
    if cases and all(case.excluded is not None for case in cases):
        mistakes.append(bad_value(("exclude",), "no case is left", f"{len(cases)} excluded"))
    return cases, mistakes

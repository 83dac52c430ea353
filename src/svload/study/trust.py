"""What in a study runs code that is not svload's own, or acts outside its lab."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from svload.model.errors import Problem, SvloadError, fail
from svload.model.study import CaseConfig, Lock, ServiceSpec
from svload.model.traffic import Request
from svload.study.check import check_shape
from svload.study.config import resolve
from svload.study.programs import CODE_FOLDERS
from svload.study.tree import Node, read_tree

if TYPE_CHECKING:
    from svload.study.draft import Checks, Draft

OfServices = Callable[[Sequence[ServiceSpec], Sequence[Request]], Sequence[str]]
"""Services and the requests of a case → which need trust (svload.lab.asks_trust): we know no kit here."""


def needs_trust(
    lock: Lock, of_services: OfServices, configs: Iterable[CaseConfig] | None = None
) -> list[str]:
    """Return what may act outside the lab or read the user's own data: options as each case resolves them
    (`lab.app.run: …`), requests that write to servers that svload did not start, the code in the study's
    folder, and variables with its secrets.

    `configs` are those of the valid cases, if they are known already.
    """
    found: list[str] = []
    labs: set[str] = set()
    for config in configs if configs is not None else (resolve(lock, case) for case in lock.valid_cases):
        requests = requests_of(config)
        if (lab := repr((config.services, requests))) not in labs:
            labs.add(lab)
            found += of_services(config.services, requests)
        found += [
            f"{name.replace('secret.', 'secrets.', 1)}: the variable {variable}, or the file that {variable}_FILE names"
            for name, variable in config.secrets.items()
        ]
    folder = Path(lock.study_dir)
    for kind in CODE_FOLDERS:
        found += [str(path) for path in sorted((folder / kind).glob("*.py"))]
    return list(dict.fromkeys(found))


def reads_here(lock: Lock) -> list[str]:
    """Return what a lock would read from this machine besides what every study is checked for: files below
    the folder that it names.

    A study's own file cannot leave its folder; a lock made elsewhere may name any folder.
    """
    return list(
        dict.fromkeys(one for case in lock.valid_cases for one in _read_by(resolve(lock, case), lock))
    )


def _read_by(config: CaseConfig, lock: Lock) -> Iterator[str]:
    yield from (f"the file {file}" for table in config.tables if (file := table.csv or table.parquet))
    for request in requests_of(config):
        if request.body is not None and request.body.file is not None:
            yield f"the file {request.body.file}"
    for service in config.services:
        if name := service.options.get("ca_file"):
            yield f"the file {Path(lock.study_dir) / str(name)}"


def requests_of(config: CaseConfig) -> list[Request]:
    """Return all requests of a case: of its load, of what populates before it, and of its set-up."""
    found = [request for group in config.all_groups for request in group.requests]
    return [*found, *(part.request for part in config.set_up)]


def must_be_sound(lock: Lock, place: str, checks: Checks) -> None:
    """Check that a lock made elsewhere passes every check of a study, and matches its study.

    Raises SvloadError run-damaged.
    """
    for mistake in check_shape(lock.source):
        raise _unsound(place, mistake.problem(Node(None, place)))
    tree, problems = read_tree(json.dumps(lock.source), place)
    checks = replace(checks, acting=frozenset({place}))  # what has no effect in it may have one in the study
    draft = checks.run(tree, whole=lock.profile is None, chosen=True) if not problems else None
    for problem in draft.problems if draft else problems:
        raise _unsound(place, problem)
    if draft is not None and not _is_of(lock, draft):
        raise fail("run-damaged", path=place, reason="its factors and cases are not those of its study")


def _unsound(place: str, problem: Problem) -> SvloadError:
    return fail("run-damaged", path=place, reason=problem.sentence.rstrip("."))


def _is_of(lock: Lock, draft: Draft) -> bool:
    """Return whether its factors are the study's, and each case is one of these, with its name and levels."""
    levels = {case.name: case.levels for case in draft.cases}
    written, meant = ([(one.name, one.levels, one.open) for one in of.factors] for of in (lock, draft))
    return written == meant and all(levels.get(case.name) == case.levels for case in lock.cases)

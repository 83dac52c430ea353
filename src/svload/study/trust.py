"""What of a study runs code that is not svload's own, or reaches beyond its lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from svload.model.errors import SvloadError, fail
from svload.model.study import CaseConfig, Lock, ServiceSpec
from svload.study.check import check_shape
from svload.study.config import resolve
from svload.study.tree import Node

CODE_FOLDERS = ("kits", "monitors", "checks", "reporters")
OfServices = Callable[[Sequence[ServiceSpec]], Sequence[str]]
"""Services → what of their options needs trust (svload.lab.asks_trust): this room knows no kit."""


def needs_trust(
    lock: Lock, of_services: OfServices, configs: Iterable[CaseConfig] | None = None
) -> list[str]:
    """What may act outside the lab: options as each case resolves them (`lab.app.run: …`), and
    the code in the study's folder.

    `configs` are the valid cases', where they are known already.
    """
    found: list[str] = []
    labs: set[str] = set()
    for config in configs if configs is not None else (resolve(lock, case) for case in lock.valid_cases):
        if (lab := repr(config.services)) not in labs:
            labs.add(lab)
            found += of_services(config.services)
    folder = Path(lock.study_dir)
    for kind in CODE_FOLDERS:
        found += [str(path) for path in sorted((folder / kind).glob("*.py"))]
    return list(dict.fromkeys(found))


def reads_here(lock: Lock) -> list[str]:
    """What a lock would take from this machine: files below the folder that it names, and
    variables that hold its secrets.

    A study's own file cannot leave its folder; a lock that was made elsewhere names any folder.
    """
    return list(
        dict.fromkeys(one for case in lock.valid_cases for one in _read_by(resolve(lock, case), lock))
    )


def _read_by(config: CaseConfig, lock: Lock) -> Iterator[str]:
    yield from (f"the file {file}" for table in config.tables if (file := table.csv or table.parquet))
    requests = [request for group in config.all_groups for request in group.requests]
    for request in (*requests, *(part.request for part in config.set_up)):
        if request.body is not None and request.body.file is not None:
            yield f"the file {request.body.file}"
    for service in config.services:
        if name := service.options.get("ca_file"):
            yield f"the file {Path(lock.study_dir) / str(name)}"
    yield from (f"the variable {variable}" for variable in config.secrets.values())


def must_be_sound(lock: Lock, place: str) -> None:
    """What a lock holds is what a study file may hold: names, above all, that name no folder.
    Raises SvloadError run-damaged."""
    for mistake in check_shape(lock.source):
        problem = mistake.problem(Node(None, place))
        raise SvloadError(*fail("run-damaged", path=place, reason=problem.sentence.rstrip(".")).problems)

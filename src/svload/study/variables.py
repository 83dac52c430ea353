"""What is wrong with the variables that requests take and use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from svload.model.traffic import Group, Request, SetUp, TakenPart
from svload.study.mistakes import Mistake, bad_value
from svload.study.references import COLUMNS
from svload.study.tree import Path


def unknown_to(request: Request, known: Collection[str], path: Path) -> Iterator[Mistake]:
    """Variables that a request uses before they are taken."""
    for part in request.parts:
        if isinstance(part, TakenPart) and part.taken not in {*known, *request.takes_under_way}:
            told = f"{request.name} uses ${{{part.taken}}}, which no earlier step nor setup takes"
            yield bad_value(path, told, part.taken, "Take it in a step before, or under setup.")


def secret_in_address(request: Request, secrets: Collection[str], path: Path) -> Iterator[Mistake]:
    """An address is what tables, logs and errors name, here and at the server."""
    for part in (*request.path, *(request.url or ())):
        if isinstance(part, TakenPart) and part.taken in secrets:
            told = f"{request.name} has ${{{part.taken}}} in its address, which logs and tables name"
            yield bad_value(path, told, part.taken, "Send it in a header or in the body.")


def taken_twice(request: Request, known: Collection[str], path: Path) -> Iterator[Mistake]:
    for name in request.takes:
        if name in known:
            yield bad_value(path, "setup takes this variable already", name, "Take another name.")


def written_apart(group: Group, path: Path) -> Iterator[Mistake]:
    """Written objects are rows in one generator's memory."""
    if group.generators > 1 and any(request.written for request in group.requests):
        told = "one generator was expected: what it has written is known to it alone"
        yield bad_value((*path, "generators"), told, group.generators, "Leave it out.")


def untaken(group: Group, path: Path, set_up: Sequence[SetUp], secrets: Collection[str]) -> Iterator[Mistake]:
    """What is wrong with a group's variables."""
    before = {name: part.once for part in set_up for name in part.request.takes}
    for request in group.requests:
        yield from secret_in_address(request, secrets, path)
    chains = [scenario.steps for scenario in group.scenarios] or [group.steps]
    for steps in chains:
        known = {*before, *secrets}
        sets = {request.written for request in group.requests if request.written}
        known |= {f"{name}.{column}" for name in sets for column in COLUMNS}
        for step in steps:
            yield from unknown_to(step.request, known, path)
            yield from taken_twice(step.request, before, path)
            known |= set(step.request.takes)
    used = {part.taken for request in group.requests for part in request.parts if isinstance(part, TakenPart)}
    of_vu = sorted(name for name in used if before.get(name) == "vu")
    if of_vu and group.executor.model == "open loop":
        told = f"${{{of_vu[0]}}} is taken once a VU, and an open loop has no VUs"
        yield bad_value(path, told, group.executor.kind, "Write once: trial, or take a closed executor.")

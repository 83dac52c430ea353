"""Mistakes in the variables that requests take and use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from svload.model.traffic import Group, Request, SetUp, TakenPart
from svload.study.mistakes import Mistake, bad_value
from svload.study.references import COLUMNS
from svload.study.tree import Path, section_of


def unknown_to(request: Request, known: Collection[str], path: Path) -> Iterator[Mistake]:
    """Return variables that a request uses before they are taken."""
    for part in request.parts:
        if isinstance(part, TakenPart) and part.taken not in {*known, *request.takes_under_way}:
            reason = f"{request.name} uses ${{{part.taken}}}, which no earlier step nor setup takes"
            yield bad_value(path, reason, part.taken, "Take it in an earlier step, or under setup.")


def secret_in_address(request: Request, secrets: Collection[str], path: Path) -> Iterator[Mistake]:
    """Report secrets in an address: tables, logs and errors name it, here and at the server."""
    for part in (*request.path, *(request.url or ())):
        if isinstance(part, TakenPart) and part.taken in secrets:
            reason = f"{request.name} has ${{{part.taken}}} in its address, which logs and tables name"
            yield bad_value(path, reason, part.taken, "Send it in a header or in the body.")


def taken_twice(request: Request, known: Collection[str], path: Path) -> Iterator[Mistake]:
    for name in request.takes:
        if name in known:
            yield bad_value(path, "setup takes this variable already", name, "Take another name.")


def written_apart(group: Group, path: Path) -> Iterator[Mistake]:
    """Report written objects in several generators: their rows are in one generator's memory."""
    if group.generators > 1 and any(request.written for request in group.requests):
        reason = "expected one generator: only the generator that wrote the objects knows them"
        yield bad_value((*path, "generators"), reason, group.generators, "Leave it out.")


def untaken(group: Group, path: Path, set_up: Sequence[SetUp], secrets: Collection[str]) -> Iterator[Mistake]:
    """Return what is wrong with a group's variables."""
    before = {name: part.once for part in set_up for name in part.request.takes}
    for request in group.requests:
        yield from secret_in_address(request, secrets, path)
    chains = [scenario.steps for scenario in group.scenarios] or [group.steps]
    for steps in chains:
        known = {*before, *secrets}
        sets = {request.written for request in group.requests if request.written}
        known |= {f"{name}.{column}" for name in sets for column in COLUMNS}
        held: set[str] = set()
        for step in steps:
            yield from unknown_to(step.request, known, path)
            yield from taken_twice(step.request, before, path)
            yield from of_itself(step.request, held, path)
            if step.request.written is not None:
                held = held | {step.request.written} if not step.request.removes else set()
            known |= set(step.request.takes)
    used = {part.taken for request in group.requests for part in request.parts if isinstance(part, TakenPart)}
    of_vu = sorted(name for name in used if before.get(name) == "vu")
    if of_vu and group.executor.model == "open loop":
        reason = f"${{{of_vu[0]}}} is taken once a VU, and an open loop has no VUs"
        yield bad_value(path, reason, group.executor.kind, "Write once: trial, or take a closed executor.")


def of_itself(request: Request, held: Collection[str], path: Path) -> Iterator[Mistake]:
    """Report columns of what a request is about to upload in what it sends: that row does not exist yet. A
    row that an earlier step of its scenario holds (`held`) is another one."""
    if request.adds is None or request.adds in held:
        return
    own = {f"{request.adds}.{column}" for column in COLUMNS}
    sent = [*request.path, *(request.url or ()), *(part for _, value in request.headers for part in value)]
    sent += (request.body and request.body.text) or ()
    for part in sent:
        if isinstance(part, TakenPart) and part.taken in own:
            reason = f"{request.name} adds to {request.adds} and names ${{{part.taken}}} in what it sends"
            hint = "Name it in its checks, or in a later step; ${request.id} makes a new name."
            yield bad_value(path, reason, part.taken, hint)


def gone_later(
    source: Mapping[str, Any], groups: Sequence[Group], restarted: Collection[str], replicates: int
) -> Iterator[Mistake]:
    """Report initial rows that one trial deletes and the next requests, unless the store is restarted before
    each trial and thus filled again."""
    feeders, data = section_of(source, "feeders"), section_of(source, "data")
    for request in (request for group in groups for request in group.requests if request.removes):
        name = request.draws or ""
        objects = section_of(data, str(section_of(feeders, name).get("from")))
        if replicates > 1 and objects and objects.get("in") not in restarted:
            reason = (
                f"{request.name} deletes rows of {name} with which each of {replicates} replicates begins"
            )
            hint = "Restart the store before each trial, leave from out, or measure one replicate."
            yield bad_value(("feeders", name, "from"), reason, feeders[name]["from"], hint)
            return

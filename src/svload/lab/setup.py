"""The preparation of a lab: checks of its specs, what this machine lacks for it, and installing that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from svload.host.machine.lock import machine_lock
from svload.lab.catalogue import all_kits, check_specs
from svload.lab.graph import check_needs, needs_of, written_needs
from svload.lab.groups import group_mistakes
from svload.lab.installs import apt_install
from svload.lab.kit import KitOptions
from svload.lab.names import named_in
from svload.lab.on import elsewhere_mistakes
from svload.lab.replicas import replica_mistakes
from svload.model.errors import Problem, SvloadError
from svload.model.private import private_folder
from svload.model.study import ServiceSpec
from svload.study.mistakes import Mistake, bad_value, unknown_name
from svload.study.tree import Node


def find_mistakes(specs: Sequence[ServiceSpec]) -> list[Mistake]:
    """Return all mistakes in a lab's specs: kits, options, TLS fronts, dependencies."""
    mistakes = [*_unknown_needs(specs), *replica_mistakes(specs), *named_of_several(specs)]
    options, found = check_specs(specs)
    mistakes += group_mistakes(specs, options)
    mistakes += elsewhere_mistakes(specs)
    return found + check_needs(needs_of(specs)) + _ports_twice(specs) + mistakes


def _unknown_needs(specs: Sequence[ServiceSpec]) -> Iterator[Mistake]:
    known = [spec.name for spec in specs]
    for spec in specs:
        for other in written_needs(spec):
            if other not in known:
                yield unknown_name(("lab", spec.name, "needs"), other, "service", known)


def named_of_several(specs: Sequence[ServiceSpec]) -> Iterator[Mistake]:
    """Yield a mistake for each `${web.port}` if web has several servers, which have different ports."""
    many = {spec.name: count for spec in specs if (count := spec.replicas or 1) > 1}
    for spec in specs:
        for other, what in named_in(spec.options, many):
            if what in ("port", "host", "url") or what.startswith("port."):
                reason = f"{other} has {many[other]} replicas, each with a {what} of its own"
                hint = f"Name ${{{other}.addresses}}, or a server before them."
                yield bad_value(("lab", spec.name), reason, f"${{{other}.{what}}}", hint)


def _ports_twice(specs: Sequence[ServiceSpec]) -> list[Mistake]:
    """Return a mistake for each port that an earlier service on the same machine has."""
    found, taken = [], dict[tuple[str, int], str]()
    for spec in specs:
        port = spec.options.get("port")
        if not isinstance(port, int) or isinstance(port, bool):
            continue
        place = str(spec.options.get("on")), port
        if place in taken:
            reason = f"{taken[place]} has this port already"
            found.append(bad_value(("lab", spec.name, "port"), reason, port, "Take another, or leave it out so that svload picks one."))  # fmt: skip
        taken.setdefault(place, spec.name)
    return found


def measures(specs: Sequence[ServiceSpec]) -> dict[str, frozenset[str] | None]:
    """Return each service → the metrics that a trial can have, by its kit; None if unknown."""
    kits = all_kits()
    return {spec.name: kits[spec.kit].measures(spec.options) if spec.kit in kits else None for spec in specs}


def copies(specs: Sequence[ServiceSpec]) -> dict[str, int]:
    """Return each service → how many copies of each object its kit stores."""
    kits = all_kits()
    return {spec.name: kits[spec.kit].copies(spec.options) for spec in specs if spec.kit in kits}


def validated(specs: Sequence[ServiceSpec]) -> dict[str, KitOptions]:
    """Return each service's options as validated by its kit. Raises SvloadError with all mistakes."""
    if found := find_mistakes(specs):
        raise _wrong(found)
    return check_specs(specs)[0]


def _wrong(found: Sequence[Mistake]) -> SvloadError:
    nowhere = Node(None, "")
    return SvloadError(*(mistake.problem(nowhere) for mistake in found))


def check(specs: Sequence[ServiceSpec], cache: Path) -> list[Problem]:
    """Return what this machine lacks for these services, without repetition; empty if they can come up.
    Starts nothing and takes well under a second.

    They may be a part of a lab whose other services are up. Raises SvloadError if options are invalid.
    """
    options, found = check_specs(specs)
    if found:
        raise _wrong(found)
    problems: list[Problem] = []
    for spec in specs:
        problems += all_kits()[spec.kit].check(options[spec.name], cache)
        if options[spec.name].tls == "hitch":
            problems += all_kits()["hitch"].check(options[spec.name], cache)
    return list({str(problem): problem for problem in problems}.values())


def install(
    specs: Sequence[ServiceSpec],
    cache: Path,
    root: bool | None = None,
    on_wait: Callable[[str], None] = lambda holder: None,
) -> list[str]:
    """Install what `check` found missing; return a line for each thing done. Raises SvloadError for what
    could not be installed. Idempotent.

    One installation at a time, since another would remove what this one has half done: `on_wait(holder)` is
    called if this one waits.
    """
    root = os.geteuid() == 0 if root is None else root
    options = validated(specs)
    private_folder(cache)
    done: list[str] = []
    with machine_lock("svload lab install", on_wait=on_wait, path=cache / ".install.lock"):
        if packages := sorted({name for problem in check(specs, cache) for name in _packages(problem)}):
            done += apt_install(packages, root)
        for spec in specs:
            done += all_kits()[spec.kit].install(options[spec.name], cache, root)
    if left := check(specs, cache):
        raise SvloadError(*left)
    return done


def _packages(problem: Problem) -> Sequence[str]:
    found = problem.details.get("apt", ())
    return [str(name) for name in found] if isinstance(found, (list, tuple)) else []

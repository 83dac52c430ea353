"""Parameter sets: named parts of a study (`lab`, `sysctl`), in the study or in files beside it; the one that
`tuning` names is applied to the study.

Files are read once, with the study: the lock holds all sets, and a run reads nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

from svload.model.bounds import TABLE_BYTES
from svload.model.errors import Problem
from svload.model.parameters import is_network, may_be_set
from svload.model.study import Factor, ServiceSpec
from svload.study import values
from svload.study.beside import NO_FILE, file_beside, text_beside
from svload.study.mistakes import Mistake, bad_value, unknown_name
from svload.study.references import references_in
from svload.study.tree import Node, Path, kit_of, merge_plain, read_tree, section_of

_ABSENT = object()


def read_sets(tree: Node, folder: FilePath, problems: list[Problem]) -> Node:
    """Return the study with each set that is a file name replaced by the file's content; mistakes in it are
    reported at its own lines."""
    sections = tree.value if isinstance(tree.value, dict) else {}
    sets = sections.get("sets")
    if sets is None or not isinstance(sets.value, dict):
        return tree
    read = {name: _read(name, child, tree, folder, problems) for name, child in sets.value.items()}
    return Node({**sections, "sets": Node(read, sets.place)}, tree.place)


def _read(name: str, child: Node, tree: Node, folder: FilePath, problems: list[Problem]) -> Node:
    if not isinstance(child.value, str):
        return child
    empty = Node({}, child.place)
    file = file_beside(folder, child.value)
    if file is None:
        reason, hint = NO_FILE
        problems.append(bad_value(("sets", name), reason, child.value, hint).problem(tree))
        return empty
    try:
        text = text_beside(file, TABLE_BYTES.most)
    except (OSError, ValueError) as why:
        problems.append(
            bad_value(("sets", name), f"expected a parameter set ({why})", child.value).problem(tree)
        )
        return empty
    found, faults = read_tree(text, str(folder / child.value))
    problems += faults
    return found


def set_files(data: Any, folder: FilePath) -> Iterator[FilePath]:
    """Return the files of a study's sets, before they are read."""
    for name in section_of(data, "sets").values():
        if isinstance(name, str) and (file := file_beside(folder, name)) is not None:
            yield file


def with_set(source: Mapping[str, Any], name: Any) -> dict[str, Any]:
    """Return the study with the set of that name applied; unchanged if there is none. Services that the study
    lacks are reported elsewhere."""
    part = section_of(source, "sets").get(str(name)) if name is not None else None
    if not isinstance(part, dict):
        return dict(source)
    known = {
        name: options
        for name, options in section_of(part, "lab").items()
        if name in section_of(source, "lab")
    }
    return dict(merge_plain(dict(source), {**part, "lab": known}))


def options_of_set(source: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the options in the set of that name for the study's services, as `service.option`."""
    services = section_of(section_of(section_of(source, "sets"), name), "lab")
    return tuple(f"{service}.{option}" for service in services for option in section_of(services, service))


def set_mistakes(data: Mapping[str, Any], factors: Mapping[str, Factor]) -> Iterator[Mistake]:
    """Report unknown services, unknown sets, and settings that no study may change."""
    services, sets = section_of(data, "lab"), section_of(data, "sets")
    for name, part in sets.items():
        for service, options in section_of(part, "lab").items():
            path: Path = ("sets", name, "lab", service)
            if service not in services:
                yield unknown_name(path, service, "service", services)
            elif isinstance(options, dict) and kit_of(options) is not None:
                reason = "a set configures a service, but can't replace it"
                yield bad_value(path, reason, kit_of(options), "Leave kit, run and at to the study.")
    chosen = data.get("tuning")
    for named in _names(chosen, factors):
        if named not in sets:
            yield unknown_name(("tuning",), named, "set under sets", sets)
    for path, name in _settings(data):
        if not may_be_set(str(name)):
            reason = "expected a setting of the network (net.…), or a limit of the whole machine"
            yield bad_value(path, reason, name, "Set it by hand, outside svload.")


def _names(chosen: Any, factors: Mapping[str, Factor]) -> Iterable[str]:
    """Return the sets that `tuning` can name: itself, or every level of its factor; names combined from
    several references are resolved in each case."""
    if not isinstance(chosen, str):
        return ()
    if not values.holds_reference(chosen):
        return (chosen,)
    [*references] = references_in(chosen)
    whole = len(references) == 1 and chosen.strip() == f"${{{references[0]}}}"
    if whole and references[0] in factors:
        return [level.name for level in factors[references[0]].levels if not level.fields]
    return ()


def _settings(data: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name in section_of(data, "sysctl"):
        yield ("sysctl", name), name
    for label, part in section_of(data, "sets").items():
        for name in section_of(part, "sysctl"):
            yield ("sets", label, "sysctl", name), name


def network_mistakes(sysctl: Mapping[str, str], services: Sequence[ServiceSpec]) -> Iterator[Mistake]:
    """Report servers that are already running: they cannot be reached from the lab's own network."""
    named = next((name for name in sysctl if is_network(name)), None)
    for spec in services:
        if named is not None and spec.kit == "external":
            reason = f"{named} gives the lab its own network, which a server that already runs is not in"
            hint = "Leave the setting out, or let svload start the server."
            yield bad_value(("lab", spec.name, "at"), reason, spec.options.get("at"), hint)


def differing(data: Mapping[str, Any]) -> Iterator[Path]:
    """Return what differs between sets: options, parameters of `tuning` and settings of the kernel."""
    names = list(section_of(data, "sets"))
    merged = [dict(_flat(with_set(data, name))) for name in names]
    for path in dict.fromkeys(path for one in merged for path in one):
        if any(a.get(path, _ABSENT) != b.get(path, _ABSENT) for a, b in pairwise(merged)):
            yield path


def _flat(data: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for section in ("lab", "sysctl"):
        yield from _leaves(data.get(section), (section,))


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _leaves(child, (*path, key))
    else:
        yield path, value

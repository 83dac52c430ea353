"""Which generators of a case's groups share a process. Pure."""

from __future__ import annotations

from typing import NamedTuple

from svload.model.study import CaseConfig

MANY_CORES = 1 << 16
"""Enough cores for one process per part."""
_MOST_IN_A_NAME = 80


class Part(NamedTuple):
    """One generator's part of a group: the group's index in the case, and the generator's number."""

    group: int
    number: int


def packed(config: CaseConfig, cores: int) -> tuple[tuple[Part, ...], ...]:
    """Return the parts of each process: one each while there are cores for them, else dealt in turn to as
    many processes as cores.

    Two processes on one core take it from each other, and each sees the other as a wait for the scheduler
    (docs/method.md §3, run-queue wait); one thread serves several parts with the same work and no such wait.
    The requests are the same however they are packed, and what each generator saw is kept separate.
    """
    parts = [
        Part(index, number) for index, group in enumerate(config.groups) for number in range(group.generators)
    ]
    processes = max(1, min(cores, len(parts)))
    dealt = [parts[process::processes] for process in range(processes)]
    return tuple(tuple(process) for process in _together(config, dealt) if process)


def _together(config: CaseConfig, dealt: list[list[Part]]) -> list[list[Part]]:
    """Return groups that share a set of written objects in one process: the rows are only in its memory."""
    for one in config.sets:
        sharing = {
            index
            for index, group in enumerate(config.groups)
            if any(request.written == one.name for request in group.requests)
        }
        homes = [process for process in dealt if any(part.group in sharing for part in process)]
        for other in homes[1:]:
            homes[0].extend(part for part in other if part.group in sharing)
            other[:] = [part for part in other if part.group not in sharing]
    return dealt


def name_of(config: CaseConfig, parts: tuple[Part, ...]) -> str:
    """Return the name in files and messages of a process with these parts: `background.0+probe.0`."""
    names = [f"{config.groups[part.group].name}.{part.number}" for part in parts]
    name = "+".join(names)
    return name if len(name) <= _MOST_IN_A_NAME else f"{names[0]}+{len(names) - 1} more"

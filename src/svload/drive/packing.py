"""Which parts of a case's groups share a generator process. Pure."""

from __future__ import annotations

from typing import NamedTuple

from svload.model.study import CaseConfig

MANY_CORES = 1 << 16
"""A process for each part."""
_MOST_IN_A_NAME = 80


class Part(NamedTuple):
    """One generator's part of a group: the group's place in the case, and the part's number."""

    group: int
    number: int


def on_cores(config: CaseConfig, cores: int) -> CaseConfig:
    """The case with no group cut into more generators than there are cores for the load: two on one core only wait for each other.

    However many there are, the same requests are asked.
    """
    groups = tuple(
        group.model_copy(update={"generators": min(group.generators, max(cores, 1))})
        for group in config.groups
    )
    return config.model_copy(update={"groups": groups})


def packed(config: CaseConfig, cores: int) -> tuple[tuple[Part, ...], ...]:
    """The parts of each process: one each while there are cores for them, else dealt in turn to as many processes as cores.

    Two processes on one core take it from each other, and each sees the other as a wait for the scheduler (docs/method.md §3, run-queue wait);
    one thread serves both groups with the same work and no such wait. Two parts of one group never meet.
    """
    parts = [
        Part(index, number) for index, group in enumerate(config.groups) for number in range(group.generators)
    ]
    most = max(1, cores, *(group.generators for group in config.groups))
    return tuple(tuple(parts[process::most]) for process in range(min(most, len(parts))))


def name_of(config: CaseConfig, parts: tuple[Part, ...]) -> str:
    """What a process of these parts is called in files and messages: `background.0+probe.0`."""
    names = [f"{config.groups[part.group].name}.{part.number}" for part in parts]
    name = "+".join(names)
    return name if len(name) <= _MOST_IN_A_NAME else f"{names[0]}+{len(names) - 1} more"

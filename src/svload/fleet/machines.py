"""The load that each machine can make, and obstacles to its use. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from svload.analysis import limits
from svload.fleet.inventory import Member
from svload.host.clock.exchange import Link
from svload.host.clock.offset import WIDEST_NS, Offset
from svload.host.machine.cores import split_cores
from svload.model.errors import ExitCode, Problem
from svload.model.units import show_duration, show_size

LEAST_FREE_BYTES = 2_000_000_000
"""Space for svload, its libraries, and their packages during installation."""
MOST_WALL_OFF_NS = 1_000_000_000
"""Wall clocks only date moments in logs and certificates; loads start by offsets of the monotonic ones."""
_OWN_FILES = 64
"""Descriptors that a generator has besides its connections."""


@dataclass(frozen=True)
class LoadCapacity:
    """The load that a machine can make: concurrent `connections` to one address, `cores` for load, bytes/s
    each way (None: unknown)."""

    connections: int
    cores: int
    to_bytes_per_s: float | None
    back_bytes_per_s: float | None
    bound_by: str


@dataclass(frozen=True)
class MachineReport:
    """One machine after a command. `clock` is its monotonic clock relative to ours, `wall` its time."""

    member: Member
    facts: Mapping[str, Any] | None = None
    clock: Offset | None = None
    wall: Offset | None = None
    link: Link | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)
    changed: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def capacity(self) -> LoadCapacity | None:
        """Return the load that it can make; None if the machine was not read."""
        return None if self.facts is None else load_capacity(self.facts, self.link)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is not a failure but worth knowing."""
        return () if self.facts is None else tuple(notes(self.facts, self.clock, self.answer))


@dataclass(frozen=True)
class FleetResult:
    """All machines after a command."""

    machines: tuple[MachineReport, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of all machines, in their order."""
        return tuple(problem for machine in self.machines for problem in machine.problems)

    @property
    def changed(self) -> int:
        """Return how many steps changed something, on all machines."""
        return sum(machine.changed for machine in self.machines)

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of the most important of all problems."""
        return ExitCode.worst([problem.kind.exit_code for problem in self.problems])


def load_capacity(facts: Mapping[str, Any], link: Link | None) -> LoadCapacity:
    """Return the load that it can make: the smaller of descriptors and ports decides."""
    files, ports = int(facts["open_files"]) - _OWN_FILES, int(facts["local_ports"])
    return LoadCapacity(
        connections=max(0, min(files, ports)),
        cores=len(split_cores(range(int(facts["cores"]))).load),
        to_bytes_per_s=link.to_bytes_per_s if link else None,
        back_bytes_per_s=link.back_bytes_per_s if link else None,
        bound_by="descriptors" if files < ports else "ports",
    )


def against(member: Member, facts: Mapping[str, Any], wall: Offset | None) -> list[Problem]:
    """Return what must be fixed before the machine can be used."""
    found = []
    if not facts.get("installed") and int(facts["free_bytes"]) < LEAST_FREE_BYTES:
        free = f" ({show_size(float(facts['free_bytes']))} free)"
        found.append(Problem("fleet-disk-full", {"host": member.name, "path": facts["home"], "free": free}))
    if not facts["writable"]:
        found.append(Problem("fleet-folder", {"host": member.name, "path": facts["home"]}))
    if wall is not None and abs(wall.offset_ns) - wall.bound_ns > MOST_WALL_OFF_NS:
        off = show_duration(abs(wall.offset_ns) / 1e9)
        side = "ahead" if wall.offset_ns > 0 else "behind"
        found.append(Problem("fleet-clock", {"host": member.name, "off": f"{off} {side}"}))
    return found


def notes(facts: Mapping[str, Any], clock: Offset | None, answer: Mapping[str, Any]) -> list[str]:
    """Return sentences on what bounds the machine."""
    found = []
    source = facts.get("clock_source") or "unknown"
    if limits.CLOCK_READS_S.get(source, limits.COARSE_CLOCK_S) > 0:
        found.append(
            f"its clock source is {source}: reading it may take so long that ranges of times are wider"
        )
    if clock is not None and clock.bound_ns > WIDEST_NS:
        found.append(
            f"its clock is known to {show_duration(clock.bound_ns / 1e9)} only: one-way times would be refused"
        )
    if int(facts["open_files"]) < int(facts["local_ports"]):
        found.append(f"limited by descriptors: {facts['open_files']} (hard limit of open files)")
    if refused := answer.get("refused"):
        found.append(
            f"these settings stay as they are, because only root can change them: {', '.join(refused)}"
        )
    return found

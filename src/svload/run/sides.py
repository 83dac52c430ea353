"""The sides of a block that take turns: each has a lab, with names that show the side.

Names in the agent, the kernel and the sampler include the side (`api@main`); a side's lab and trial use plain
names.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from svload.host.machine.linux import process_stat
from svload.lab import Lab
from svload.lab.kit import LOOPBACK, Host
from svload.lab.ports import Ports
from svload.model.environment import free_memory_bytes
from svload.model.errors import fail
from svload.model.events import Event
from svload.model.facts import ServiceFacts
from svload.model.messages import Action
from svload.model.units import show_size
from svload.run.trial import Bench, Emit, Readings
from svload.study.side_by_side import LEFT_FREE

_NAME = re.compile(r"[A-Za-z0-9_-]{1,20}")
"""Characters allowed in the names of files, control groups and processes, in a length that leaves room in a
socket's path."""
_NAMED = ("child", "name", "group", "within", "link")
"""The fields of requests to the agent that name something of a service."""
_CODES = {"i64": "q", "f64": "d"}


def side_names(levels: Sequence[str]) -> dict[str, str]:
    """Return the names of the sides of these levels: the levels, or their numbers if one is not plain."""
    if all(_NAME.fullmatch(level) for level in levels):
        return {level: level for level in levels}
    return {level: str(number) for number, level in enumerate(levels, 1)}


def sided(name: str, side: str) -> str:
    """Return `web@main[2]` for the server `web[2]`, `web@main.http` for its process `web.http`."""
    service = re.split(r"[.\[]", name, maxsplit=1)[0]
    return f"{service}@{side}{name.removeprefix(service)}"


def plain(name: str, side: str) -> str:
    """Return the inverse of `sided`; names without the side are unchanged."""
    service, _, rest = name.partition(f"@{side}")
    return service + rest if not rest or rest[0] in ".[" else name


def is_of(name: str, side: str) -> bool:
    """Return whether a name includes the side."""
    return plain(name, side) != name


class SideHost:
    """The agent as the servers of one side use it."""

    def __init__(self, host: Host, side: str) -> None:
        self._host, self._side = host, side

    def prepare(self, actions: Sequence[Action], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        """As `Host.prepare`."""
        return self._host.prepare([self._named(one) for one in actions], timeout_s)

    def stop(self, children: Sequence[str], grace_s: float = 5.0, now: bool = False) -> dict[str, int]:
        """As `Host.stop`."""
        exits = self._host.stop([sided(child, self._side) for child in children], grace_s, now)
        return {plain(child, self._side): code for child, code in exits.items()}

    def exited(self, child: str) -> int | None:
        """As `Host.exited`."""
        return self._host.exited(sided(child, self._side))

    def _named(self, action: Action) -> Action:
        held = {name: getattr(action, name, None) for name in _NAMED}
        named: Any = {name: sided(one, self._side) for name, one in held.items() if one}
        return replace(action, **named)


class SidePorts(Ports):
    """The register of ports of all sides, as used by the servers of one side."""

    def __init__(self, all_sides: Ports, side: str) -> None:
        self._all, self._side = all_sides, side

    def take(self, service: str, part: str, fixed: int | None = None, address: str = LOOPBACK) -> int:
        """As `Ports.take`."""
        return self._all.take(sided(service, self._side), part, fixed, address)

    def given(self) -> frozenset[int]:
        """As `Ports.given`."""
        return self._all.given()


def side_events(emit: Emit, side: str) -> Emit:
    """Return `emit` for a side's lab, with the side added to its events."""

    def tell(event: Event) -> None:
        if event.kind == "service":
            event = replace(event, data={**event.data, "service": sided(event.text("service"), side)})
        emit(event)

    return tell


def must_fit_beside(lab: Lab, side: str, others: int) -> None:
    """Check that this many more sides as large as this one, which is up, leave a quarter of the memory that
    is free beside it. Raise SvloadError usage."""
    needed, free = others * _resident_bytes(lab), free_memory_bytes()
    if needed <= (1 - LEFT_FREE) * free:
        return
    each = show_size(needed / others)
    raise fail(
        "usage",
        reason=f"the sides don't fit side by side: {side} takes {each}, and of the {show_size(free)} that are still free "
        "the others would leave less than a quarter",
        hint="Write order: trials under measure, so that only one side is up at a time.",
    )


def _resident_bytes(lab: Lab) -> int:
    """Return the memory of all processes of its services; processes that have just ended count as zero."""
    stats = [process_stat(process.pid) for facts in lab.facts().values() for process in facts.processes]
    return sum(one.rss_bytes for one in stats if one is not None)


@dataclass
class SideBench(Bench):
    """The bench of one side. `sides` are the benches of all sides by name, which share agent, generators and
    sampler."""

    sides: Mapping[str, SideBench] = field(default_factory=dict)

    @classmethod
    def of(cls, bench: Bench, lab: Lab, side: str, sides: Mapping[str, SideBench]) -> SideBench:
        """Return the bench of the side that this lab belongs to."""
        shared = {one.name: getattr(bench, one.name) for one in fields(bench)}
        return cls(**{**shared, "lab": lab, "side": side}, sides=sides)

    def attach(self) -> None:
        """Watch the current servers of all sides."""
        self.sampler.attach(dict(pair for one in self.sides.values() for pair in one.watched().items()))

    def watched(self) -> dict[str, ServiceFacts]:
        """Return the facts about this side's services, as given to the sampler."""
        return {sided(name, self.side): self._named(facts) for name, facts in self.lab.facts().items()}

    def own(self, service: str) -> str:
        """As `Bench.own`; a service of another side keeps its name."""
        return plain(service, self.side)

    def _named(self, facts: ServiceFacts) -> ServiceFacts:
        named: dict[str, Any] = {"service": sided(facts.service, self.side)}
        for kind in ("groups", "links"):
            own = getattr(facts, kind)
            named[kind] = tuple(one.model_copy(update={"name": sided(one.name, self.side)}) for one in own)
        return facts.model_copy(update=named)

    def latest(self, from_ns: int, to_ns: int) -> Readings:
        """As `Bench.latest`, of this side."""
        return own_readings(super().latest(from_ns, to_ns), self.side)

    def busy_cores(self) -> dict[str, float]:
        """As `Bench.busy_cores`, of this side."""
        found = super().busy_cores()
        return {plain(name, self.side): cores for name, cores in found.items() if is_of(name, self.side)}


def own_readings(table: Readings, side: str) -> dict[str, tuple[str, Any]]:
    """Return the readings of the machine and of one side, with plain names, from those of all sides."""
    rows = [row for row, service in enumerate(table["service"][1]) if not service or is_of(service, side)]
    found: dict[str, tuple[str, Any]] = {}
    for name, (kind, cells) in table.items():
        if kind == "utf8":
            own = [cells[row] for row in rows]
            found[name] = kind, [plain(cell, side) for cell in own] if name in ("service", "entity") else own
        else:
            values = array(_CODES[kind], cells)
            found[name] = kind, array(_CODES[kind], (values[row] for row in rows)).tobytes()
    return found

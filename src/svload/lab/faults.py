"""Planned faults: applied to a running lab's servers and undone, in bounded time, by the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from svload.lab.groups import ServiceGroups
from svload.lab.links import ServiceLinks
from svload.lab.server import Server
from svload.lab.standing import Standing
from svload.model.errors import Problem, carry_out, fail
from svload.model.facts import LINK_LATENCY, LINK_SPEED
from svload.model.faults import ActKind, Unit

if TYPE_CHECKING:
    from svload.lab.place import Place

Key = TypeVar("Key")
_OF_LINKS = frozenset({LINK_SPEED, LINK_LATENCY})
READY_WITHIN_S = 60.0
"""How long a restarted server may take until it answers."""


@dataclass(eq=False)
class FaultHands:
    """The planned faults of a machine's servers, `up`, including those that are not yet undone.

    Servers are named `web[2]`, parts as their kit spawned them (`object`; an empty part is the whole server).
    """

    up: Mapping[str, Standing]
    groups: ServiceGroups
    links: ServiceLinks
    _halted: dict[str, frozenset[str]] = field(default_factory=dict)
    _paused: dict[str, frozenset[str]] = field(default_factory=dict)
    _limited: dict[Unit, frozenset[str]] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)

    def act(self, do: ActKind, server: str, part: str, limits: Mapping[str, float]) -> dict[str, float]:
        """Carry out one act and return its limits as read back from the kernel. Raises SvloadError if it is
        impossible."""
        if part and not all(one.parts(part) for one in self._servers(server, part)):
            raise fail("fault-failed", target=server, reason=f"it has no part {part} now")
        if do in ("limit", "restore"):
            return self._limit(do, (server, part), limits)
        for one in self._servers(server, part):
            if do in ("stop", "kill"):
                self._touched.add(server)  # in one step: services have their own threads
                self._halted[server] = self._halted.get(server, frozenset()) | set(one.parts(part))
                one.halt(one.parts(part), now=do == "kill")
            elif do == "start":
                self._start(server, one, part)
            elif do == "pause":
                self._paused[server] = self._paused.get(server, frozenset()) | set(one.parts(part))
                one.signal(one.parts(part), "STOP")
            else:
                self._go_on(server, one, part)
        return {}

    def heal(self) -> tuple[list[str], list[str]]:
        """Undo all remaining faults; return the names of the affected servers, and of those that were
        restarted. Raises SvloadError if a server does not come up."""
        started = list(self._halted)
        healed = [*self._paused, *(server for server, _ in self._limited), *self._halted]
        carry_out(
            *(partial(self.act, "resume", server, "", {}) for server in self._paused),
            *(
                partial(self._limit, "restore", unit, dict.fromkeys(kinds, 0.0))
                for unit, kinds in self._limited.items()
            ),
            *(partial(self.act, "start", server, "", {}) for server in started),
        )
        self._touched.clear()
        return list(dict.fromkeys(healed)), started

    def forget(self, server: str) -> None:
        """Forget the faults of a server that is taken down."""
        for held in (self._halted, self._paused):
            held.pop(server, None)
        for unit in [unit for unit in self._limited if unit[0] == server]:
            del self._limited[unit]
        self._touched.discard(server)

    def is_down(self, server: str) -> bool:
        """Return whether any part of it is currently stopped by a fault."""
        return server in self._halted

    def was_ended(self, server: str) -> bool:
        """Return whether a fault has ended any part of it since the last `heal`."""
        return server in self._touched

    def excuses(self, server: str, problem: Problem) -> bool:
        """Return whether the problem reports the end of a process that a fault has ended."""
        ended = {f"{server}.{part}" for part in self._halted.get(server, ())}
        return problem.code == "service-died" and str(problem.details.get("service")) in ended

    def _servers(self, server: str, part: str) -> list[Server]:
        """Return the server, and its TLS front too if the part is empty."""
        found = self.up.get(server)
        if found is None or not isinstance(found.kit, Server):
            raise fail("fault-failed", target=server, reason="svload did not start it")
        return [found.kit, *([found.front] if found.front is not None and not part else [])]

    def _start(self, server: str, one: Server, part: str) -> None:
        ended = self._halted.get(server, frozenset())
        mine = [name for name in one.parts(part) if name in ended]
        left = ended - set(mine)
        one.start_again(mine, READY_WITHIN_S if not left & set(one.parts("")) else None)
        self._keep(self._halted, server, left)

    def _go_on(self, server: str, one: Server, part: str) -> None:
        held = self._paused.get(server, frozenset())
        mine = [name for name in one.parts(part) if name in held]
        one.signal(mine, "CONT")
        self._keep(self._paused, server, held - set(mine))

    def _limit(self, do: ActKind, unit: Unit, limits: Mapping[str, float]) -> dict[str, float]:
        server, part = unit
        before = self._limited.get(unit, frozenset())
        of_group = {kind: value for kind, value in limits.items() if kind not in _OF_LINKS}
        of_link = {kind: value for kind, value in limits.items() if kind in _OF_LINKS}
        found: dict[str, float] = {}
        if do == "limit":
            self._limited[unit] = before | set(limits)
            found |= self.groups.change(server, of_group, part) if of_group else {}
            return found | (self.links.change(server, of_link) if of_link else {})
        found |= self.groups.restore(server, tuple(of_group), part) if of_group else {}
        found |= self.links.restore(server, tuple(of_link)) if of_link else {}
        self._keep(self._limited, unit, before - set(limits))
        return found

    @staticmethod
    def _keep(held: dict[Key, frozenset[str]], key: Key, left: frozenset[str]) -> None:
        if left:
            held[key] = left
        else:
            held.pop(key, None)


class LabFaults:
    """A whole lab's faults, each at its server's place; `renewed` is called with each restarted server."""

    def __init__(self, place_of: Callable[[str], Place | None], renewed: Callable[[str], None]) -> None:
        self._place_of, self._renewed = place_of, renewed
        self._struck: set[Place] = set()

    def act(self, do: ActKind, server: str, part: str, limits: Mapping[str, float]) -> dict[str, float]:
        """Carry out one act and return its limits as read back from the kernel. Raises SvloadError if it is
        impossible."""
        place = self._place_of(server)
        if place is None:
            raise fail("fault-failed", target=server, reason="svload did not start it")
        self._struck.add(place)
        found = place.act(do, server, part, limits)
        if do == "start":
            self._renewed(server)
        return found

    def heal(self) -> list[str]:
        """Undo all remaining faults; return the affected servers. Raises SvloadError if one stays down, after
        the others were undone."""
        healed: list[str] = []

        def undo(place: Place) -> None:
            names, started = place.heal()
            healed.extend(names)
            for server in started:
                self._renewed(server)
            self._struck.discard(place)

        carry_out(*(partial(undo, place) for place in self._struck))
        return healed

    def is_down(self, server: str) -> bool:
        """Return whether any part of it is currently stopped by a fault."""
        return any(place.is_down(server) for place in tuple(self._struck))

    def was_ended(self, server: str) -> bool:
        """Return whether a fault has ended any part of it since the last `heal`."""
        return any(place.was_ended(server) for place in tuple(self._struck))

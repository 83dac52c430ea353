"""The machine that svload acts on: a run gets facts about a machine from here, not from its own process."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from svload.host.clock.offset import Exchange, Offset, estimate
from svload.host.machine import linux
from svload.host.machine.cores import CoreSplit, split_cores

if TYPE_CHECKING:
    from svload.host.agent.client import Agent
    from svload.model.plan import Room

_ASKED = 20


class Machine(ABC):
    """One machine with its agent. `name` is from the inventory, or the machine's own; others reach its
    servers at `address`.

    Every method may block until the agent answers (at most 30 s) and raises SvloadError agent-lost if the
    machine is lost, agent-refused for what it cannot do. A machine's timestamps are from its own monotonic
    clock: those of two machines are compared only through `offset`. As a context manager it ends the agent
    and all that it started.
    """

    name: str
    address: str

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @property
    def cores(self) -> CoreSplit:
        """Return the split of its cores between load and servers."""
        return split_cores(self.agent.cores)

    @abstractmethod
    def room(self, wanted: int) -> Room:
        """Return how many connections its generators can hold if each requests `wanted` open files."""

    @abstractmethod
    def offset(self) -> Offset:
        """Return its monotonic clock minus the controller's, now, with the measured bound. Raises ValueError
        if a clock was set meanwhile."""

    def close(self) -> None:
        """End the agent and all that it started."""
        self.agent.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def offset_by_agent(agent: Agent) -> Offset:
    """Return the offset by the agent's CLOCK, bounded by its response time, 0.1 ms on one machine."""
    exchanges = []
    for _ in range(_ASKED):
        sent = time.monotonic_ns()
        there = agent.clock()
        exchanges.append(Exchange(sent, there, there, time.monotonic_ns()))
    return estimate(exchanges)


class LocalMachine(Machine):
    """The controller's machine, with an agent on a Unix socket."""

    address = "127.0.0.1"

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.name = agent.machine

    def room(self, wanted: int) -> Room:
        from svload.host.machine.facts import connection_room

        return connection_room(wanted)

    def offset(self) -> Offset:
        """Return 0, since both have one kernel clock; in another time namespace it is measured."""
        if linux.namespace("time", "self") == linux.namespace("time", self.agent.pid):
            return Offset(0, 0, time.monotonic_ns(), 0)
        return offset_by_agent(self.agent)

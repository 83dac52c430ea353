"""This machine: the fleet of one machine that every run has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from svload.host.clock.offset import Offset
from svload.host.machines.base import Machine, offset_by_agent, time_namespace

if TYPE_CHECKING:
    from svload.host.agent.client import Agent
    from svload.model.plan import Room


class LocalMachine(Machine):
    """The controller's machine, with an agent on a Unix socket. Its clock is the controller's if both are in
    the same time namespace."""

    address = "127.0.0.1"

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.name = agent.machine

    def room(self, wanted: int) -> Room:
        from svload.host.machine.facts import connection_room

        return connection_room(wanted)

    def offset(self) -> Offset:
        """Return 0, since both have one kernel clock; in another time namespace it is measured."""
        own, agents = time_namespace(), time_namespace(self.agent.pid)
        if own == agents:
            return Offset(0, 0, time.monotonic_ns(), 0)
        return offset_by_agent(self.agent)

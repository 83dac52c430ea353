"""The contract of a machine that svload acts on. What a run must know of a machine it asks
here, never of its own process."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Self

from svload.host.clock.offset import Exchange, Offset, estimate
from svload.host.machine.cores import CoreSplit, split_cores

if TYPE_CHECKING:
    from svload.host.agent.client import Agent
    from svload.model.plan import Room

_ASKED = 20


class Machine(ABC):
    """One machine with its agent. `name` is the inventory's, or the machine's own; `address` is
    where others reach its servers.

    Every method may block for as long as the agent's answer takes (30 s at most) and raises SvloadError
    agent-lost when the machine is gone, agent-refused for what it cannot do. Stamps of a machine are its
    own monotonic clock's: two machines' are compared through `offset` alone. A context that ends the agent,
    and with it all that it started.
    """

    name: str
    address: str

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @property
    def cores(self) -> CoreSplit:
        """Which of its cores make load and which serve."""
        return split_cores(self.agent.cores)

    @property
    def dir(self) -> Path:
        """The folder of its lab, a path on that machine."""
        return self.agent.dir

    @abstractmethod
    def room(self, wanted: int) -> Room:
        """How many connections its generators can hold, if each asks for `wanted` open files."""

    @abstractmethod
    def offset(self) -> Offset:
        """Its monotonic clock minus the controller's, now, with the bound that was measured. Raises
        ValueError: a clock was set meanwhile."""

    def collect(self, path: str | Path) -> bytes:
        """A file of it, whole."""
        return self.agent.collect(path)

    def put(self, path: str | Path, data: bytes, mode: int = 0o644, *, temporary: bool = False) -> None:
        """Write a file there: whole or not there; `temporary`: removed when its lab ends."""
        self.agent.put(path, data, mode, temporary=temporary)

    def start_at(self, children: list[str], at_ns: int) -> None:
        """Let its generators begin when the *controller's* clock reads `at_ns` (0: now)."""
        self.agent.start_at(children, self.offset().there(at_ns) if at_ns else 0)

    def close(self) -> None:
        """End the agent and all that it started."""
        self.agent.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def offset_by_agent(agent: Agent, asked: int = _ASKED) -> Offset:
    """The offset by the agent's own CLOCK message: bounded by its answer's time, some 0.1 ms on the same machine."""
    exchanges = []
    for _ in range(asked):
        sent = time.monotonic_ns()
        there = agent.clock().monotonic_ns
        exchanges.append(Exchange(sent, there, there, time.monotonic_ns()))
    return estimate(exchanges)


def time_namespace(pid: int | str = "self") -> str:
    """The identity of a process's time namespace; empty where it cannot be read, or the kernel has none."""
    try:
        return os.readlink(f"/proc/{pid}/ns/time")
    except OSError:
        return ""

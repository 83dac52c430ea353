"""A machine of a fleet: its agent by a carrier, its clock by exchanges over a TCP connection of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from svload.host.agent.client import Agent, answered
from svload.host.agent.leftovers import Leftover
from svload.host.clock import exchange
from svload.host.clock.offset import Offset, estimate
from svload.host.machines.base import Machine, offset_by_agent
from svload.host.machines.reach import Reach
from svload.model import conditions
from svload.model.plan import Room


class Carrier(Protocol):
    """Brings a message to one machine's agent and its answer back, or says that the machine is lost."""

    def ask(self, kind: str, bound_s: float, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The agent's answer. Raises SvloadError agent-lost where none comes within `bound_s`."""

    def close(self) -> None:
        """End the agent there; one that is lost ends by itself."""


class Bearing(Carrier, Protocol):
    """What is used of `dask_carrier.DaskCarrier`."""

    def call(self, method: str, *words: Any) -> Any:
        """A method of the machine's bearer."""

    def wait_for(self, method: str, *words: Any, waiting: Callable[[], None]) -> Any:
        """One that may take as long as the machine lives."""


class RemoteMachine(Machine):
    """One machine of an inventory. `site` is the inventory's; `facts` what it can carry; `clock_closed`
    why its clock can't be asked over a connection of its own (empty: it can); `pid` the worker's there; `here`: it is the controller's own machine; `left`: what killed
    svloads had left there, put right before."""

    def __init__(self, reach: Reach, carrier: Bearing, word: str) -> None:
        told = carrier.call("hello")
        super().__init__(CarriedAgent(carrier, Path(told["dir"]), told["said"]))
        self.name, self.address, self.site = reach.name, reach.address, reach.site
        self.here = reach.here
        self.left = tuple(
            Leftover(lab, what, undone, Path(journal)) for lab, what, undone, journal in told["left"]
        )
        self.facts = conditions.Machine.model_validate(told["machine"])
        self.pid: int = told["pid"]
        self._carrier, self._word = carrier, word
        self._clock_port: int = told["clock_port"]
        self.clock_closed: str = told["clock_closed"]

    def hand(self, name: str, made_by: str, fields: Mapping[str, Any]) -> None:
        """Have an object of a higher room made there (`module:class`, of the agent and `fields`). Raises SvloadError agent-lost."""
        self._carrier.call("hand", name, made_by, dict(fields))

    def tell(self, name: str, method: str, words: Sequence[Any], waiting: Callable[[], None]) -> Any:
        """Call a method of it; `waiting` is called again and again until it answers. Raises SvloadError agent-lost."""
        return self._carrier.wait_for("tell", name, method, tuple(words), waiting=waiting)

    def room(self, wanted: int) -> Room:
        """As /proc and the limits of its worker say."""
        return Room.model_validate(self._carrier.call("room", wanted))

    def offset(self) -> Offset:
        """By a connection of its own; where that cannot be had, by the agent's messages, with a wider bound."""
        if not self.clock_closed:
            try:
                with exchange.connect(self.address, self._clock_port, self._word) as connection:
                    return estimate(exchange.ping_pong(connection).monotonic)
            except OSError as why:
                self.clock_closed = why.strerror or str(why)
        return offset_by_agent(self.agent)


class CarriedAgent(Agent):
    """As `Agent`. Its folder is a path of its own machine."""

    def __init__(self, carrier: Carrier, folder: Path, said: Mapping[str, Any]) -> None:
        self.dir = folder
        self._carrier = carrier
        self._lock = threading.Lock()
        self._greeted(said)

    def ask(self, kind: str, bound_s: float, **fields: Any) -> dict[str, Any]:
        """One message and its answer, within `bound_s`."""
        return answered(self._carrier.ask(kind, bound_s, fields))

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """No thread of this machine can join a network of that one."""
        yield

    def end(self, grace_s: float = 5.0) -> None:
        """As `close`."""
        self.close()

    def close(self) -> None:
        """End the lab there."""
        self._carrier.close()

"""A machine of a fleet: its agent through a carrier, its clock by exchanges over a TCP connection."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.host.agent.client import Agent, answered
from svload.host.agent.leftovers import Leftover
from svload.host.clock import exchange
from svload.host.clock.offset import Offset, estimate
from svload.host.machines.base import Machine, offset_by_agent
from svload.host.machines.reach import Reach
from svload.model import conditions
from svload.model.plan import Room

if TYPE_CHECKING:
    from svload.host.machines.dask_carrier import DaskCarrier


class RemoteMachine(Machine):
    """One machine of an inventory. `site` is the inventory's; `facts`: what it can carry; `clock_closed`: why
    its clock can't be reached over a separate connection (empty: it can); `pid`: the worker's there; `here`:
    it is the controller's own machine; `left`: what killed svloads had left there, already dealt with."""

    def __init__(self, reach: Reach, carrier: DaskCarrier, word: str) -> None:
        answer = carrier.call("hello")
        super().__init__(CarriedAgent(carrier, Path(answer["dir"]), answer["greeting"]))
        self.name, self.address, self.site = reach.name, reach.address, reach.site
        self.here = reach.here
        self.left = tuple(
            Leftover(lab, what, undone, Path(journal)) for lab, what, undone, journal in answer["left"]
        )
        self.facts = conditions.Machine.model_validate(answer["machine"])
        self.pid: int = answer["pid"]
        self._carrier, self._word = carrier, word
        self._clock_port: int = answer["clock_port"]
        self.clock_closed: str = answer["clock_closed"]

    def hand(self, name: str, made_by: str, fields: Mapping[str, Any]) -> None:
        """Create an object of a higher-level package there (`module:class`, called with the agent and
        `fields`). Raises SvloadError agent-lost."""
        self._carrier.call("hand", name, made_by, dict(fields))

    def tell(self, name: str, method: str, words: Sequence[Any], waiting: Callable[[], None]) -> Any:
        """Call a method of such an object; `waiting` is called until it answers. Raises SvloadError."""
        return self._carrier.wait_for("tell", name, method, tuple(words), waiting=waiting)

    def room(self, wanted: int) -> Room:
        return Room.model_validate(self._carrier.call("room", wanted))

    def offset(self) -> Offset:
        """Measure the offset by a connection, or by the agent's messages, with a wider bound."""
        if not self.clock_closed:
            try:
                with exchange.connect(self.address, self._clock_port, self._word) as connection:
                    return estimate(exchange.ping_pong(connection).monotonic)
            except OSError as why:
                self.clock_closed = why.strerror or str(why)
        return offset_by_agent(self.agent)


class CarriedAgent(Agent):
    """An `Agent` behind a carrier. Its folder is a path on its machine."""

    def __init__(self, carrier: DaskCarrier, folder: Path, answer: Mapping[str, Any]) -> None:
        self.dir = folder
        self._carrier = carrier
        self._lock = threading.Lock()
        self._greeted(answer)

    def ask(self, kind: str, bound_s: float, **fields: Any) -> dict[str, Any]:
        return answered(self._carrier.ask(kind, bound_s, fields))

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Refuse, since no thread of this machine can join a network there."""
        yield

    def close(self) -> None:
        self._carrier.close()

"""An agent whose messages something else carries: on another machine, by Dask."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from svload.host.agent.client import Agent, answered


class Carrier(Protocol):
    """Brings a message to one machine's agent and its answer back, or says that the machine is lost."""

    def ask(self, kind: str, bound_s: float, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The agent's answer. Raises SvloadError agent-lost where none comes within `bound_s`."""

    def close(self) -> None:
        """End the agent there; one that is lost ends by itself."""


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

"""The processes that act in a run: the machine's agent with its generators and its sampler, started together.

None of them needs the study: `svload load` starts them on the other core while it still reads and checks the
study (`EarlyHands`). So nothing that they import may know or validate a study.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from svload.model.errors import SvloadError, fail

if TYPE_CHECKING:
    from svload.drive.generators import Generators
    from svload.host import Agent, CoreSplit, Machine, StartingAgent
    from svload.watch import Sampler

_JOIN_BOUND_S = 60.0


@dataclass
class Hands:
    """A machine with started generators and sampler, which have not reported yet. `close` ends them all."""

    machine: Machine
    generators: Generators
    sampler: Sampler

    @property
    def agent(self) -> Agent:
        return self.machine.agent

    @property
    def cores(self) -> CoreSplit:
        return self.machine.cores

    def close(self) -> None:
        """End the agent and everything that it started."""
        self.machine.close()


def start_hands(folder: Path, owner: str, generators: int, own_network: bool = False) -> Hands:
    """Start the agent, `generators` generator processes and the sampler in `folder`; with `own_network` in a
    separate network for the lab, where root allows it. Raise SvloadError agent-refused, agent-lost."""
    return _hands_of(_launch(folder, owner, own_network), generators)


def _launch(folder: Path, owner: str, own_network: bool = False) -> StartingAgent:
    from svload.host import launch_agent

    return launch_agent(folder, owner, own_network=own_network)


def _hands_of(starting: StartingAgent, generators: int) -> Hands:
    """Return the hands; their imports run while the agent starts."""
    from svload.drive.generators import Generators
    from svload.host import LocalMachine
    from svload.watch import Sampler

    machine = LocalMachine(starting.connect())
    agent, cores = machine.agent, machine.cores
    try:
        made = Generators(agent, agent.dir, cores.load if cores.pinned else None)
        made.ensure(generators)
        sampler = Sampler(agent, agent.dir, cores.servers if cores.pinned else None)
        sampler.spawn()
    except BaseException:
        machine.close()
        raise
    return Hands(machine, made, sampler)


class EarlyHands:
    """Hands that are being started: the agent's process immediately, the others by a thread. Whoever takes
    them must close them."""

    def __init__(self, folder: Path, owner: str, generators: int) -> None:
        self._made: Hands | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        try:
            starting = _launch(folder, owner)
        except (SvloadError, OSError) as why:  # reported to the taker
            self._error = why
            return
        self._thread = threading.Thread(target=self._finish, args=(starting, generators), daemon=True)
        self._thread.start()

    def _finish(self, starting: StartingAgent, generators: int) -> None:
        try:
            self._made = _hands_of(starting, generators)
        except BaseException as why:  # reported to the taker
            self._error = why

    def wait(self) -> None:
        """Wait until they have been started. Raise what their start raised."""
        if self._thread is not None:
            self._thread.join(_JOIN_BOUND_S)
        if self._made is None:
            raise self._error or fail("agent-lost", reason=f"it was not up within {_JOIN_BOUND_S:g} s")

    def are_well(self) -> bool:
        """Return whether they have been started and answer."""
        try:
            return self._made is not None and self._made.agent.clock() > 0
        except SvloadError:
            return False

    def take(self) -> Hands:
        """Return the hands when they have been started; call it only once. Raise what their start raised."""
        self.wait()
        made, self._made = self._made, None
        assert made is not None
        return made

    def drop(self) -> None:
        """End them if they were not taken."""
        with contextlib.suppress(Exception):
            self.take().close()


_ready: list[EarlyHands] = []


def hold_ready(owner: str, generators: int) -> EarlyHands:
    """Start hands that the next `early_hands` of this process finds. If not taken, the caller drops them."""
    hands = _start_early(owner, generators)
    _ready.append(hands)
    return hands


def _start_early(owner: str, generators: int) -> EarlyHands:
    from svload.host import labs_dir

    return EarlyHands(labs_dir() / f"{owner}-{os.getpid()}", owner, generators)


@contextmanager
def early_hands(owner: str, generators: int) -> Iterator[EarlyHands | None]:
    """Start hands beside the body, which may take them; None while another load runs on this machine, which
    they would disturb."""
    from svload.host.machine.lock import is_locked

    if not _ready and is_locked():
        yield None
        return
    hands = _ready.pop() if _ready else _start_early(owner, generators)
    try:
        yield hands
    finally:
        hands.drop()

"""The part of a run on a machine of a fleet: it owns an agent, forwards messages to it, and answers clock
requests.

A Dask actor, one per machine, which is the cluster's only task there. It lives as long as the controller
sends signs of life.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pkgutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from svload.host.machine.lock import machine_lock
from svload.model.errors import SvloadError, fail, refusal_line

SILENCE_S = 4.0
"""After this time without a message the controller counts as gone: load ends within 5 s of its death."""
_GREETED_WITHIN_S = 60.0
"""The limit before the first greeting, when there is no load: machines are greeted one by one, and some are
slower by many seconds."""
_BUSY_WITHIN_S = 10.0
"""How long another run's lock is waited for: a bearer whose controller was killed releases it within 5 s."""
_LOOK_S = 0.25
_AT_ONCE = 8


class Bearer:
    """An agent of the machine `name`, owned by this process, and that machine's lock for the run `owner`.

    `word`: the run's secret, which its clock's clients send.
    `controller`: the text in the lock of the controller's machine, which may be this one. `ends_worker`: the
    worker is the run's own, and ends when the controller is gone. Raises SvloadError fleet-busy."""

    def __init__(
        self, name: str, owner: str, port: int, word: str, controller: str = "", ends_worker: bool = False
    ) -> None:
        from svload.host.agent.client import start_agent
        from svload.host.agent.folders import labs_dir
        from svload.host.agent.leftovers import finish_leftovers

        with contextlib.ExitStack() as stack:
            _hold_machine(stack, name, owner, word, controller)
            self._left = finish_leftovers()
            self._agent = start_agent(labs_dir() / f"{owner}-{name}-{os.getpid()}", owner)
            self._lock = stack.pop_all()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="svload-ask")
        self._heard = time.monotonic() + _GREETED_WITHIN_S
        self._ends_worker, self._released = ends_worker, threading.Event()
        self._listening: socket.socket | None = None
        self._port, self._closed = 0, ""
        self._hands: dict[str, Any] = {}
        self._answer_for_the_clock(port, word)
        threading.Thread(target=self._watch, daemon=True).start()

    def _answer_for_the_clock(self, port: int, word: str) -> None:
        from svload.host.clock.answerer import listen, serve

        try:
            self._listening = listen(port)
        except OSError as why:
            self._closed = why.strerror or str(why)
            return
        self._port = self._listening.getsockname()[1]
        threading.Thread(target=serve, args=(self._listening, word.encode()), daemon=True).start()

    def _watch(self) -> None:
        while time.monotonic() - self._heard < SILENCE_S:
            if self._released.wait(_LOOK_S):
                return
        self._let_go()
        if self._ends_worker:  # sshd may notice much later that nobody is there
            os._exit(0)

    async def hello(self) -> dict[str, Any]:
        """Return the agent's facts, its folder, what the machine can carry, what killed svloads had left
        there, and the port of its clock, or why there is none."""
        from svload.host.machine.conditions import machine

        self._heard = time.monotonic()
        return {
            "greeting": dict(self._agent.greeting),
            "dir": str(self._agent.dir),
            "machine": machine().model_dump(mode="json"),
            "pid": os.getpid(),
            "left": [(one.lab, one.what, one.undone, str(one.journal)) for one in self._left],
            "clock_port": self._port,
            "clock_closed": self._closed,
        }

    async def beat(self) -> None:
        """Note that the controller is alive."""
        self._heard = time.monotonic()

    async def room(self, wanted: int) -> dict[str, Any]:
        """Return how many connections its generators can hold."""
        from svload.host.machine.facts import connection_room

        return connection_room(wanted).model_dump(mode="json")

    async def ask(self, kind: str, bound_s: float, fields: dict[str, Any]) -> dict[str, Any]:
        """Send a message to the agent and return its answer, which may be a failure."""
        self._heard = time.monotonic()
        asked = partial(self._agent.ask, kind, bound_s, **fields)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, asked)
        except SvloadError as why:
            return refusal_line(why)

    async def hand(self, name: str, made_by: str, fields: dict[str, Any]) -> None:
        """Keep an object of a higher-level package: `made_by` (`module:class`), called with the agent."""
        self._heard = time.monotonic()
        make = partial(pkgutil.resolve_name(made_by), self._agent, **fields)
        self._hands[name] = await asyncio.get_running_loop().run_in_executor(self._pool, make)

    async def tell(self, name: str, method: str, words: tuple[Any, ...]) -> Any:
        """Call a method of the object kept under `name`; it may take long."""
        called = partial(getattr(self._hands[name], method), *words)
        return await asyncio.get_running_loop().run_in_executor(self._pool, called)

    def _let_go(self) -> None:
        if self._listening is not None:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)  # wakes the waiting thread, unlike close
            self._listening.close()
        self._agent.close()
        self._lock.close()

    async def close(self) -> None:
        """End the agent with all that it started. The worker may be somebody else's, and goes on."""
        self._released.set()
        await asyncio.get_running_loop().run_in_executor(self._pool, self._let_go)
        self._pool.shutdown(wait=False)


class _HeldByThisRun(Exception):
    pass


def _hold_machine(stack: contextlib.ExitStack, name: str, owner: str, word: str, controller: str) -> None:
    """Take the machine's lock, unless the controller, or another worker of the same run, has it here. Raises
    SvloadError fleet-busy."""
    run = hashlib.sha256(word.encode()).hexdigest()[:8]

    def on_wait(holder: str) -> None:
        if run in holder or (controller and holder.startswith(controller)):
            raise _HeldByThisRun

    try:
        stack.enter_context(machine_lock(f"svload run {owner} ({run})", _BUSY_WITHIN_S, on_wait))
    except _HeldByThisRun:
        return
    except SvloadError as why:
        [problem] = why.problems
        if problem.code != "machine-busy":
            raise
        raise fail("fleet-busy", host=name, owner=problem.details["owner"]) from why

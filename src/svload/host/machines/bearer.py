"""What a machine of a fleet does for a run: it has an agent, hands its messages on, and answers for its clock.

A Dask actor, one a machine: the cluster's only task there. It lives as long as the controller says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pkgutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from svload.model.errors import SvloadError

SILENCE_S = 4.0
"""A controller that has said nothing for so long is gone: the load ends within 5 s of its death."""
_GREETED_WITHIN_S = 60.0
"""Before it is greeted there is no load: machines are greeted one after another, and some are slower by many seconds."""
_LOOK_S = 0.25
_AT_ONCE = 8


class Bearer:
    """An agent of this machine's, whose owner is the process that this runs in. `word` is what may ask its clock."""

    def __init__(self, name: str, owner: str, port: int, word: str) -> None:
        from svload.host.agent.client import start_agent
        from svload.host.agent.folders import labs_dir
        from svload.host.agent.leftovers import finish_leftovers
        from svload.model.messages import Lease

        self._left = finish_leftovers()
        self._agent = start_agent(labs_dir() / f"{name}-{os.getpid()}", Lease(), owner)
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="svload-ask")
        self._heard = time.monotonic() + _GREETED_WITHIN_S
        self._listening: socket.socket | None = None
        self._port, self._closed = 0, ""
        self._hands: dict[str, Any] = {}
        self._answer_for_the_clock(port, word)
        threading.Thread(target=self._watch, daemon=True).start()

    def _answer_for_the_clock(self, port: int, word: str) -> None:
        from svload.host.clock.answerer import serve

        try:
            self._listening = socket.create_server(("", port), backlog=16)
        except OSError as why:
            self._closed = why.strerror or str(why)
            return
        self._port = self._listening.getsockname()[1]
        threading.Thread(target=serve, args=(self._listening, word.encode()), daemon=True).start()

    def _watch(self) -> None:
        while time.monotonic() - self._heard < SILENCE_S:
            time.sleep(_LOOK_S)
        self._let_go()

    async def hello(self) -> dict[str, Any]:
        """What the agent said of itself, its folder, what the machine can carry, what killed svloads had left there; where its
        clock answers, or why not."""
        from svload.host.machine.conditions import machine

        self._heard = time.monotonic()
        return {
            "said": dict(self._agent.said),
            "dir": str(self._agent.dir),
            "machine": machine().model_dump(mode="json"),
            "pid": os.getpid(),
            "left": [(one.lab, one.what, one.undone, str(one.journal)) for one in self._left],
            "clock_port": self._port,
            "clock_closed": self._closed,
        }

    async def beat(self) -> None:
        """The controller lives."""
        self._heard = time.monotonic()

    async def room(self, wanted: int) -> dict[str, Any]:
        """How many connections its generators can hold."""
        from svload.host.machine.facts import connection_room

        return connection_room(wanted).model_dump(mode="json")

    async def ask(self, kind: str, bound_s: float, fields: dict[str, Any]) -> dict[str, Any]:
        """A message to the agent, and its answer; a failure is an answer too."""
        self._heard = time.monotonic()
        asked = partial(self._agent.ask, kind, bound_s, **fields)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, asked)
        except SvloadError as why:
            problem = why.problems[0]
            details = {name: str(value) for name, value in problem.details.items()}
            return {"error": {"code": problem.code, "details": details}}

    async def hand(self, name: str, made_by: str, fields: dict[str, Any]) -> None:
        """Keep under `name` what a higher room has for its machine: `made_by` (`module:class`) of the agent and `fields`."""
        self._heard = time.monotonic()
        make = partial(pkgutil.resolve_name(made_by), self._agent, **fields)
        self._hands[name] = await asyncio.get_running_loop().run_in_executor(self._pool, make)

    async def tell(self, name: str, method: str, words: tuple[Any, ...]) -> Any:
        """Call a method of what is kept under `name`; it may take long."""
        called = partial(getattr(self._hands[name], method), *words)
        return await asyncio.get_running_loop().run_in_executor(self._pool, called)

    def _let_go(self) -> None:
        if self._listening is not None:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)  # wakes who waits there; close alone would not
            self._listening.close()
        self._agent.close()

    async def close(self) -> None:
        """End the agent and all that it started; returns when it is gone. The worker may be somebody else's, and live on."""
        await asyncio.get_running_loop().run_in_executor(self._pool, self._let_go)
        self._pool.shutdown(wait=False)

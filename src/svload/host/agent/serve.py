"""The agent's server of requests: nine messages over a Unix socket, and the lease that keeps it alive.

Started by svload.host.agent. When the lease is lost, load is killed immediately, then servers are asked to
stop and killed after a bounded grace, then settings are restored from the journal, then the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Any

from svload.host.agent import journal
from svload.host.agent.children import Children
from svload.host.agent.files import collect, put
from svload.host.agent.folders import SOCKET
from svload.host.agent.groups import Groups
from svload.host.agent.journal import Journal
from svload.host.agent.links import Links
from svload.host.agent.notices import Notices
from svload.host.agent.settings import Settings
from svload.host.agent.unix_socket import is_own, listen
from svload.host.machine import linux
from svload.host.process.interpreter import EXECUTABLE
from svload.host.process.spawn import refused
from svload.model.errors import SvloadError, refusal_line
from svload.model.messages import Action, WriteFile, read_action
from svload.model.outputs import write_output

PROTOCOL = 1
_LINE_BYTES = 256 << 20
_FIRST_HELLO_S = 30.0
_WIND_DOWN_GRACE_S = 2.0
_LEFT_BOUND_S = 3.0
_FATAL_EXIT = 1


def run(
    folder: Path, life: int, ready: int | None, *, first_process: bool, outside: str | None = None
) -> int:
    """Serve the lab in `folder` until its lease is lost; return the exit code, 0 if all was undone.
    `life` closes when the keeper ends.

    `outside` is the file of the machine's network namespace, if this process is in another.
    """
    return asyncio.run(_run(folder, life, ready, first_process, outside))


async def _run(folder: Path, life: int, ready: int | None, first_process: bool, outside: str | None) -> int:
    agent = AgentServer(folder, first_process=first_process, outside=outside)
    listener = listen(folder, SOCKET, 16)
    loop = asyncio.get_running_loop()
    loop.add_reader(life, agent.lose_lease, "the keeper ended")
    loop.add_signal_handler(signal.SIGCHLD, agent.children.reap)
    loop.add_signal_handler(signal.SIGTERM, agent.lose_lease, "SIGTERM")
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    server = await asyncio.start_unix_server(agent.serve_connection, sock=listener, limit=_LINE_BYTES)
    if ready is not None:
        os.write(ready, b"ready\n")  # fails if nobody waits any more
        loop.add_reader(ready, agent.starter_left, ready)
    await agent.live()
    loop.remove_reader(life)
    server.close()
    return await agent.wind_down()


class AgentServer:
    """One lab's state: its children, its journal, its lease."""

    def __init__(self, folder: Path, *, first_process: bool, outside: str | None = None) -> None:
        self._folder, self._first_process, self._own_network = folder, first_process, outside is not None
        self._machine_pid = linux.machine_pid()
        self._journal = Journal(folder)
        self._notices = Notices()
        mark = self._announce_lab()
        self.groups = Groups(mark, self._journal)
        self.settings = Settings(self._journal, outside)
        self.links = Links(own_network=self._own_network)
        self.children = Children(
            mark, self._journal, self._notices, self.groups, self.links, first_process=first_process
        )
        self._lost = asyncio.Event()
        self._owned = False
        self._tasks: set[asyncio.Task[None]] = set()

    def _announce_lab(self) -> str:
        """Journal this lab's mark, unique among all labs since the machine's boot, and return it."""
        own = linux.process_stat(self._machine_pid)
        mark = f"{self._folder.name}-{self._machine_pid}-{own.start_ticks if own else 0}"
        self._journal.announce("lab", name=self._folder.name, mark=mark, boot_id=linux.boot_id())
        return mark

    # the lease

    def lose_lease(self, reason: str) -> None:
        """End; everything that generates load is killed before this returns."""
        if not self._lost.is_set():
            _log(f"the lease ended: {reason}")
        self._lost.set()
        self.children.silence()

    def starter_left(self, ready: int) -> None:
        """Handle the closing of the starter's pipe: the starter has become the owner or is gone."""
        asyncio.get_running_loop().remove_reader(ready)
        os.close(ready)
        if not self._owned:
            self.lose_lease("the process that started it ended before it had an owner")

    async def live(self) -> None:
        """Return when the lease is lost."""
        if not await self._lost_within(_FIRST_HELLO_S) and not self._owned:
            self.lose_lease("its owner never came")
        await self._lost.wait()

    async def _lost_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._lost.wait(), max(0.0, seconds))
        return self._lost.is_set()

    async def wind_down(self) -> int:
        """Stop and restore everything; return 0 if nothing is left."""
        for task in self._tasks:
            task.cancel()
        self.children.silence()
        await self.children.stop(None, _WIND_DOWN_GRACE_S, now=False)
        left = await self._kill_the_rest()
        with contextlib.suppress(OSError):  # what is left of it is undone by the journal
            self.settings.release()
        self._journal.close()
        outcome = journal.undo(self._folder)
        for line in (*outcome.lines, *outcome.failures):
            _log(line)
        return _FATAL_EXIT if left or outcome.failures else 0

    async def _kill_the_rest(self) -> bool:
        """Kill all processes that we adopted; return whether any survives."""
        deadline = time.monotonic() + _LEFT_BOUND_S
        while True:
            if self._first_process:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)
            else:
                _kill_children_of(self._machine_pid)
            self.children.reap()
            if not _has_children():
                return False
            if time.monotonic() > deadline:
                return True
            await asyncio.sleep(0.01)

    # requests

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client's requests, each in its own task; the lease ends with the owner's connection."""
        connection = _Connection(writer)
        if not is_own(writer.get_extra_info("socket")):
            writer.close()
            return
        try:
            while line := await reader.readline():
                task = asyncio.create_task(self._answer(line, connection))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (ConnectionError, ValueError, asyncio.CancelledError) as why:
            _log(f"a connection ended: {why!r}")
        finally:
            writer.close()
            if connection.is_owner:
                self.lose_lease("its owner's connection ended")

    async def _answer(self, line: bytes, connection: _Connection) -> None:
        number: object = None
        try:
            request = json.loads(line)
            number = request.get("id")
            reply = await self._carry_out(request, connection)
        except SvloadError as why:
            reply = refusal_line(why)
        except Exception as why:  # the agent outlives every request
            import traceback

            _log(traceback.format_exc())
            reply = refusal_line(refused(f"{type(why).__name__}: {why}"))
        await connection.send({"id": number, **reply})

    async def _carry_out(self, request: dict[str, Any], connection: _Connection) -> dict[str, Any]:
        kind = request.get("kind")
        if self._lost.is_set():
            raise refused("its lease has ended")
        if kind == "HELLO":
            return self._hello(request, connection)
        if kind == "CLOCK":
            return {"kind": "CLOCK", "monotonic_ns": time.monotonic_ns()}
        if kind == "PREPARE":
            return {"kind": "READY", "results": await self._prepare(request)}
        if kind == "START_AT":
            self.children.start_at(request["children"], int(request["at_ns"]))
            return {"kind": "READY"}
        if kind == "STATUS":
            following, notices = await self._notices.after(
                int(request["since"]), float(request.get("wait_s", 0.0))
            )
            return {
                "kind": "STATUS",
                "next": following,
                "notices": notices,
                "children": self.children.known(),
            }
        if kind == "STOP":
            return await self._stop(request)
        if kind == "COLLECT":
            return collect(request)
        if kind == "PUT":
            if request.get("temporary"):
                self._claim(Path(request["path"]))
            return put(request)
        raise refused(f"it knows no message “{kind}”")

    def _hello(self, request: dict[str, Any], connection: _Connection) -> dict[str, Any]:
        if request.get("version") != PROTOCOL:
            raise refused(
                f"it speaks version {PROTOCOL}, the controller {request.get('version')}",
                "Use one svload on both sides.",
            )
        if self._owned:
            raise refused("it has an owner already")
        self._owned = connection.is_owner = True
        return {
            "kind": "HELLO", "version": PROTOCOL, "agent_pid": self._machine_pid, "machine": platform.node(),
            "python": EXECUTABLE, "cores": sorted(os.sched_getaffinity(0)), "root": os.geteuid() == 0, "isolated": self._first_process,
            "own_network": self._own_network,
        }  # fmt: skip

    async def _stop(self, request: dict[str, Any]) -> dict[str, Any]:
        names = None if request["children"] == "all" else request["children"]
        exits = await self.children.stop(
            names, float(request.get("grace_s", 5.0)), now=bool(request.get("now"))
        )
        return {"kind": "READY", "exits": exits}

    async def _prepare(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            actions = [read_action(raw) for raw in request["actions"]]
        except ValueError as why:
            raise refused(f"it does not understand an action: {why}") from why
        timeout_s = float(request.get("timeout_s", 60.0))
        results: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(timeout_s):
                for action in actions:
                    results.append(await self._act(action))
        except TimeoutError:
            what = actions[len(results)]
            raise refused(
                f"“{what.do}” number {len(results) + 1} was not done within {timeout_s:g} s"
            ) from None
        return results

    async def _act(self, action: Action) -> dict[str, Any]:
        if action.do == "spawn":
            return await self.children.spawn(action)
        if action.do == "tell":
            return await self.children.tell(action.child, action.message, action.timeout_s)
        if action.do == "signal":
            self.children.signal(action.child, getattr(signal, f"SIG{action.signal}"))
            return {}
        if action.do == "group":
            return self.groups.make(action)
        if action.do == "limits":
            return self.groups.set_limits(action)
        if action.do == "ungroup":
            return self.groups.drop(action.name)
        if action.do == "links":
            return self.links.open()
        if action.do == "link":
            return self.links.make(action)
        if action.do == "unlink":
            return self.links.drop(action.name)
        if action.do == "write":
            return self._write(action)
        result = self.settings.hold(action)
        self.links.follow(one["name"] for one in result["settings"] if one["layer"] == "network")
        return result

    def _claim(self, path: Path) -> None:
        """Journal that the file is the lab's, to be removed with it; refuse one that existed before."""
        entries = journal.read_entries(self._folder)
        if any(entry["kind"] == "file" and entry["name"] == str(path) for entry in entries):
            return
        if path.exists():
            raise refused(f"{path} is there already and is not the lab's")
        self._journal.announce("file", name=str(path))

    def _write(self, action: WriteFile) -> dict[str, Any]:
        path = Path(action.path)
        if action.temporary:
            self._claim(path)
        try:
            write_output(path, action.text, action.mode)
        except OSError as why:
            raise refused(f"{path} could not be written: {why.strerror}") from why
        return {"path": str(path)}


def _log(text: str) -> None:
    """Write to the agent's log; a full disk must not keep it from ending."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


class _Connection:
    """The replies to one client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.is_owner = False

    async def send(self, reply: dict[str, Any]) -> None:
        """Send a complete line; it is no error if the client is gone."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
            await self._writer.drain()


def _kill_children_of(pid: int) -> None:
    for found in linux.processes():
        if found.parent == pid:
            linux.send_signal(found.pid, signal.SIGKILL)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True

"""The agent's server of requests: eight messages over a Unix socket, and the lease that it lives by.

Started by svload.host.agent. Lease lost: load is killed at once, then servers are asked to stop and after a bounded grace
killed, then settings go back by the journal, then the process ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import platform
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

from svload.host import journal, linux
from svload.host.children import Children
from svload.host.folders import OWNER, SOCKET
from svload.host.journal import Journal, normal, sysctl_path
from svload.host.notices import Notices
from svload.host.spawn import refused
from svload.host.unix_socket import is_own, listen
from svload.model.errors import SvloadError, fail
from svload.model.messages import Action, SetSysctl, WriteFile, read_action

PROTOCOL = 1
_LINE_BYTES = 256 << 20
_FIRST_HELLO_S = 30.0
_WIND_DOWN_GRACE_S = 2.0
_LEFT_BOUND_S = 3.0
_CLOCK_CHECK_S = 20.0
_COLLECT_BYTES = 8 << 20
_FATAL_EXIT = 1


def run(folder: Path, life: int, ready: int | None, *, first_process: bool) -> int:
    """Serve the lab in `folder` until its lease is lost; the exit code, 0 if all was undone. `life` closes with the keeper."""
    return asyncio.run(_run(folder, life, ready, first_process))


async def _run(folder: Path, life: int, ready: int | None, first_process: bool) -> int:
    agent = AgentServer(folder, first_process=first_process)
    listener = listen(folder, SOCKET, 16)
    loop = asyncio.get_running_loop()
    loop.add_reader(life, agent.lose_lease, "the keeper ended")
    loop.add_signal_handler(signal.SIGCHLD, agent.children.reap)
    loop.add_signal_handler(signal.SIGTERM, agent.lose_lease, "SIGTERM")
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    server = await asyncio.start_unix_server(agent.serve_connection, sock=listener, limit=_LINE_BYTES)
    if ready is not None:
        os.write(ready, b"ready\n")
        os.close(ready)
    await agent.live()
    loop.remove_reader(life)
    server.close()
    return await agent.wind_down()


class AgentServer:
    """One lab's state: its children, its journal, its lease."""

    def __init__(self, folder: Path, *, first_process: bool) -> None:
        self._folder, self._first_process = folder, first_process
        self._lease: dict[str, Any] = json.loads((folder / OWNER).read_text(encoding="utf-8"))["lease"]
        self._machine_pid = linux.machine_pid()
        self._journal = Journal(folder)
        self._notices = Notices()
        mark = self._announce_lab()
        self.children = Children(mark, self._journal, self._notices, first_process=first_process)
        self._lost = asyncio.Event()
        self._owned = False
        self._tasks: set[asyncio.Task[None]] = set()

    def _announce_lab(self) -> str:
        """Journal this lab's mark, unlike that of any other lab since the machine's boot."""
        own = linux.process_stat(self._machine_pid)
        mark = f"{self._folder.name}-{self._machine_pid}-{own.start_ticks if own else 0}"
        self._journal.announce("lab", name=self._folder.name, mark=mark, boot_id=linux.boot_id())
        return mark

    # the lease

    def lose_lease(self, reason: str) -> None:
        """End; whatever makes load is killed before this returns."""
        if not self._lost.is_set():
            print(f"the lease ended: {reason}", file=sys.stderr, flush=True)
        self._lost.set()
        self.children.silence()

    async def live(self) -> None:
        """Return when the lease is lost."""
        if self._lease["kind"] == "connection":
            if not await self._lost_within(_FIRST_HELLO_S) and not self._owned:
                self.lose_lease("its owner never came")
            await self._lost.wait()
        while not self._lost.is_set():
            left_s = float(self._lease["until_wall"]) - time.time()
            if left_s <= 0:
                self.lose_lease("its time is up")
            await self._lost_within(min(left_s, _CLOCK_CHECK_S))

    async def _lost_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._lost.wait(), max(0.0, seconds))
        return self._lost.is_set()

    async def wind_down(self) -> int:
        """Stop everything, put everything back; 0 if nothing is left."""
        for task in self._tasks:
            task.cancel()
        self.children.silence()
        await self.children.stop(None, _WIND_DOWN_GRACE_S, now=False)
        left = await self._kill_the_rest()
        self._journal.close()
        outcome = journal.undo(self._folder)
        for line in (*outcome.lines, *outcome.failures):
            print(line, file=sys.stderr, flush=True)
        return _FATAL_EXIT if left or outcome.failures else 0

    async def _kill_the_rest(self) -> bool:
        """Whether anything that we adopted outlives a kill."""
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
        """Answer one client's requests, each in a task of its own; the owner's end is the lease's end."""
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
            print(f"a connection ended: {why!r}", file=sys.stderr, flush=True)
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
            problem = why.problems[0]
            reply = {
                "error": {
                    "code": problem.code,
                    "details": {key: str(value) for key, value in problem.details.items()},
                }
            }
        except Exception as why:  # the agent outlives every request
            import traceback

            traceback.print_exc()
            reply = {
                "error": {"code": "agent-refused", "details": {"reason": f"{type(why).__name__}: {why}"}}
            }
        await connection.send({"id": number, **reply})

    async def _carry_out(self, request: dict[str, Any], connection: _Connection) -> dict[str, Any]:
        kind = request.get("kind")
        if self._lost.is_set():
            raise refused("its lease has ended")
        if kind == "HELLO":
            return self._hello(request, connection)
        if kind == "CLOCK":
            return {"kind": "CLOCK", "monotonic_ns": time.monotonic_ns(), "wall": time.time()}
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
            return _collect(request)
        raise refused(f"it knows no message “{kind}”")

    def _hello(self, request: dict[str, Any], connection: _Connection) -> dict[str, Any]:
        if request.get("version") != PROTOCOL:
            raise refused(
                f"it speaks version {PROTOCOL}, the controller {request.get('version')}",
                "Use one svload on both sides.",
            )
        if request.get("lease") is not None and self._lease["kind"] == "connection":
            if self._owned:
                raise refused("it has an owner already")
            self._owned = connection.is_owner = True
        return {
            "kind": "HELLO", "version": PROTOCOL, "agent_pid": self._machine_pid, "machine": platform.node(),
            "cores": sorted(os.sched_getaffinity(0)), "root": os.geteuid() == 0, "isolated": self._first_process,
        }  # fmt: skip

    async def _stop(self, request: dict[str, Any]) -> dict[str, Any]:
        names = None if request["children"] == "all" else request["children"]
        exits = await self.children.stop(
            names, float(request.get("grace_s", 5.0)), now=bool(request.get("now"))
        )
        if request.get("end"):
            asyncio.get_running_loop().call_later(0.05, self.lose_lease, "it was told to end")
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
        if action.do == "write":
            return self._write(action)
        return self._set_sysctl(action)

    def _write(self, action: WriteFile) -> dict[str, Any]:
        path = Path(action.path)
        ours = any(
            entry["kind"] == "file" and entry["name"] == str(path)
            for entry in journal.read_entries(self._folder)
        )
        if action.temporary and not ours:
            if path.exists():
                raise refused(f"{path} is there already and is not the lab's")
            self._journal.announce("file", name=str(path))
        fresh = path.with_name(f".{path.name}.svload-new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, action.mode)
            with open(descriptor, "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), action.mode)
                file.write(action.text)
            os.replace(fresh, path)
        except OSError as why:
            fresh.unlink(missing_ok=True)
            raise refused(f"{path} could not be written: {why.strerror}") from why
        return {"path": str(path)}

    def _set_sysctl(self, action: SetSysctl) -> dict[str, Any]:
        try:
            path = sysctl_path(action.name)
            old = path.read_text(encoding="utf-8").rstrip("\n")
            if normal(old) == normal(action.value):
                return {"old": old, "found": old}
            entry = self._journal.announce(
                "sysctl", name=action.name, old=old, value=action.value, network=linux.network_namespace()
            )
            path.write_text(action.value, encoding="utf-8")
            found = path.read_text(encoding="utf-8").rstrip("\n")
        except (OSError, ValueError) as why:
            raise refused(
                f"{action.name} could not be set to {action.value}: {why}", "System settings need root."
            ) from why
        self._journal.found(entry, set_to=found)
        return {"old": old, "found": found}


class _Connection:
    """One client's way back."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.is_owner = False

    async def send(self, reply: dict[str, Any]) -> None:
        """Send a line whole; a client that has gone is no error."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
            await self._writer.drain()


def _collect(request: dict[str, Any]) -> dict[str, Any]:
    """A regular file's bytes from `offset`, at most `max_bytes` of them."""
    path, offset = request["path"], int(request.get("offset", 0))
    wanted = min(int(request.get("max_bytes", _COLLECT_BYTES)), _COLLECT_BYTES)
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise refused(f"{path} is no file")
            file.seek(offset)
            data = file.read(wanted)
    except OSError as why:
        raise fail("agent-refused", reason=f"{path} cannot be read: {why.strerror}", hint="") from why
    return {"kind": "COLLECT", "data": base64.b64encode(data).decode("ascii"), "more": len(data) == wanted}


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

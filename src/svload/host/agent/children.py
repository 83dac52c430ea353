"""The agent's children: starting, messages, signals, stopping, reaping. One event loop, no threads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from svload.host.agent.groups import Groups
from svload.host.agent.journal import Journal, session_of, strays
from svload.host.agent.links import Links
from svload.host.agent.notices import Notices
from svload.host.machine import linux
from svload.host.process import spawn
from svload.host.process.spawn import Started, refused
from svload.model.errors import SvloadError, error_of, fail
from svload.model.messages import Spawn

_TAIL_BYTES = 4096
_LINE_BYTES = 64 << 20
_POLL_S = 0.02
_KILL_BOUND_S = 5.0


@dataclass
class Child:
    """One started process and its state."""

    order: Spawn
    started: Started
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int | None = None
    cleaned: bool = False
    heard: bytes = b""
    unsent: bytes = b""
    hang_up: bool = False
    stdin: int = -1
    stdout: int = -1
    answer: asyncio.Future[dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        return self.order.child

    @property
    def speaks(self) -> bool:
        """Return whether it uses JSON lines on stdin and stdout."""
        return self.order.role in spawn.SPEAKING

    def tail(self) -> str:
        """Return the end of its output in the log, without that of earlier children."""
        try:
            with open(self.order.log, "rb") as log:
                log.seek(max(self.started.log_from, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
                return log.read(_TAIL_BYTES).decode("utf-8", "replace").strip()
        except OSError:
            return ""


class Children:
    """All children by name. `mark` is in the environment of each. `first_process`: this is the first process
    of a separate PID namespace."""

    def __init__(
        self,
        mark: str,
        journal: Journal,
        notices: Notices,
        groups: Groups,
        links: Links,
        *,
        first_process: bool,
    ) -> None:
        self._mark, self._journal, self._notices = mark, journal, notices
        self._groups, self._links = groups, links
        self._first_process = first_process
        self._loop = asyncio.get_running_loop()
        self._by_name: dict[str, Child] = {}
        self._by_pid: dict[int, Child] = {}

    # asked for by actions

    async def spawn(self, order: Spawn) -> dict[str, Any]:
        """Start a child, wait for it if it is a tool; return the result. Raises SvloadError agent-refused."""
        if not order.argv:
            raise refused(f"{order.child} names no program")
        before = self._by_name.get(order.child)
        if before is not None:
            if before.exit_code is None:
                raise refused(f"{order.child} runs already")
            await self._stop_one(before, 0.0, now=True)
        groups = self._folders(order)
        network = None if order.link is None else self._links.network(order.link)
        try:
            started = spawn.start(
                order, self._mark, self._journal, groups, network, die_with_us=not self._first_process
            )
        except SvloadError:
            with contextlib.suppress(OSError):  # it is removed with the lab
                self._groups.end(order.child)
            raise
        child = Child(order, started, stdin=started.stdin, stdout=started.stdout)
        self._by_name[child.name] = self._by_pid[started.pid] = child
        if child.speaks:
            self._loop.add_reader(child.stdout, self._hear, child)
        result: dict[str, Any] = {
            "pid": started.machine_pid,
            "start_ticks": started.start_ticks,
            "limits": started.limits,
        }
        return {**result, **await self._run_tool(child)} if order.role == "tool" else result

    def _folders(self, order: Spawn) -> tuple[str, ...]:
        """Return the folders of the control group that it is started in: its service's, or a server's without
        limits, so that descendants outside its session can be ended with it."""
        if order.group is not None:
            return self._groups.folders(order.group)
        return self._groups.track(order.child) if order.role == "server" else ()

    async def tell(self, name: str, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a line and return the child's answer. Raises SvloadError: the child's error, generator-failed,
        agent-refused."""
        child = self._speaking(name)
        if child.answer is not None and not child.answer.done():
            raise refused(f"{name} was sent a message and has not answered yet")
        child.answer = self._loop.create_future()
        self._say(child, message)
        try:
            line = await asyncio.wait_for(child.answer, timeout_s)
        except TimeoutError:
            raise fail("generator-failed", reason=f"{name} did not answer within {timeout_s:g} s") from None
        finally:
            child.answer = None
        if "error" not in line:
            return line
        raise error_of(name, line["error"])

    def start_at(self, names: Sequence[str], at_ns: int) -> None:
        """Tell all of them when to start. Raises SvloadError agent-refused before telling any."""
        for child in [self._speaking(name) for name in names]:
            self._say(child, {"start_at_ns": at_ns})

    def signal(self, name: str, number: int) -> None:
        """Signal the child's whole session. Raises SvloadError agent-refused if it has ended."""
        child = self._living(name)
        self._signal_group(child, number)
        for member in self._session(child):
            if member.group != child.started.machine_pid:
                linux.send_signal(member.pid, number)

    def known(self) -> dict[str, int | None]:
        """Return every child's exit code, None while it runs."""
        return {name: child.exit_code for name, child in self._by_name.items()}

    async def stop(self, names: Iterable[str] | None, grace_s: float, *, now: bool) -> dict[str, int]:
        """Stop these children (None: all that are left), generators and monitors first; return their exit
        codes. Raises agent-refused for unknown ones."""
        if names is None:
            chosen = [child for child in self._by_name.values() if not child.cleaned]
        else:
            chosen = [self._child(name) for name in names]
        for first in (True, False):
            phase = [child for child in chosen if child.speaks is first]
            await asyncio.gather(*(self._stop_one(child, grace_s, now=now) for child in phase))
        return {child.name: child.exit_code for child in chosen if child.exit_code is not None}

    def silence(self) -> None:
        """Immediately kill all children that generate load, and tools."""
        for child in self._by_name.values():
            if child.order.role != "server" and child.exit_code is None:
                self._signal_group(child, signal.SIGKILL)

    # the life of a child

    async def _run_tool(self, child: Child) -> dict[str, Any]:
        try:
            await asyncio.wait_for(child.ended.wait(), child.order.timeout_s)
        except TimeoutError:
            await self._stop_one(child, 0.0, now=True)
            reason = (
                f"{child.name} did not end within {child.order.timeout_s:g} s and was killed; its last "
                f"words: {child.tail()}"
            )
            raise refused(reason, f"See {child.order.log}.") from None
        finally:
            await asyncio.shield(self._stop_one(child, 0.0, now=True))
        if child.cleaned:  # nobody asks for it again, and every trial has some
            del self._by_name[child.name]
        return {"exit": child.exit_code, "tail": child.tail()}

    async def _stop_one(self, child: Child, grace_s: float, *, now: bool) -> None:
        """Ask it to end, wait up to `grace_s`, then kill it; end its session and close our pipes."""
        deadline = self._loop.time() + (0.0 if now else grace_s)
        if child.exit_code is None and not now:
            self._ask_to_end(child)
            await _wait(child.ended, deadline - self._loop.time())
        if child.exit_code is None:
            self._signal_group(child, signal.SIGKILL)
        if not await _wait(child.ended, _KILL_BOUND_S):
            self._notices.add(
                child.name, "note", {"text": f"pid {child.started.machine_pid} can't be stopped"}
            )
        await self._clean(child, deadline)

    def _ask_to_end(self, child: Child) -> None:
        if child.speaks:
            self._say(child, {"stop": True})
            child.hang_up = True
            self._flush(child)
            self._signal_group(child, signal.SIGCONT)
            return
        self._signal_group(child, getattr(signal, f"SIG{child.order.stop_signal}"))
        self._signal_group(child, signal.SIGCONT)

    async def _clean(self, child: Child, deadline: float) -> None:
        """Wait for its remaining processes until `deadline`, then kill them, in its session and outside."""
        if child.cleaned:
            return
        given_up_at = max(deadline, self._loop.time()) + _KILL_BOUND_S
        while (left := self._left(child)) and self._loop.time() < given_up_at:
            if self._loop.time() >= deadline:
                for member in left:
                    linux.send_signal(member.pid, signal.SIGKILL)
            await asyncio.sleep(_POLL_S)
        try:
            self._groups.end(child.name)
        except OSError as why:
            self._notices.add(child.name, "note", {"text": f"what it started can't be stopped: {why}"})
            return
        if child.exit_code is None or left:
            return
        self._hang_up(child)
        child.cleaned = True
        self._journal.done(child.started.entry)

    def _left(self, child: Child) -> list[linux.ProcessStat]:
        """Return the living processes of its session or, if there are none, those that it started outside."""
        left = self._session(child)
        return left or (strays(self._mark, child.name) if child.order.role == "server" else [])

    def _session(self, child: Child) -> list[linux.ProcessStat]:
        started = child.started
        return session_of(
            started.machine_pid, started.start_ticks, self._mark, own_namespace=self._first_process
        )

    def _signal_group(self, child: Child, number: int) -> None:
        """Signal the process group, safe until the leader is reaped, since its pid can't be reused before."""
        if child.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.started.pid, number)

    def reap(self) -> None:
        """Reap everything that has ended, including orphans of our children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._by_pid.pop(pid, None)
            if child is not None:
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: Child, code: int) -> None:
        if child.stdout >= 0:
            self._hear(child)
        child.exit_code = code
        if child.answer is not None and not child.answer.done():
            reason = f"{child.name} ended (exit {code}) instead of answering. Its last output: {child.tail()}"
            child.answer.set_exception(fail("generator-failed", reason=reason))
        self._notices.add(child.name, "exit", {"exit": code, "role": child.order.role, "tail": child.tail()})
        child.ended.set()

    # speech

    def _say(self, child: Child, message: dict[str, Any]) -> None:
        child.unsent += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self._flush(child)

    def _flush(self, child: Child) -> None:
        """Write what the pipe accepts, the rest later; close it when all is written and we hang up."""
        if child.stdin < 0:
            return
        try:
            while child.unsent:
                child.unsent = child.unsent[os.write(child.stdin, child.unsent) :]
        except BlockingIOError:
            self._loop.add_writer(child.stdin, self._flush, child)
            return
        except OSError:
            child.unsent, child.hang_up = b"", True
        self._loop.remove_writer(child.stdin)
        if child.hang_up:
            os.close(child.stdin)
            child.stdin = -1

    def _hear(self, child: Child) -> None:
        """Read everything available; complete lines are answers or notices."""
        while child.stdout >= 0:
            try:
                piece = os.read(child.stdout, 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            if not piece:
                self._close_stdout(child)
                return
            *lines, child.heard = (child.heard + piece).split(b"\n")
            for line in lines:
                self._heard_line(child, line)
            if len(child.heard) > _LINE_BYTES:
                self._notices.add(child.name, "note", {"text": "a line was too long and is lost"})
                child.heard = b""

    def _heard_line(self, child: Child, line: bytes) -> None:
        try:
            data = json.loads(line)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            if line.strip():
                self._notices.add(child.name, "note", {"text": line.decode("utf-8", "replace")})
        elif child.answer is not None and not child.answer.done() and ("ready" in data or "error" in data):
            child.answer.set_result(data)
        else:
            self._notices.add(child.name, "line", data)

    def _hang_up(self, child: Child) -> None:
        child.hang_up, child.unsent = True, b""
        self._flush(child)
        if child.stdout >= 0:
            self._hear(child)
        self._close_stdout(child)

    def _close_stdout(self, child: Child) -> None:
        if child.stdout >= 0:
            self._loop.remove_reader(child.stdout)
            os.close(child.stdout)
            child.stdout = -1

    # by name

    def _child(self, name: str) -> Child:
        if name not in self._by_name:
            raise refused(f"there is no child “{name}”")
        return self._by_name[name]

    def _living(self, name: str) -> Child:
        child = self._child(name)
        if child.exit_code is not None:
            raise refused(f"{name} has ended (exit {child.exit_code})")
        return child

    def _speaking(self, name: str) -> Child:
        child = self._living(name)
        if not child.speaks:
            raise refused(f"{name} is a {child.order.role} and takes no messages")
        return child


async def _wait(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), max(0.0, timeout_s))
    except TimeoutError:
        return event.is_set()
    return True

"""The controller's side of the agent: starting, connecting and requests."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import queue
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from svload.host.agent import journal
from svload.host.agent.files import PART_BYTES
from svload.host.agent.folders import AGENT_LOG, JOURNAL, LOCK, NEW_OWNER, OWNER, SOCKET
from svload.host.agent.unix_socket import is_own, short_path
from svload.host.machine import linux
from svload.host.process.interpreter import child_environment, python
from svload.host.process.readable import readable
from svload.model.errors import CATALOGUE, Problem, SvloadError, fail
from svload.model.messages import Action, Notice
from svload.model.private import private_folder

PROTOCOL = 1
_START_BOUND_S = 30.0
_REPLY_BOUND_S = 30.0
_SEND_BOUND_S = 30
END_BOUND_S = 20.0
"""How long an agent may take to end and undo everything once its controller is gone."""
_LOCK_BOUND_S = 1.0
_MORE_S = 10.0


class Agent:
    """One machine's agent, as its controller sees it. One thread may send requests while another waits in
    `status`.

    `pid` is the agent's machine pid; `python` the interpreter that runs svload there; `cores` those that it
    may use; `root` whether it may set limits and settings; `isolated` whether it shares a PID namespace with
    its children (their own pids are then not the machine's); `own_network` whether they share a separate
    network namespace. Every method raises SvloadError agent-lost if the connection is lost and agent-refused
    for what the agent cannot do.
    """

    def __init__(self, folder: Path, owner: str, keeper: subprocess.Popen[bytes]) -> None:
        self.dir = folder
        self._keeper = keeper
        self._lock = threading.Lock()
        self._next_id = 0
        self._replies: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._lost = ""
        self._closing = False
        self._socket = _connect(folder)
        self._reader = threading.Thread(target=self._read, name="svload-agent", daemon=True)
        self._reader.start()
        try:
            reply = self.ask("HELLO", _REPLY_BOUND_S, version=PROTOCOL, owner=owner)
        except BaseException:
            self._hang_up()
            raise
        self._greeted(reply)

    def _greeted(self, reply: Mapping[str, Any]) -> None:
        self.greeting: Mapping[str, Any] = reply
        self.pid: int = reply["agent_pid"]
        self.machine: str = reply["machine"]
        self.python: str = reply["python"]
        self.cores: tuple[int, ...] = tuple(reply["cores"])
        self.root: bool = reply["root"]
        self.isolated: bool = reply["isolated"]
        self.own_network: bool = reply["own_network"]

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Move this thread into the lab's network, where its servers are. Raises SvloadError."""
        if not self.own_network:
            yield
            return
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(linux.in_network(f"/proc/{self.pid}/ns/net"))
            except OSError as why:
                raise fail("agent-refused", reason=f"its network cannot be joined ({why})", hint="") from why
            yield

    def clock(self) -> int:
        """Return CLOCK_MONOTONIC of the agent's machine, that of all loads and monitors, in ns."""
        now: int = self.ask("CLOCK", _REPLY_BOUND_S)["monotonic_ns"]
        return now

    def prepare(self, actions: Sequence[Action], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        """Carry out the actions in order and return one result each. Stops at the first failure, without
        undoing the earlier ones.

        `timeout_s` bounds all of them; timeouts of tools and of answers are added. Errors answered by
        speaking children are raised, too.
        """
        for action in actions:
            if action.do == "tell" or (action.do == "spawn" and action.role == "tool"):
                timeout_s += action.timeout_s
        plain = [action.plain() for action in actions]
        reply = self.ask("PREPARE", timeout_s + _MORE_S, actions=plain, timeout_s=timeout_s)
        results: list[dict[str, Any]] = reply["results"]
        return results

    def start_at(self, children: Sequence[str], at_ns: int) -> None:
        """Tell generators to start at `at_ns` of the agent's monotonic clock (0: now)."""
        self.ask("START_AT", _REPLY_BOUND_S, children=list(children), at_ns=at_ns)

    def status(self, since: int, wait_s: float = 0.0) -> tuple[int, list[Notice]]:
        """Return the notices from number `since` (at most 1,000) and the number to request next. Waits up to
        `wait_s` for the first.

        A negative `since` means from now on: `status(-1)` returns the first number to request.
        """
        reply = self.ask("STATUS", wait_s + _REPLY_BOUND_S, since=since, wait_s=wait_s)
        return reply["next"], [Notice.read(notice) for notice in reply["notices"]]

    def exited(self, child: str) -> int | None:
        """Return the exit code (negative: the signal) if the child has ended, else None. Raises agent-refused
        for an unknown child."""
        known: dict[str, int | None] = self.ask("STATUS", _REPLY_BOUND_S, since=1 << 60, wait_s=0.0)[
            "children"
        ]
        if child not in known:
            raise fail("agent-refused", reason=f"there is no child “{child}”", hint="")
        return known[child]

    def stop(
        self, children: Sequence[str] | None = None, grace_s: float = 5.0, now: bool = False
    ) -> dict[str, int]:
        """Stop children (None: all), generators and monitors before the others; return their exit codes
        (negative: the signal).

        A speaking child gets {"stop": true} and the end of input, any other its stop signal. Those that still
        run after `grace_s`, or with `now` immediately, are killed with their sessions. Bounded by grace_s +
        10 s for each of the two phases.
        """
        names = "all" if children is None else list(children)
        bound_s = 2 * (grace_s + 10.0) + _MORE_S
        exits: dict[str, int] = self.ask("STOP", bound_s, children=names, grace_s=grace_s, now=now)["exits"]
        return exits

    def collect(self, path: str | Path, offset: int = 0) -> bytes:
        """Read a file of the agent's machine from `offset` to its end."""
        data = b""
        while True:
            reply = self.ask("COLLECT", _REPLY_BOUND_S, path=str(path), offset=offset + len(data))
            data += base64.b64decode(reply["data"])
            if not reply["more"]:
                return data

    def put(self, path: str | Path, data: bytes, mode: int = 0o644, *, temporary: bool = False) -> None:
        """Write a file there atomically, with its parents; `temporary`: removed when the lab ends."""
        for offset in range(0, max(1, len(data)), PART_BYTES):
            part = data[offset : offset + PART_BYTES]
            self.ask(
                "PUT", _REPLY_BOUND_S, path=str(path), offset=offset, data=base64.b64encode(part).decode("ascii"),
                more=offset + len(part) < len(data), mode=mode, temporary=temporary,
            )  # fmt: skip

    def close(self) -> None:
        """Close the connection, which ends the lab; return when everything is gone (bounded by 20 s)."""
        self._closing = True
        with _gone(self.dir):
            self._hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(timeout=END_BOUND_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, kind: str, bound_s: float, **fields: Any) -> dict[str, Any]:
        """Send one message and return its answer, within `bound_s`."""
        answer: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self._lock:
            if self._lost:
                raise fail("agent-lost", reason=self._lost)
            number, self._next_id = self._next_id, self._next_id + 1
            self._replies[number] = answer
            try:
                self._socket.sendall(json.dumps({"id": number, "kind": kind, **fields}).encode() + b"\n")
            except OSError as why:
                self._replies.pop(number, None)
                self._shut_down()
                raise fail("agent-lost", reason=self._why_lost(str(why))) from why
            except BaseException:
                self._shut_down()
                raise
        try:
            reply = answer.get(timeout=bound_s)
        except queue.Empty:
            raise fail("agent-lost", reason=f"no answer to {kind} within {bound_s:.0f} s") from None
        finally:
            self._replies.pop(number, None)
        if reply is None:
            raise fail("agent-lost", reason=self._lost)
        return answered(reply)

    def _read(self) -> None:
        """Hand each reply to the thread that waits for it; at the end, nothing to all."""
        reason = "its connection closed"
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    reply = json.loads(line)
                    waiting = self._replies.get(reply["id"])
                    if waiting is not None:
                        waiting.put(reply)
        except (OSError, ValueError) as why:
            reason = str(why)
        with self._lock:
            self._lost = self._why_lost(reason)
            for waiting in list(self._replies.values()):
                waiting.put(None)

    def _why_lost(self, reason: str) -> str:
        last = "" if self._closing else _tail(self.dir / AGENT_LOG)
        return f"{reason}; its last output: {last}" if last else reason

    def _shut_down(self) -> None:
        """End the connection, such as after part of a line: the agent could not parse later ones."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _hang_up(self) -> None:
        self._shut_down()
        self._reader.join(timeout=_MORE_S)
        self._socket.close()


def answered(reply: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's answer. Raises SvloadError if it reports a failure."""
    if "error" in reply:
        code = reply["error"]["code"]
        raise SvloadError(Problem(code if code in CATALOGUE else "agent-refused", reply["error"]["details"]))
    return reply


class StartingAgent:
    """An agent whose process has been started and may not answer yet. `connect` is called once; if nobody
    connects, the agent ends by itself."""

    def __init__(self, folder: Path, owner: str, keeper: subprocess.Popen[bytes], ready: int) -> None:
        self.folder = folder
        self._owner = owner
        self._keeper = keeper
        self._ready = ready

    def connect(self) -> Agent:
        """Return the agent once it answers. Raises SvloadError agent-lost with its last output."""
        try:
            _await_ready(self.folder, self._ready)
            return Agent(self.folder, self._owner, self._keeper)
        finally:
            os.close(self._ready)  # until the agent has an owner, this pipe shows whether we live


def launch_agent(
    folder: Path, owner: str, *, isolate: bool = True, own_network: bool = False
) -> StartingAgent:
    """Start this machine's agent without waiting for it, otherwise like `start_agent`."""
    folder = folder.absolute()
    made, lock = _claim(folder)
    try:
        _write_owner(folder, owner, made)
        ready_read, ready_write = os.pipe()
        try:
            more = [*([] if isolate else ["--plain"]), *(["--own-network"] if own_network else [])]
            keeper = _popen(folder, lock, ready_write, more)
        except BaseException:
            os.close(ready_read)
            raise
        finally:
            os.close(ready_write)
    finally:
        os.close(lock)
    return StartingAgent(folder, owner, keeper, ready_read)


def start_agent(folder: Path, owner: str, *, isolate: bool = True, own_network: bool = False) -> Agent:
    """Start this machine's agent for a lab in `folder` (if missing, it is created with mode 0700 and removed
    with the lab); what a dead agent left there is undone first.

    `owner` names the lab's owner to others. With `isolate` False there is no PID namespace; with
    `own_network` there is a separate network namespace (without root there are none anyway). Raises
    SvloadError agent-refused (a living agent has the folder) or agent-lost (it did not come up, with its last
    output).
    """
    return launch_agent(folder, owner, isolate=isolate, own_network=own_network).connect()


def _popen(folder: Path, lock: int, ready: int, more: Sequence[str]) -> subprocess.Popen[bytes]:
    command = python("-m", "svload.host.agent", "--dir", str(folder), "--lock-fd", str(lock))
    command += ("--ready-fd", str(ready), *more)
    with open(folder / AGENT_LOG, "ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=child_environment(),  # the user's, without the settings of host/algebra for the C library
            pass_fds=(lock, ready),
            start_new_session=True,
        )


def _await_ready(folder: Path, descriptor: int) -> None:
    if not readable(descriptor, _START_BOUND_S):
        raise fail(
            "agent-lost",
            reason=f"it did not come up within {_START_BOUND_S:.0f} s; {_tail(folder / AGENT_LOG)}",
        )
    if os.read(descriptor, 16) != b"ready\n":
        raise fail("agent-lost", reason=f"it did not come up; {_tail(folder / AGENT_LOG)}")


def _write_owner(folder: Path, owner: str, made: bool) -> None:
    own = linux.process_stat("self")
    assert own is not None
    text = json.dumps(
        {
            "format": 1, "owner": owner, "controller_pid": own.pid, "controller_start_ticks": own.start_ticks,
            "started_wall": time.time(), "made_folder": made,
        },
        indent=1,
    )  # fmt: skip
    fresh = folder / NEW_OWNER
    fresh.write_text(text + "\n", encoding="utf-8")
    os.replace(fresh, folder / OWNER)


def _claim(folder: Path) -> tuple[bool, int]:
    """Create the folder, or take it over and undo what a dead agent left; return whether we created it, and
    its lock.

    Raises SvloadError agent-refused if a living agent has it or something of a dead one cannot be undone.
    """
    made, deadline = False, time.monotonic() + _LOCK_BOUND_S
    while time.monotonic() < deadline:
        if not folder.exists():
            private_folder(folder)
            made = True
        with contextlib.suppress(FileNotFoundError):
            lock = try_lock(folder)
            if lock is not None:
                _take_over(folder, lock)
                return made, lock
        time.sleep(0.02)
    hint = "Use it, or end it with “svload lab down”."
    raise fail("agent-refused", reason=f"{folder} has a living agent already", hint=hint)


def _take_over(folder: Path, lock: int) -> None:
    failures = journal.undo(folder).failures
    if failures:
        os.close(lock)
        raise fail(
            "agent-refused", reason=f"an earlier lab in {folder} cannot be undone: {failures[0]}", hint=""
        )
    (folder / JOURNAL).unlink(missing_ok=True)


def try_lock(folder: Path) -> int | None:
    """Acquire the lab's lock, which the agent inherits; return None if it is taken. Raises FileNotFoundError
    if the folder is missing."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


@contextlib.contextmanager
def _gone(folder: Path) -> Iterator[None]:
    """After the block, wait until neither agent nor keeper of that folder is left (bounded)."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        yield
        return
    try:
        yield
        deadline = time.monotonic() + END_BOUND_S
        while not _is_free(descriptor) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def is_served(folder: Path) -> bool:
    """Return whether a living agent (or its keeper) holds the lab's lock."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _is_free(descriptor)
    finally:
        os.close(descriptor)


def _connect(folder: Path) -> socket.socket:
    """Connect to the lab's socket. Raises SvloadError agent-lost."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_BOUND_S, 0))
    try:
        with short_path(folder, SOCKET) as path:
            connection.connect(path)
        if not is_own(connection):
            raise OSError("another user's process answers there")
    except OSError as why:
        connection.close()
        gone = f"nobody answers at {folder / SOCKET}" if folder.is_dir() else f"{folder} is gone"
        raise fail("agent-lost", reason=gone) from why
    return connection


def _tail(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[-1000:].strip().replace("\n", " | ")
    except OSError:
        return ""

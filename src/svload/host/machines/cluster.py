"""The fleet of one run: Dask's scheduler here, a worker on every machine by SSH, and an agent beside each.

All of Dask's connections are tunnelled through SSH: scheduler and workers listen only on their machines'
loopback. A cluster that somebody else runs (`Joined`) is used through its scheduler's address, with its own
configuration.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.host.machine.lock import last_holder
from svload.host.machine.ports import free_ports
from svload.host.machines.bearer import Bearer
from svload.host.machines.cluster_security import SETTINGS, Pems, make_pems, security_of
from svload.host.machines.dask_carrier import DaskCarrier
from svload.host.machines.reach import Reach
from svload.host.machines.remote import RemoteMachine
from svload.host.process.interpreter import child_environment, python
from svload.host.process.readable import readable
from svload.model.errors import Problem, SvloadError, fail
from svload.model.private import private_folder

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

_SCHEDULER_WITHIN_S = 30.0
_WORKER_WITHIN_S = 60.0
_AGENT_WITHIN_S = 60.0
_END_WITHIN_S = 5.0


@dataclass
class _Started:
    reach: Reach
    process: subprocess.Popen[bytes]
    log: Path


@contextlib.contextmanager
def gathered(reaches: Sequence[Reach], owner: str, folder: Path) -> Iterator[list[RemoteMachine]]:
    """Yield the machines with an agent each, in the order of `reaches`; everything ends with the block.

    The workers' output is in `folder`. Raises SvloadError with every machine that failed (fleet-unreachable,
    fleet-no-svload, fleet-busy, fleet-worker), and tool-missing without Dask.
    """
    if not _has_dask():
        raise fail(
            "tool-missing",
            kit="svload run --inventory",
            what="distributed",
            hint="pip install 'svload[fleet]'.",
        )
    import dask

    private_folder(folder)
    silence_dask()
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        joined = reaches[0].joined
        if joined is None:
            pems = make_pems()
            address = _scheduler(stack, pems, folder)
            _workers(stack, reaches, pems, address, folder)
            client = _client(stack, address, security_of(pems))
        else:
            client = _client(stack, joined.scheduler, None)
        yield _machines(stack, client, reaches, owner)


def silence_dask() -> None:
    """Silence Dask's loggers, since svload reports failures; their levels are set at its import."""
    import distributed  # noqa: F401

    for name in ["asyncio", "tornado", *logging.root.manager.loggerDict]:
        if name.partition(".")[0] in ("asyncio", "distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _has_dask() -> bool:
    from importlib.util import find_spec

    return find_spec("distributed") is not None


def _scheduler(stack: ExitStack, pems: Pems, folder: Path) -> str:
    started = _start(stack, python("-m", "svload.host.machines.scheduler"), folder / "scheduler.log")
    _tell(started, pems)
    line = _first_line(started, time.monotonic() + _SCHEDULER_WITHIN_S)
    if line is None:
        raise fail(
            "fleet-worker",
            host="this machine",
            reason=f"Dask's scheduler did not start; {_tail(folder / 'scheduler.log')}",
        )
    return str(line["address"])


def _workers(stack: ExitStack, reaches: Sequence[Reach], pems: Pems, scheduler: str, folder: Path) -> None:
    """Start workers in parallel. Raises SvloadError with all that did not come up."""
    started, scheduler_port = [], int(scheduler.rsplit(":", 1)[1])
    for reach, port in zip(reaches, free_ports(len(reaches)), strict=True):
        log = folder / f"{reach.name}.log"
        words = reach.words("svload.host.machines.worker", {"-R": scheduler_port, "-L": port})
        process = _start(stack, words, log)
        _tell(process, {"pems": pems, "scheduler": scheduler, "name": reach.name, "port": port})
        started.append(_Started(reach, process, log))
    deadline = time.monotonic() + _WORKER_WITHIN_S
    problems = [_why_not(one) for one in started if _first_line(one.process, deadline) is None]
    if problems:
        raise SvloadError(*problems)


def _client(stack: ExitStack, address: str, security: Security | None) -> Client:
    """Connect to the scheduler; None: by the user's Dask settings. Raises SvloadError fleet-scheduler."""
    from distributed import Client

    try:
        client = Client(  # type: ignore[no-untyped-call]
            address, security=security, timeout=_SCHEDULER_WITHIN_S, set_as_default=True
        )
    except OSError as why:
        raise fail(
            "fleet-scheduler", address=address, reason=str(why), hint="Check whether it still runs."
        ) from why
    stack.callback(client.close, timeout=_END_WITHIN_S)
    return client


def _machines(stack: ExitStack, client: Client, reaches: Sequence[Reach], owner: str) -> list[RemoteMachine]:
    word, controller = secrets.token_hex(16), last_holder()
    asked = [
        client.submit(
            Bearer, one.name, owner, one.port, word, controller, one.joined is None, actor=True,
            workers=[one.name if one.joined is None else one.joined.worker],
            allow_other_workers=False, pure=False, retries=0, resources={"svload": 1} if one.joined is None else None,
        )
        for one in reaches
    ]  # fmt: skip
    machines: list[RemoteMachine] = []
    problems: list[Problem] = []
    deadline = time.monotonic() + _AGENT_WITHIN_S
    for one, future in zip(reaches, asked, strict=True):
        try:
            actor = future.result(timeout=max(1.0, deadline - time.monotonic()))
            machine = RemoteMachine(one, DaskCarrier(one.name, actor), word)
        except SvloadError as why:
            problems += why.problems
        except Exception as why:  # raised by the bearer's start there, or by Dask
            reason = f"its agent did not start within {_AGENT_WITHIN_S:.0f} s"
            if not isinstance(why, TimeoutError):
                reason = f"{type(why).__name__}: {why}"
            problems.append(Problem("fleet-worker", {"host": one.name, "reason": reason}))
        else:
            stack.callback(machine.close)
            machines.append(machine)
    if problems:
        raise SvloadError(*problems)
    return machines


def _start(stack: ExitStack, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with open(log, "wb") as file:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env=child_environment(),
            start_new_session=True,
        )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process by closing its input; otherwise it is killed."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(_END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _tell(process: subprocess.Popen[bytes], message: Any) -> None:
    with contextlib.suppress(OSError):  # it is gone: see its log
        assert process.stdin is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()


def _first_line(process: subprocess.Popen[bytes], deadline: float) -> dict[str, Any] | None:
    """Return the first JSON object that it prints; None if it ends, or prints none until `deadline`
    (CLOCK_MONOTONIC). Other lines are skipped: a shell's start-up file there may print a greeting."""
    assert process.stdout is not None
    out, data = process.stdout.fileno(), b""
    while (left_s := deadline - time.monotonic()) > 0 and readable(out, left_s):
        if not (piece := os.read(out, 1 << 16)):
            return None
        *lines, data = (data + piece).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                if isinstance(found := json.loads(line), dict):
                    return found
    return None


def _why_not(one: _Started) -> Problem:
    """Return why no worker runs there, from the output of SSH, its shell or Python."""
    text, host = _tail(one.log), one.reach.name
    try:
        code: int | None = one.process.wait(_END_WITHIN_S / 5)
    except subprocess.TimeoutExpired:
        code = None
    if code == 255:
        hint = "Try “ssh” to it by hand with the inventory's user, port and key; sshd must allow forwarded ports."
        return Problem("fleet-unreachable", {"host": host, "reason": text or "SSH ended", "hint": hint})
    if code in (126, 127) or "No module named" in text:
        return Problem("fleet-no-svload", {"host": host, "python": one.reach.python})
    ended = f"it did not start within {_WORKER_WITHIN_S:.0f} s" if code is None else f"it ended with {code}"
    return Problem("fleet-worker", {"host": host, "reason": text or ended})


def _tail(path: Path) -> str:
    try:
        lines = [
            line.strip()
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
            if line.strip()
        ]
    except OSError:
        return ""
    return lines[-1][-300:] if lines else ""

"""Labs that are kept on purpose (`svload lab up --for 2h`): starting a keeper, finding it, sending it
requests.

A keeper (svload.run.keeper) answers one JSON line with another on a Unix socket: {"do": "reset" | "down"}.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from svload.host import list_labs, state_dir
from svload.host.agent.unix_socket import is_own, short_path
from svload.host.process.interpreter import child_environment, python
from svload.model.errors import Problem, SvloadError, fail
from svload.model.outputs import write_output
from svload.model.private import private_folder
from svload.model.study import Lock

END_TIMEOUT_S = 60.0
"""How long a keeper may take to end after its lease, which stops a lab that is not up yet."""
ASK_TIMEOUT_S = 60.0
SOCKET, FACTS, LOCK, _ALIVE = "keeper.sock", "keeper.json", "keeper.lock.json", "alive"


def keep(lock: Lock, lease_s: float) -> dict[str, Any]:
    """Start a keeper for the lab of `lock`'s first case; return its id, until and endpoints when it is up.

    The lab's own limits (of a build, of a start) and the lease bound the wait. Raise SvloadError.
    """
    folder = _folder(f"{lock.name}-{os.getpid()}-{time.time_ns() % 10**6}")
    private_folder(folder)
    write_output(folder / LOCK, lock.to_json())
    log = folder / "keeper.log"
    argv = python("-m", "svload.run.keeper", str(folder), str(time.time() + lease_s))
    with log.open("wb") as out, (folder / _ALIVE).open("wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=child_environment(),  # the user's, without what host/algebra set for the C library
            start_new_session=True,
            pass_fds=[alive.fileno()],
        )
    until = time.monotonic() + lease_s + END_TIMEOUT_S
    try:
        while process.poll() is None:
            if (folder / FACTS).exists():
                return dict(json.loads((folder / FACTS).read_text()))
            if time.monotonic() >= until:
                reason = f"its lease ended before it was up, and {END_TIMEOUT_S:g} s later it had not ended"
                raise fail("lab-failed", reason=reason, hint=f"See {log}.")
            time.sleep(0.02)
    except BaseException:  # also Ctrl-C, which its session does not receive
        process.terminate()
        raise
    error = _failure(folder, log, process.returncode)
    _remove_dead(folder)
    raise error


def _failure(folder: Path, log: Path, code: int) -> SvloadError:
    file = folder / "failure.json"
    if file.exists():
        return _reported(json.loads(file.read_text()))
    if code == 0:
        reason = "its lease ended before it was up"
        return fail("lab-failed", reason=reason, hint="Give it more time with --for.")
    tail = log.read_text(errors="replace")[-300:] if log.exists() else ""  # which is removed now
    return fail("lab-failed", reason=f"its keeper ended: {tail.strip() or f'exit {code}'}", hint="")


def _reported(problems: Sequence[dict[str, Any]]) -> SvloadError:
    """Return the error with the problems that a keeper reports."""
    return SvloadError(*(Problem(one["code"], one["details"], one["place"]) for one in problems))


def kept_labs() -> list[dict[str, Any]]:
    """Return facts about every kept lab whose keeper answers; remove the remains of dead ones."""
    labs = []
    for folder in sorted(_folder("").glob("*")):
        if (folder / FACTS).exists() and _answers(folder):
            labs.append(dict(json.loads((folder / FACTS).read_text())))
        else:
            _remove_dead(folder)
    return labs


def _remove_dead(folder: Path) -> None:
    """Remove a keeper's folder if nobody holds its lock, which the kernel releases when the keeper ends."""
    with suppress(OSError), (folder / _ALIVE).open("rb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


def ask(lab_id: str, what: str) -> dict[str, Any]:
    """Ask a keeper to `reset` or go `down`; return its answer. Raise SvloadError usage if there is none, or
    what prevented a reset."""
    folder = _folder(lab_id)
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ASK_TIMEOUT_S)
            with short_path(folder, SOCKET) as door:
                line.connect(door)
            if not is_own(line):
                raise OSError("another user answers there")
            line.sendall(json.dumps({"do": what}).encode() + b"\n")
            answer = line.makefile().readline()
        found = dict(json.loads(answer))
    except (OSError, ValueError) as why:
        known = ", ".join(lab["id"] for lab in kept_labs())
        missing = isinstance(why, FileNotFoundError)
        reason = f"there is no lab {lab_id}" if missing else f"the lab {lab_id} does not answer ({why})"
        hint = f"Running: {known}." if known else "No lab is running."
        raise fail("usage", reason=reason, hint=hint) from why
    if problems := found.get("problems"):
        raise _reported(problems)
    return found


def _answers(folder: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(2)
            with short_path(folder, SOCKET) as door:
                line.connect(door)
        return True
    except OSError:
        return False


def _folder(lab_id: str) -> Path:
    return state_dir() / "kept" / lab_id


def agents() -> list[str]:
    """Return the owners of all agents on this machine, kept or running."""
    return [lab.owner for lab in list_labs() if lab.alive]

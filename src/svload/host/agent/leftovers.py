"""Labs on this machine: which are alive, and undoing what killed svloads left; quick if there is nothing."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from svload.host.agent import journal
from svload.host.agent.client import END_BOUND_S, is_served, try_lock
from svload.host.agent.folders import JOURNAL, OWNER, clear, labs_dir
from svload.host.machine import linux

_NASCENT_S = 60.0
_POLL_S = 0.02


@dataclass(frozen=True)
class LabState:
    """One lab of this user, and whether its agent is alive."""

    id: str
    owner: str
    started_wall: float
    alive: bool


@dataclass(frozen=True)
class Leftover:
    """Something that a killed svload left: what was done about it (`undone`), or why nothing was."""

    lab: str
    what: str
    undone: bool
    journal: Path

    def __str__(self) -> str:
        return f"{self.lab}: {self.what}" if self.undone else f"{self.lab}: could not be undone: {self.what}"


def list_labs(state: Path | None = None) -> list[LabState]:
    """Return all labs under `state` (None: this user's), living or left behind, oldest first."""
    labs = []
    for folder in _folders(state):
        with contextlib.suppress(OSError, ValueError, KeyError):
            owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
            labs.append(LabState(folder.name, owner["owner"], owner["started_wall"], is_served(folder)))
    return sorted(labs, key=lambda lab: lab.started_wall)


def finish_leftovers(
    state: Path | None = None, on_wait: Callable[[str], None] = lambda lab: None
) -> list[Leftover]:
    """Finish the journals of labs without agents and remove their folders; return the outcome of each entry.

    An agent whose controller was killed finishes its own: this is waited for, and `on_wait` called with the
    lab's name. What cannot be undone now (another user's process) is reported and left to the next call.
    Takes at most a few seconds per lab, or `END_BOUND_S` for all agents that do not end.
    """
    deadline = time.monotonic() + END_BOUND_S
    found: list[Leftover] = []
    for folder in _folders(state):
        if _is_orphaned(folder):
            on_wait(folder.name)
            found += _await_end(folder, deadline)
        found += _finish(folder)
    return found


def _is_orphaned(folder: Path) -> bool:
    """Return whether the lab's agent lives though its controller has ended."""
    if not is_served(folder):
        return False
    try:
        owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
        pid, start_ticks = owner["controller_pid"], owner["controller_start_ticks"]
    except (OSError, ValueError, KeyError):  # it is just being removed
        return False
    controller = linux.process_stat(pid)
    if controller is None or controller.start_ticks != start_ticks:
        return True
    return controller.ended or controller.exiting


def _await_end(folder: Path, deadline: float) -> list[Leftover]:
    while is_served(folder):
        if time.monotonic() > deadline:
            what = f"its agent has not ended within {END_BOUND_S:g} s"
            return [Leftover(folder.name, what, False, folder / JOURNAL)]
        time.sleep(_POLL_S)
    return []


def _finish(folder: Path) -> list[Leftover]:
    def listed(lines: Iterable[str], undone: bool) -> list[Leftover]:
        return [Leftover(folder.name, line, undone, folder / JOURNAL) for line in lines]

    with contextlib.suppress(OSError):
        if not (folder / OWNER).exists() and time.time() - folder.stat().st_mtime < _NASCENT_S:
            return []
    try:
        lock = try_lock(folder)
    except OSError as why:
        return listed([f"it cannot be looked at ({why.strerror})"], False) if folder.exists() else []
    if lock is None:
        return []
    try:
        outcome = journal.undo(folder)
        if not outcome.failures:
            clear(folder)
            with contextlib.suppress(OSError):
                folder.rmdir()
        return [*listed(outcome.lines, True), *listed(outcome.failures, False)]
    finally:
        os.close(lock)


def _is_own(entry: os.DirEntry[str]) -> bool:
    """Return whether the folder is this user's: another user's journal would control what is undone here."""
    return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def _folders(state: Path | None) -> list[Path]:
    try:
        with os.scandir(labs_dir(state)) as found:
            return sorted(Path(entry.path) for entry in found if _is_own(entry))
    except OSError:
        return []

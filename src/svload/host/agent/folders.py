"""The contents of a lab's folder (owner, undo journal), and the size of folders."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

from svload.model.environment import cache_dir, state_dir

__all__ = ["cache_dir", "folder_bytes", "labs_dir", "state_dir"]

SOCKET = "agent.sock"
LOCK = "agent.lock"
OWNER = "owner.json"
NEW_OWNER = f"{OWNER}.new"
"""The owner's file while it is incomplete; a killed process leaves it behind."""
JOURNAL = "journal.jsonl"
AGENT_LOG = "agent.log"
_AGENTS_FILES = (SOCKET, JOURNAL, NEW_OWNER, AGENT_LOG)


def labs_dir(state: Path | None = None) -> Path:
    """Return the folder of all labs of this user, which has one folder per lab. It is not created."""
    return (state or state_dir()) / "labs"


def folder_bytes(folder: Path) -> int:
    """Return the total size of all files below `folder`, links not followed; vanished ones count 0."""
    total = 0
    open_folders = [str(folder)]
    while open_folders:
        try:
            with os.scandir(open_folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        open_folders.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total


def clear(folder: Path) -> None:
    """Remove a finished lab's folder: all of it if the lab created it, else what the agent put there.

    The owner's file is removed last, with the lock: after a kill or a failure half-way, the next call still
    knows whose folder it is and finishes.
    """
    made = False
    with contextlib.suppress(OSError, ValueError):
        made = bool(json.loads((folder / OWNER).read_text(encoding="utf-8")).get("made_folder"))
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in (OWNER, LOCK) or not (made or entry.name in _AGENTS_FILES):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
    with contextlib.suppress(OSError):
        if not made or set(os.listdir(folder)) <= {OWNER, LOCK}:
            for name in (OWNER, LOCK):
                (folder / name).unlink(missing_ok=True)
            if made:
                folder.rmdir()

"""What lies in a lab's folder: owner, lease, undo journal; and how much a folder holds."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from svload.model.environment import cache_dir, state_dir

__all__ = ["cache_dir", "folder_bytes", "labs_dir", "state_dir"]

SOCKET = "agent.sock"
LOCK = "agent.lock"
OWNER = "owner.json"
NEW_OWNER = f"{OWNER}.new"
"""The owner until it is whole; a killed process leaves it."""
JOURNAL = "journal.jsonl"
AGENT_LOG = "agent.log"


def labs_dir(state: Path | None = None) -> Path:
    """The folder of all labs of this user; one folder a lab. Not created."""
    return (state or state_dir()) / "labs"


def folder_bytes(folder: Path) -> int:
    """The sizes of all files below `folder`, links not followed; what vanishes meanwhile counts nothing."""
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
    """Remove a finished lab's folder: all of it if the lab made it, else what the agent put there."""
    with contextlib.suppress(OSError, ValueError):
        import json

        if json.loads((folder / OWNER).read_text(encoding="utf-8")).get("made_folder"):
            shutil.rmtree(folder, ignore_errors=True)
            return
    for name in (SOCKET, JOURNAL, OWNER, NEW_OWNER, AGENT_LOG, LOCK):
        (folder / name).unlink(missing_ok=True)

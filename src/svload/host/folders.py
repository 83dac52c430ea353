"""Where svload keeps what outlives a command: labs (owner, lease, undo journal) and caches (installed kits, filled data)."""

from __future__ import annotations

import os
from pathlib import Path

SOCKET = "agent.sock"
LOCK = "agent.lock"
OWNER = "owner.json"
JOURNAL = "journal.jsonl"
AGENT_LOG = "agent.log"


def state_dir() -> Path:
    """$SVLOAD_STATE, else $XDG_STATE_HOME/svload, else ~/.local/state/svload. Not created."""
    return _folder("SVLOAD_STATE", "XDG_STATE_HOME", ".local/state")


def cache_dir() -> Path:
    """$SVLOAD_CACHE, else $XDG_CACHE_HOME/svload, else ~/.cache/svload. Not created."""
    return _folder("SVLOAD_CACHE", "XDG_CACHE_HOME", ".cache")


def labs_dir(state: Path | None = None) -> Path:
    """The folder of all labs of this user; one folder a lab. Not created."""
    return (state or state_dir()) / "labs"


def _folder(own: str, shared: str, default: str) -> Path:
    if os.environ.get(own):
        return Path(os.environ[own]).absolute()
    base = os.environ.get(shared)
    return (Path(base) if base and os.path.isabs(base) else Path.home() / default) / "svload"


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

"""Files that became nothing: written beside their place under a hidden name with the writer's pid, until they are whole."""

from __future__ import annotations

import os
from pathlib import Path


def sweep(folder: Path, named: str = "*") -> None:
    """Remove the hidden files of `folder` that bear the pid of a process which is gone, `.report.html.4711` or `.000.json.4711.tmp`."""
    for path in folder.glob(f".{named}"):
        pids = [int(part) for part in path.name.split(".") if part.isdecimal() and len(part) < 10]
        if pids and path.is_file() and not path.is_symlink() and not _lives(pids[-1]):
            path.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()

"""Leftover temporary files: files are written beside their final path under a hidden name with the writer's
pid until they are complete."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def sweep(folder: Path, named: str = "*") -> None:
    """Remove the hidden files of `folder` whose names have the pid of a process that has ended, as in
    `.report.html.4711` or `.000.json.4711.tmp`."""
    for path in folder.glob(f".{named}"):
        pids = [int(part) for part in path.name.split(".") if part.isdecimal() and len(part) < 10]
        if pids and path.is_file() and not path.is_symlink() and not _lives(pids[-1]):
            path.unlink(missing_ok=True)


def sweep_folders(folder: Path, named: str) -> None:
    """Remove the folders `<named><pid>-…` of `folder` that belong to a process that has ended."""
    for path in folder.glob(f"{named}*"):
        pid = path.name.removeprefix(named).partition("-")[0]
        if pid.isdecimal() and path.is_dir() and not path.is_symlink() and not _lives(int(pid), itself=True):
            shutil.rmtree(path, ignore_errors=True)


def _lives(pid: int, *, itself: bool = False) -> bool:
    """Return whether there is such a process; `itself` is the answer for this one, which just started."""
    if pid == os.getpid():
        return itself
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

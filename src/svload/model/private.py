"""Files and folders private to this user, whatever the umask: created so, and trusted only if still so."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from svload.model.environment import refuse_strange
from svload.model.outputs import write_output

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_folder(path: Path) -> Path:
    """Create `path` with its parents if absent, all 0700. Raises SvloadError not-yours; OSError."""
    for folder in (*reversed(path.parents), path):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)
    refuse_strange(path)
    mode = path.stat().st_mode
    if mode & _OTHERS_WRITE:
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS_WRITE)
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 as a whole or not at all. Raises SvloadError not-yours; OSError."""
    private_folder(path.parent)
    write_output(path, text, 0o600, synced=True)


def append_private(path: Path, line: str) -> int:
    """Add a line to a file of mode 0600; return its size. A line cut by a kill does not damage the next."""
    private_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, f"\n{line}\n".encode())
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def read_private(path: Path) -> str:
    """Return the text of a file that only this user could have written; empty if it is absent, a link, or
    anybody else's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        found = os.fstat(descriptor)
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        return file.read() if own and not found.st_mode & _OTHERS_WRITE else ""

"""Kill a command by SIGKILL at its n-th write: before an open for writing, just after it, before a rename,
a removal or an fsync."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

AT, TOLD = "KILL_AT_WRITE", "KILL_TOLD"
"""Variables: which write to kill at (from 1; 0: none), and the file in which every write is recorded."""
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.symlink", "os.link", "os.truncate"}


def install() -> None:
    """Count this process's writes from now on, but not those of its forks."""
    _Killer(int(os.environ.pop(AT)), os.environ.pop(TOLD))


class _Killer:
    def __init__(self, at: int, expected: str) -> None:
        self._at, self._pid, self._count, self._busy = at, os.getpid(), 0, False
        self._told = os.open(expected, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
        sync = os.fsync

        def fsync(descriptor: int) -> None:
            self._write("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
            sync(descriptor)

        os.fsync = fsync
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._busy:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) and not isinstance(path, int):
                self._write("open", os.fsdecode(path))
                self._write("opened", os.fsdecode(path), flags)
        elif event in _CHANGES:
            path = arguments[0]
            self._write(event, f"descriptor {path}" if isinstance(path, int) else os.fsdecode(path))

    def _write(self, what: str, path: str, flags: int = 0) -> None:
        if os.getpid() != self._pid or path.startswith(("/dev/", "/proc/", "/sys/")):
            return
        self._count += 1
        os.write(self._told, f"{self._count} {what} {path}\n".encode())
        if self._count == self._at:
            self._busy = True
            if what == "opened":
                os.open(path, flags & ~os.O_EXCL, 0o666)
            os.kill(self._pid, signal.SIGKILL)

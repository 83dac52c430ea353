"""The machine-wide lock: one load at a time on one machine, whoever starts it. Released by the kernel on any death."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from svload.model.errors import SvloadError, fail

_POLL_S = 0.1
_CREATE_TRIES = 50
_MOST_SAID = 200


def lock_path() -> Path:
    """The lock's file: the same for all users, so not under $TMPDIR if /tmp is there. $SVLOAD_LOCK names another."""
    if os.environ.get("SVLOAD_LOCK"):
        return Path(os.environ["SVLOAD_LOCK"])
    folder = "/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir()
    return Path(folder) / "svload.lock"


@contextlib.contextmanager
def machine_lock(
    owner: str,
    wait_s: float | None = None,
    on_wait: Callable[[str], None] = lambda holder: None,
    path: Path | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the machine for one load. `wait_s` None waits as long as it takes, 0 not at all.

    `on_wait(holder)` is called once when waiting begins and whenever the holder changes. The lock belongs to
    this process and passes to no child. Raises SvloadError: machine-busy when the time is up, interrupted
    when `should_stop()` while it waits.
    """
    descriptor = _open(path or lock_path())
    try:
        _acquire(descriptor, wait_s, on_wait, should_stop)
        os.ftruncate(descriptor, 0)
        since = time.strftime("%H:%M")
        os.pwrite(descriptor, f"{owner}, pid {os.getpid()}, since {since}\n".encode(), 0)
        yield
    finally:
        fcntl.flock(
            descriptor, fcntl.LOCK_UN
        )  # also for a child that has just been forked and has not closed it yet
        os.close(descriptor)


def is_locked(path: Path | None = None) -> bool:
    """Whether a load runs on this machine now. Holds nothing afterwards."""
    try:
        descriptor = _opened(path or lock_path())
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _acquire(
    descriptor: int,
    wait_s: float | None,
    on_wait: Callable[[str], None],
    should_stop: Callable[[], bool],
) -> None:
    deadline = None if wait_s is None else time.monotonic() + wait_s
    told = None
    while not _try_lock(descriptor):
        holder = _holder(descriptor)
        if deadline is not None and time.monotonic() >= deadline:
            raise fail("machine-busy", owner=holder)
        if should_stop():
            raise fail("interrupted")
        if holder != told:
            on_wait(holder)
            told = holder
        time.sleep(_POLL_S)


def _holder(descriptor: int) -> str:
    """Who says that it holds the lock: any user of the machine may have written it, so it is
    cut short and nothing of it acts."""
    said = os.pread(descriptor, _MOST_SAID, 0).decode("utf-8", "replace")
    return "".join(sign if sign.isprintable() else " " for sign in said).strip() or "not named"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    """Open for all users. O_CREAT only where it is absent: fs.protected_regular forbids it
    on another user's file in /tmp."""
    for _ in range(_CREATE_TRIES):
        with contextlib.suppress(FileNotFoundError):
            return _opened(path)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            os.fchmod(descriptor, 0o666)
            return descriptor
    raise fail("lab-failed", reason=f"{path} cannot be opened as the machine-wide lock", hint="Remove it.")


def _opened(path: Path) -> int:
    """The lock's file, if it is one that svload would have made: no pipe, and no other name of some
    file that would be written to."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as why:
        if why.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _no_lock(path) from why
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    if not found.st_nlink:
        raise FileNotFoundError(errno.ENOENT, "removed meanwhile", str(path))
    raise _no_lock(path)


def _no_lock(path: Path) -> SvloadError:
    reason = f"{path}, the machine-wide lock, is no plain file of its own"
    return fail("lab-failed", reason=reason, hint="Remove it, or name another by SVLOAD_LOCK.")

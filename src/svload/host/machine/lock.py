"""The machine-wide lock: one load at a time on one machine, whoever starts it. Released by the kernel on any death."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from svload.model.errors import SvloadError, fail

_LOOK_S = 1.0
"""How often a waiting process checks whether to stop and who holds the lock; the kernel does the rest."""
_CREATE_TRIES = 50
_MOST_SAID = 200
_LOCKS = Path("/proc/locks")


def lock_path() -> Path:
    """Return the lock's file, the same for all users, so in /tmp if it exists. $SVLOAD_LOCK overrides it."""
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
    lasts_s: float | None = None,
) -> Iterator[None]:
    """Hold the machine for one load. `wait_s` None waits without a limit, 0 not at all.

    `on_wait(holder)` is called once when waiting begins and whenever the holder or the place in the queue
    changes. `lasts_s`: about how long it is held, as information for others; None: unknown. The lock belongs
    to this process and is not inherited. Raises SvloadError: machine-busy after `wait_s`, interrupted if
    `should_stop()` while it waits.
    """
    descriptor = _open(path or lock_path())
    waiting: _Waiting | None = None
    try:
        if not _try_lock(descriptor):
            if wait_s is not None and wait_s <= 0:
                raise fail("machine-busy", owner=_holder(descriptor))
            waiting = _Waiting(descriptor)
            waiting.until_held(wait_s, on_wait, should_stop)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{owner}, pid {os.getpid()}, {_times(lasts_s)}\n".encode(), 0)
        yield
    finally:
        if waiting is None or waiting.held.is_set():
            _unlock(descriptor)
        else:
            waiting.give_up()


def _times(lasts_s: float | None) -> str:
    """Return a text such as `since 14:02, until about 14:09`."""
    now = time.time()
    since = f"since {time.strftime('%H:%M', time.localtime(now))}"
    return (
        since
        if lasts_s is None
        else f"{since}, until about {time.strftime('%H:%M', time.localtime(now + lasts_s))}"
    )


def is_locked(path: Path | None = None) -> bool:
    """Return whether a load is running on this machine. The lock is not held afterwards."""
    try:
        descriptor = _opened(path or lock_path())
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def last_holder(path: Path | None = None) -> str:
    """Return who has the lock, or had it last, as `on_wait` and machine-busy name them; empty if nobody ever
    had it."""
    try:
        descriptor = _opened(path or lock_path())
    except FileNotFoundError:
        return ""
    try:
        return _holder(descriptor)
    finally:
        os.close(descriptor)


class _Waiting:
    """A thread that the kernel blocks until the lock is free, so that waiting uses no CPU. If it is given up,
    it releases the lock as soon as it gets it."""

    def __init__(self, descriptor: int) -> None:
        self.held = threading.Event()
        self._descriptor = descriptor
        self._given_up = False
        self._guard = threading.Lock()
        self._error: OSError | None = None
        threading.Thread(target=self._wait, name="machine lock", daemon=True).start()

    def _wait(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as why:
            self._error = why
        with self._guard:
            self.held.set()
            if self._given_up:
                _unlock(self._descriptor)

    def until_held(
        self, wait_s: float | None, on_wait: Callable[[str], None], should_stop: Callable[[], bool]
    ) -> None:
        """Wait until the lock is held. Raises SvloadError."""
        deadline = None if wait_s is None else time.monotonic() + wait_s
        reported = None
        while True:
            left_s = _LOOK_S if deadline is None else min(max(deadline - time.monotonic(), 0.0), _LOOK_S)
            state = _holder(self._descriptor) + _place(self._descriptor)
            if state != reported:
                on_wait(state)
                reported = state
            if self.held.wait(left_s):
                break
            if should_stop():
                raise fail("interrupted")
            if deadline is not None and time.monotonic() >= deadline:
                raise fail("machine-busy", owner=_holder(self._descriptor))
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """Give up: the lock is released whenever the kernel grants it."""
        with self._guard:
            self._given_up = True
            if self.held.is_set():
                _unlock(self._descriptor)


def _unlock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # even if a child that was just forked has not closed it yet
    os.close(descriptor)


def _place(descriptor: int) -> str:
    """Return `; 2 wait before this one` from the kernel's queue; empty for the first, or if unknown."""
    inode = f":{os.fstat(descriptor).st_ino}"
    try:
        lines = _LOCKS.read_text("ascii", "replace").splitlines()
    except OSError:
        return ""
    queue = [line.split()[5] for line in lines if " -> FLOCK" in line and line.split()[6].endswith(inode)]
    own = str(os.getpid())
    before = queue.index(own) if own in queue else 0
    return f"; {before} {'waits' if before == 1 else 'wait'} before this one" if before else ""


def _holder(descriptor: int) -> str:
    """Return the holder according to the lock's file. Any user of the machine may have written it, so it is
    truncated and never acted upon."""
    text = os.pread(descriptor, _MOST_SAID, 0).decode("utf-8", "replace")
    return "".join(sign if sign.isprintable() else " " for sign in text).strip() or "not named"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    """Open the file for all users. O_CREAT is used only if it is missing: fs.protected_regular forbids it for
    another user's file in /tmp."""
    for _ in range(_CREATE_TRIES):
        with contextlib.suppress(FileNotFoundError):
            return _opened(path)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            os.fchmod(descriptor, 0o666)
            return descriptor
    raise fail("lab-failed", reason=f"{path} cannot be opened as the machine-wide lock", hint="Remove it.")


def _opened(path: Path) -> int:
    """Open the lock's file if svload could have created it: not if it is a pipe or a link to another file,
    which would be overwritten."""
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
    reason = f"{path}, the machine-wide lock, is not a regular file with a single link"
    return fail("lab-failed", reason=reason, hint="Remove it, or name another by SVLOAD_LOCK.")

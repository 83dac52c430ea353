"""The client's view of this user's warm process: where it listens, whether it may replace a command, how it
ends.

It was requested (`svload warm`), has loaded what a load needs and started its helpers, and ends by itself
with its lease. Only the lightest parts of the standard library are imported, so that a command loses no time
if there is no such process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from svload import __version__
from svload.host.process.interpreter import EXECUTABLE, child_environment, python
from svload.model.environment import state_dir

SOCKET, LOCK, FACTS, LOG = "warm.sock", "warm.lock", "warm.json", "warm.log"
READY_BOUND_S = 60.0
END_BOUND_S = 30.0
_INHERITED = (
    "HOME",
    "LANG",
    "LC_",
    "LD_",
    "MALLOC_",
    "PATH",
    "PYTHON",
    "RUST_",
    "SSL_",
    "SVLOAD_",
    "TMPDIR",
    "TZ",
    "XDG_",
)
"""Prefixes of variables that affect a process at its start, or that its children inherited."""
_FLAGS = ("dev_mode", "isolated", "no_site", "optimize", "utf8_mode")
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_MEMLOCK", "RLIMIT_NOFILE", "RLIMIT_NPROC")  # fmt: skip


def warm_dir() -> Path:
    """Return the folder of the warm process (0700), without creating it."""
    return state_dir() / "warm"


def place() -> dict[str, Any]:
    """Return what a command inherits from its shell: a warm process may replace it if all is equal."""
    import resource
    import sys

    umask = os.umask(0o077)
    os.umask(umask)
    variables = {name: value for name, value in os.environ.items() if name.startswith(_INHERITED)}
    return {
        "version": __version__,
        "program": [
            EXECUTABLE,
            os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
            [getattr(sys.flags, name) for name in _FLAGS],
        ],
        "user": [os.geteuid(), os.getuid(), os.getegid(), sorted(os.getgroups())],
        "cores": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "umask": umask,
        "limits": [list(resource.getrlimit(getattr(resource, name))) for name in _LIMITS],
        "namespaces": [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES],
        "cgroup": Path("/proc/self/cgroup").read_text(),
        "root": os.readlink("/proc/self/root"),
        "variables": variables,
    }


def is_own_folder() -> bool:
    """Return whether the folder exists and only this user has access."""
    from svload.model.errors import SvloadError

    try:
        found = warm_dir().lstat()
    except (OSError, SvloadError):
        return False
    return found.st_uid == os.geteuid() and found.st_mode & 0o777 == 0o700


def warm_state() -> dict[str, Any] | None:
    """Return `until`, `until_wall` (s since the epoch) and `pid` of the warm process; None without one."""
    import fcntl
    import json

    folder = warm_dir()
    try:
        with (folder / LOCK).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return dict(json.loads((folder / FACTS).read_text()))
    except (OSError, ValueError):
        pass
    return None


def end_warm() -> bool:
    """End the warm process and its helpers, not a load in progress; return whether there was one."""
    import signal
    import time

    deadline = time.monotonic() + END_BOUND_S
    found = warm_state()
    if found is None:
        return False
    try:
        process = os.pidfd_open(found["pid"])
    except OSError:
        return False
    try:
        if warm_state() == found:  # it is alive, so this process holds the lock
            signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        pass
    finally:
        os.close(process)
    while warm_state() == found and time.monotonic() < deadline:
        time.sleep(0.01)
    return True


def keep_warm(lease_s: float) -> dict[str, Any]:
    """Start the warm process for `lease_s`, ending an earlier one; return its state once the next load can
    find it.

    Raises SvloadError lab-failed with its last output if it does not come up.
    """
    import subprocess
    import time

    from svload.host.process.readable import readable
    from svload.model.errors import fail
    from svload.model.private import private_folder

    end_warm()
    folder = warm_dir()
    private_folder(folder)
    if not is_own_folder():
        raise fail("lab-failed", reason=f"{folder} is not yours alone", hint="Remove it, or chmod 0700.")
    ready, end = os.pipe()
    try:
        with open(folder / LOG, "wb") as log:
            subprocess.Popen(
                python("-m", "svload.cli.warm_keeper", repr(time.time() + lease_s), str(end)),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=child_environment(), pass_fds=(end,), start_new_session=True,
            )  # fmt: skip
    finally:
        os.close(end)
    heard = os.read(ready, 16) if readable(ready, READY_BOUND_S) else b""
    os.close(ready)
    found = warm_state()
    if heard != b"ready\n" or found is None:
        tail = (folder / LOG).read_text(errors="replace")[-500:].strip()
        raise fail("lab-failed", reason=f"the warm process did not come up: {tail or 'no word'}", hint="")
    return found

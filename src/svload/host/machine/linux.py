"""The few system calls and /proc readings that the standard library lacks. Linux only; imports nothing from
svload.

There are two kinds of pid throughout this package: the *local* pid, which this process may signal, and the
*machine* pid in the mounted /proc. They differ inside the agent, which is the first process of a PID
namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import resource
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_CAP_SYS_RESOURCE = 24
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
TICKS_PER_S = float(os.sysconf("SC_CLK_TCK"))
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STAT_BYTES = 4096
_EXITING, _KERNEL_THREAD = 0x00000004, 0x00200000  # PF_EXITING, PF_KTHREAD
_CORE = 36  # of the fields after the name, "processor" in proc(5)


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Leave the named namespaces for new ones. Raises OSError (EPERM without root)."""
    _call("unshare", flags)


class _Sigaction(ctypes.Structure):
    _fields_ = (("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16), ("flags", ctypes.c_int), ("restorer", ctypes.c_void_p))  # fmt: skip


_SA_RESETHAND = 0x80000000


def handle_once(number: int, function: str = "") -> None:
    """Make the kernel reset the signal's handler (the current one, or this function of libc) when it calls
    it: the next such signal has its default action."""
    libc, action = ctypes.CDLL(None, use_errno=True), _Sigaction()
    libc.sigaction(number, None, ctypes.byref(action))
    if function:
        action.handler = ctypes.cast(libc[function], ctypes.c_void_p)
    action.flags |= _SA_RESETHAND - (1 << 32)
    libc.sigaction(number, ctypes.byref(action), None)


def die_with_parent() -> None:
    """Request SIGKILL for this process when the thread that forked it ends. Not inherited by children."""
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Make descendants whose parent dies children of this process."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextlib.contextmanager
def in_network(path: str, *, stay: bool = False) -> Iterator[None]:
    """Move this thread into the network namespace of that file (/proc/PID/ns/net), and back after the block
    unless it shall `stay`.

    Raises OSError if it does not exist or is not permitted.
    """
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        wanted = os.open(path, os.O_RDONLY)
        try:
            _call("setns", wanted, CLONE_NEWNET)
        finally:
            os.close(wanted)
        try:
            yield
        finally:
            if not stay:
                _call("setns", before, CLONE_NEWNET)
    finally:
        os.close(before)


def raise_loopback() -> None:
    """Bring `lo` up in this network namespace. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        fcntl.ioctl(asker, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP | _IFF_RUNNING))


class ProcessStat(NamedTuple):
    """The used fields of /proc/PID/stat, in machine pids.

    `start_ticks` since boot distinguishes processes with the same pid. `cpu_seconds` includes children that
    have ended and been waited for, `own_ticks` does not. `name` is the kernel's, of at most 15 letters;
    `kernel`: a kernel thread; `core`: where its first thread last ran; `exiting`: it will never run its
    program again, and may have lost its files and locks already.
    """

    pid: int
    state: str
    parent: int
    group: int
    session: int
    cpu_seconds: float
    threads: int
    start_ticks: int
    rss_bytes: int
    name: str = ""
    kernel: bool = False
    core: int = 0
    own_ticks: int = 0
    exiting: bool = False

    @property
    def ended(self) -> bool:
        """Return whether it has ended but has not been waited for."""
        return self.state in "ZX"

    @property
    def children_ticks(self) -> int:
        """Return the CPU time of children that have ended and been waited for."""
        return round(self.cpu_seconds * TICKS_PER_S) - self.own_ticks


def machine_pid() -> int:
    """Return this process's pid in the mounted /proc."""
    return int(os.readlink("/proc/self"))


def parse_stat(text: str) -> ProcessStat:
    """Parse /proc/PID/stat; a name may contain spaces and brackets. Raises ValueError, IndexError."""
    opened, closed = text.index("("), text.rindex(")")
    fields = text[closed + 2 :].split(None, _CORE + 1)
    own_ticks = int(fields[11]) + int(fields[12])
    return ProcessStat(
        pid=int(text[:opened]),
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_seconds=(own_ticks + int(fields[13]) + int(fields[14])) / TICKS_PER_S,
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        rss_bytes=int(fields[21]) * PAGE_BYTES,
        name=text[opened + 1 : closed],
        kernel=bool(int(fields[6]) & _KERNEL_THREAD),
        core=int(fields[_CORE]) if len(fields) > _CORE else 0,
        own_ticks=own_ticks,
        exiting=bool(int(fields[6]) & _EXITING),
    )


def process_stat(pid: int | Literal["self"], root: str = "/proc") -> ProcessStat | None:
    """Return the /proc data of a machine pid; None if there is no such process."""
    try:
        held = os.open(f"{root}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:  # a file object costs more than all else here
        return parse_stat(os.read(held, _STAT_BYTES).decode("utf-8", "replace"))
    except (OSError, ValueError, IndexError):
        return None
    finally:
        os.close(held)


def is_alive(pid: int, start_ticks: int) -> bool:
    """Return whether exactly that process (not a reuse of its pid) is still running; a zombie is not."""
    found = process_stat(pid)
    return found is not None and found.start_ticks == start_ticks and not found.ended


def processes() -> Iterator[ProcessStat]:
    """Yield all processes that /proc currently shows."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := process_stat(int(name))) is not None:
            yield found


def local_pid(pid: int) -> int | None:
    """Return the pid by which this process may signal machine pid `pid`; None if gone or elsewhere."""
    own, other = namespace_pids("self"), namespace_pids(pid)
    return other[len(own) - 1] if len(other) >= len(own) > 0 else None


def namespace_pids(pid: int | Literal["self"], root: str = "/proc") -> list[int]:
    """Return a process's pids in our PID namespace and those below it, to its own; empty if it is gone."""
    for line in read(f"{root}/{pid}/status").splitlines():
        if line.startswith("NSpid:"):
            return [int(part) for part in line.split()[1:]]
    return []


def environment_has(pid: int, mark: bytes) -> bool:
    """Return whether machine pid `pid` was started with `mark` (b"NAME=value") in its environment."""
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def send_signal(pid: int, number: int) -> None:
    """Signal a machine pid, by its local pid; it is no error if it is gone. Raises PermissionError."""
    local = local_pid(pid)
    if local is not None and local > 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(local, number)


def boot_id() -> str:
    """Return a text that changes with every boot, since start ticks can be compared only within one boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def namespace(kind: str, pid: int | str = "thread-self") -> str:
    """Return the identity of the namespace (net, pid, time) of a machine pid, `self` or this thread; empty if
    it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def descriptors(pid: int) -> set[str]:
    """Return the targets of a process's descriptors (`socket:[123]`, paths) that can be seen."""
    folder = f"/proc/{pid}/fd"
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"{folder}/{name}"))
    return found


def open_file_limits(pid: int, root: str = "/proc") -> tuple[str | None, str | None]:
    """Return a process's soft and hard limit of open files as the kernel has them; None if unreadable."""
    for line in read(f"{root}/{pid}/limits").splitlines():
        if line.startswith("Max open files"):
            soft, hard = line.split()[3:5]
            return soft, hard
    return None, None


def most_open_files() -> int:
    """Return how many descriptors a process may have: its hard limit, which CAP_SYS_RESOURCE may raise to
    fs.nr_open (root in a container may lack it)."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = int(read("/proc/sys/fs/nr_open") or hard)
    return most if hard == resource.RLIM_INFINITY or _may_raise_limits() else hard


def _may_raise_limits() -> bool:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", read("/proc/self/status"), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> _CAP_SYS_RESOURCE & 1)


def read(path: str, otherwise: str = "") -> str:
    """Return the stripped text of a kernel's file; `otherwise` if it is missing or not readable."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return otherwise

"""Start of one process: in a new session, with its limits set and journaled before its program runs, without
leaking descriptors.

It uses fork and exec directly, because exec must wait for the journal: the child reports its identity, the
parent journals it, then lets it continue to exec. The caller must be single-threaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from svload.host.agent.journal import CHILD, MARK, Journal
from svload.host.machine import linux
from svload.host.process import cgroups
from svload.host.process.readable import readable
from svload.model.errors import SvloadError, fail
from svload.model.messages import Spawn

_BOUND_S = 15.0
SPEAKING = ("generator", "monitor")


@dataclass(frozen=True)
class Started:
    """A process whose program runs. `stdin` and `stdout` are our ends of a speaking child's pipes (else -1).

    `log_from` is the size of its log at its start.

    `limits` are those read from the kernel: {"nofile": {"asked", "found"}, "nofile_hard": the same, "cores":
    […]}.
    """

    pid: int
    machine_pid: int
    start_ticks: int
    stdin: int
    stdout: int
    log_from: int
    entry: int
    limits: dict[str, Any]


class _Ends:
    """The descriptors opened for one start, the child's and ours; all are closed except those handed over."""

    def __init__(self, order: Spawn) -> None:
        self._open: list[int] = []
        try:
            self.log = self._opened(_open_log(order))
            self.log_from = os.fstat(self.log).st_size
            null = self._opened(os.open(os.devnull, os.O_RDWR))
            speaking = order.role in SPEAKING
            self.child_in, self.our_in = self._pipe() if speaking else (null, -1)
            self.our_out, self.child_out = self._pipe() if speaking else (-1, self.log)
            self.status_read, self.status_write = self._pipe()
            self.go_read, self.go_write = self._pipe()
            self._childs = (self.child_in, self.child_out, self.log, null, self.status_write, self.go_read)
        except BaseException:
            self.close()
            raise

    def _opened(self, descriptor: int) -> int:
        self._open.append(descriptor)
        return descriptor

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        return self._opened(read), self._opened(write)

    def close_childs(self) -> None:
        """Close the child's ends, in the parent after the fork."""
        self._close(self._childs)

    def close_ours(self) -> None:
        """Close our ends, in the child after the fork: open there, they would hide the parent's death."""
        self._close((self.our_in, self.our_out, self.status_read, self.go_write))

    def hand_on(self) -> tuple[int, int]:
        """Return our ends of a speaking child's stdin and stdout, which `close` then leaves open."""
        for descriptor in (self.our_in, self.our_out):
            if descriptor in self._open:
                self._open.remove(descriptor)
                os.set_blocking(descriptor, False)
        return self.our_in, self.our_out

    def close(self) -> None:
        self._close(tuple(self._open))

    def _close(self, descriptors: tuple[int, ...]) -> None:
        for descriptor in descriptors:
            if descriptor in self._open:
                self._open.remove(descriptor)
                os.close(descriptor)


def start(
    order: Spawn,
    mark: str,
    journal: Journal,
    groups: Sequence[str],
    network: str | None,
    *,
    die_with_us: bool,
) -> Started:
    """Start it with `mark` in its environment, in the control groups with the folders `groups`, and in the
    network namespace of the file `network` if it differs from ours.

    With `die_with_us` the kernel kills it when this process ends. Raises SvloadError agent-refused.
    """
    try:
        return _fork_and_exec(order, mark, journal, groups, network, die_with_us)
    except OSError as why:
        raise refused(f"{order.child} could not be started: {why}") from why


def _fork_and_exec(
    order: Spawn, mark: str, journal: Journal, groups: Sequence[str], network: str | None, die_with_us: bool
) -> Started:
    ends = _Ends(order)
    try:
        pid = os.fork()
        if pid == 0:
            ends.close_ours()
            _become(order, mark, groups, network, ends, die_with_us)
        ends.close_childs()
        try:
            status = _read_status(ends.status_read, order)
            machine_pid: int = status["pid"]
            stat = linux.process_stat(machine_pid)
            start_ticks = stat.start_ticks if stat else 0
            entry = journal.announce(
                "process", name=order.child, pid=machine_pid, start_ticks=start_ticks, boot_id=linux.boot_id(), mark=mark
            )  # fmt: skip
            os.write(ends.go_write, b"g")
            _expect_exec(ends.status_read, order)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise
        stdin, stdout = ends.hand_on()
    finally:
        ends.close()
    return Started(pid, machine_pid, start_ticks, stdin, stdout, ends.log_from, entry, status["limits"])


def _open_log(order: Spawn) -> int:
    path = Path(order.log)
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _read_status(descriptor: int, order: Spawn) -> dict[str, Any]:
    line = _read_line(descriptor)
    if line is None:
        raise refused(f"{order.child} did not come up within {_BOUND_S:.0f} s")
    found: dict[str, Any] = json.loads(line or b'{"error": "it ended before its program ran"}')
    if "error" in found:
        raise refused(f"{order.child} could not be started: {found['error']}")
    return found


def _expect_exec(descriptor: int, order: Spawn) -> None:
    """Wait until exec closes the status pipe; a line in it is the reason of a failure."""
    line = _read_line(descriptor)
    if line != b"":
        reason = json.loads(line)["error"] if line else f"its program did not run within {_BOUND_S:.0f} s"
        raise refused(f"{order.child} could not be started: {reason}")


def _read_line(descriptor: int) -> bytes | None:
    """Return a line, b"" at the end of the pipe, or None after the timeout."""
    deadline, line = time.monotonic() + _BOUND_S, b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not readable(descriptor, left):
            return None
        piece = os.read(descriptor, 65536)
        if not piece:
            return line
        line += piece
    return line


def _become(
    order: Spawn, mark: str, groups: Sequence[str], network: str | None, ends: _Ends, die_with_us: bool
) -> NoReturn:
    """Run the child's side from fork to exec; never returns to the agent's code."""
    try:
        _restore_signals()
        os.setsid()
        if die_with_us:
            parent = os.getppid()
            linux.die_with_parent()
            if os.getppid() != parent:
                os._exit(127)
        found = _apply_limits(order, groups)
        if network is not None:
            with linux.in_network(network, stay=True):
                pass
        if order.cwd is not None:
            os.chdir(order.cwd)
        _tell(ends.status_write, {"pid": linux.machine_pid(), "limits": found})
        if os.read(ends.go_read, 1) != b"g":
            os._exit(127)
        for target, source in enumerate((ends.child_in, ends.child_out, ends.log)):
            os.dup2(source, target)
        inherited = {name: value for name, value in os.environ.items() if name not in order.withheld}
        environment = {**inherited, **order.env, MARK: mark, CHILD: order.child}
        os.execvpe(order.argv[0], list(order.argv), environment)
    except BaseException as why:
        _tell(ends.status_write, {"error": _sentence(why, order)})
    os._exit(127)


def _restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # nohup and `cmd &` ignore some
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _apply_limits(order: Spawn, groups: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    cgroups.join(groups)
    if order.limits.cores is not None:
        os.sched_setaffinity(0, order.limits.cores)
    found["cores"] = sorted(os.sched_getaffinity(0))
    if order.limits.nofile_hard is not None:
        hard = _set_nofile_hard(order.limits.nofile_hard)
        found["nofile_hard"] = {"asked": order.limits.nofile_hard, "found": hard}
    if order.limits.nofile is not None:
        found["nofile"] = {"asked": order.limits.nofile, "found": _set_nofile(order.limits.nofile)}
    return found


def _set_nofile_hard(asked: int) -> int:
    """Set the hard limit, and lower the soft one to it; return the kernel's value, as raising may fail."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        below = asked if soft == resource.RLIM_INFINITY else min(soft, asked)
        resource.setrlimit(resource.RLIMIT_NOFILE, (below, asked))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _set_nofile(asked: int) -> int:
    """Set the soft limit, raising the hard one if that is allowed; return the kernel's value."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and asked > hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (asked, asked))
            return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        asked = hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (asked, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _sentence(why: BaseException, order: Spawn) -> str:
    if isinstance(why, OSError):
        return f"{why.strerror or why} ({why.filename or order.argv[0]})"
    return f"{type(why).__name__}: {why}"


def _tell(descriptor: int, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(what).encode() + b"\n")


def refused(reason: str, hint: str = "") -> SvloadError:
    return fail("agent-refused", reason=reason, hint=hint)

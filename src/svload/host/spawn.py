"""Start one process: a session of its own, limits set and journaled before its program runs, no descriptor leaked.

Own fork and exec, because the deed must wait for the journal: the child reports who it is, the parent writes that down, then
lets it go on to exec. The caller must be single-threaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from svload.host import cgroups, linux
from svload.host.journal import MARK, Journal
from svload.model.errors import fail

if TYPE_CHECKING:
    from svload.model.messages import Spawn

_BOUND_S = 15.0
_SPEAKING = ("generator", "monitor")


@dataclass(frozen=True)
class Started:
    """A process whose program runs. `stdin` and `stdout` are our ends of a speaking child's pipes (else -1).

    `limits` says what the kernel holds: {"nofile": {"asked", "found"}, "cores": […], "cpus", "memory_bytes"}.
    """

    pid: int
    machine_pid: int
    start_ticks: int
    stdin: int
    stdout: int
    entries: tuple[int, ...]
    cgroups: dict[str, str]
    limits: dict[str, Any]


@dataclass(frozen=True)
class _Plumbing:
    """Descriptors of the child's side."""

    stdin: int
    stdout: int
    stderr: int
    status: int
    go: int


def start(order: Spawn, lab: str, cgroup_lab: str, journal: Journal, *, die_with_us: bool) -> Started:
    """Start it. `lab` marks its environment, `cgroup_lab` names its folder of cgroups.

    With `die_with_us` the kernel kills it when this process ends. Raises SvloadError agent-refused.
    """
    limited = _make_cgroups(order, cgroup_lab, journal)
    entries = [limited[1]] if limited else []
    paths = limited[0] if limited else {}
    with contextlib.ExitStack() as on_failure:
        for entry in entries:
            on_failure.callback(_drop_cgroups, journal, entry, paths)
        started = _fork_and_exec(order, lab, journal, paths, die_with_us)
        on_failure.pop_all()
    return Started(**{**started, "entries": (*entries, *started["entries"])})


def _make_cgroups(order: Spawn, lab: str, journal: Journal) -> tuple[dict[str, str], int] | None:
    limits = order.limits
    if limits.cpus is None and limits.memory_bytes is None:
        return None
    try:
        paths = cgroups.plan(lab, order.child, limits.cpus, limits.memory_bytes)
    except cgroups.CgroupError as why:
        raise refused(
            f"{order.child} cannot be limited: {why}", "Leave cpus and memory out, or run as root."
        ) from why
    entry = journal.announce("cgroup", name=order.child, paths=paths)
    try:
        cgroups.create(paths, limits.cpus, limits.memory_bytes)
    except OSError as why:
        _drop_cgroups(journal, entry, paths)
        raise refused(f"{order.child} cannot be limited: {why}") from why
    return paths, entry


def _drop_cgroups(journal: Journal, entry: int, paths: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):
        cgroups.remove(paths)
        journal.done(entry)


def _fork_and_exec(
    order: Spawn, lab: str, journal: Journal, paths: Mapping[str, str], die_with_us: bool
) -> dict[str, Any]:
    opened: list[int] = []

    def pipe() -> tuple[int, int]:
        ends = os.pipe()
        opened.extend(ends)
        return ends

    def close(*descriptors: int) -> None:
        for descriptor in descriptors:
            if descriptor in opened:
                opened.remove(descriptor)
                os.close(descriptor)

    try:
        log = _open_log(order)
        opened.append(log)
        null = os.open(os.devnull, os.O_RDWR)
        opened.append(null)
        speaking = order.role in _SPEAKING
        child_in, our_in = pipe() if speaking else (null, -1)
        our_out, child_out = pipe() if speaking else (-1, log)
        status_read, status_write = pipe()
        go_read, go_write = pipe()
        pid = os.fork()
        if pid == 0:
            close(our_in, our_out, go_write)
            _become(
                order,
                lab,
                list(paths.values()),
                _Plumbing(child_in, child_out, log, status_write, go_read),
                die_with_us,
            )
        close(child_in, child_out, log, null, status_write, go_read)
        try:
            found = _read_status(status_read, order)
            machine_pid = int(found["pid"])
            stat = linux.process_stat(machine_pid)
            ticks = stat.start_ticks if stat else 0
            entry = journal.announce(
                "process", name=order.child, pid=machine_pid, start_ticks=ticks, boot_id=linux.boot_id()
            )
            os.write(go_write, b"g")
            _expect_exec(status_read, order)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise
        for descriptor in (our_in, our_out):
            if descriptor >= 0:
                opened.remove(descriptor)
                os.set_blocking(descriptor, False)
        limits = {**found["limits"], **cgroups.read_back(paths)}
        return {
            "pid": pid, "machine_pid": machine_pid, "start_ticks": ticks, "stdin": our_in, "stdout": our_out,
            "entries": (entry,), "cgroups": dict(paths), "limits": limits,
        }  # fmt: skip
    except OSError as why:
        raise refused(f"{order.child} could not be started: {why}") from why
    finally:
        close(*list(opened))


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
    """The status pipe closes by exec; a line instead says why that failed."""
    line = _read_line(descriptor)
    if line != b"":
        reason = json.loads(line)["error"] if line else f"its program did not run within {_BOUND_S:.0f} s"
        raise refused(f"{order.child} could not be started: {reason}")


def _read_line(descriptor: int) -> bytes | None:
    """A line, b"" at the end of the pipe, None when the time is up."""
    deadline, line = time.monotonic() + _BOUND_S, b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        piece = os.read(descriptor, 65536)
        if not piece:
            return line
        line += piece
    return line


def _become(order: Spawn, lab: str, groups: list[str], plumbing: _Plumbing, die_with_us: bool) -> NoReturn:
    """The child's side, from fork to exec; never returns into the agent's code."""
    try:
        _restore_signals()
        os.setsid()
        if die_with_us:
            parent = os.getppid()
            linux.die_with_parent()
            if os.getppid() != parent:
                os._exit(127)
        found = _apply_limits(order, groups)
        if order.network_namespace is not None:
            linux.enter_network_namespace(order.network_namespace)
        if order.cwd is not None:
            os.chdir(order.cwd)
        _tell(plumbing.status, {"pid": linux.machine_pid(), "limits": found})
        if os.read(plumbing.go, 1) != b"g":
            os._exit(127)
        for target, source in enumerate((plumbing.stdin, plumbing.stdout, plumbing.stderr)):
            os.dup2(source, target)
        environment = {**os.environ, **order.env, MARK: lab}
        os.execvpe(order.argv[0], list(order.argv), environment)
    except BaseException as why:
        _tell(plumbing.status, {"error": _sentence(why, order)})
    os._exit(127)


def _restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (
        signal.SIGCHLD,
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGPIPE,
        signal.SIGXFSZ,
    ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _apply_limits(order: Spawn, groups: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    cgroups.join(groups)
    if order.limits.cores is not None:
        os.sched_setaffinity(0, order.limits.cores)
    found["cores"] = sorted(os.sched_getaffinity(0))
    if order.limits.nofile is not None:
        found["nofile"] = {"asked": order.limits.nofile, "found": _set_nofile(order.limits.nofile)}
    return found


def _set_nofile(asked: int) -> int:
    """Set the soft limit, raising the hard one where that is allowed; what the kernel then holds."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and asked > hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (asked, asked))
            return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        asked = hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (asked, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _sentence(why: BaseException, order: Spawn) -> str:
    if isinstance(why, FileNotFoundError) and why.filename and str(why.filename).startswith("/run/netns/"):
        return f"there is no network namespace “{order.network_namespace}” (/run/netns)"
    if isinstance(why, OSError):
        return f"{why.strerror or why} ({why.filename or order.argv[0]})"
    return f"{type(why).__name__}: {why}"


def _tell(descriptor: int, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(what).encode() + b"\n")


def refused(reason: str, hint: str = "") -> Exception:
    """The error agent-refused."""
    return fail("agent-refused", reason=reason, hint=hint)

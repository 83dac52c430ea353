"""One run of a program on a separate core, and its cost: the CPU of its processes and of the core."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SERVER_CORE, CLIENT_CORE = 0, 1
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_ORPHANS_END_S = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Cost:
    """The cost of one run. `process_s`: user and system time of all the program's processes, to the ns of the
    scheduler's accounting. `core_s`: all work of the client core in that period, including softirq, in
    ticks of 10 ms."""

    wall_s: float
    process_s: float
    core_s: float
    foreign_s: float

    @property
    def foreign_share(self) -> float:
        """As a share of one core (docs/method.md §3: above 5 % is weak, above 20 % refused)."""
        return max(self.foreign_s, 0.0) / self.wall_s


class Failed(Exception):
    """A run that can't be counted, and the reason."""


def adopt_orphans() -> None:
    """Become the parent of all that a measured program leaves behind, so that `run` adds its CPU too."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pinned(*cores: int) -> Callable[[], None]:
    """Return a function for subprocess: pin to `cores`, allow all descriptors, end with this process."""

    def prepare() -> None:
        os.sched_setaffinity(0, cores)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return prepare


def run(
    command: Sequence[str],
    out: Path,
    timeout_s: float,
    servers: frozenset[int],
    environment: Mapping[str, str] | None = None,
    cores: Sequence[int] = (CLIENT_CORE,),
    codes: Sequence[int] = (0,),
) -> Cost:
    """Run `command` on `cores` to its end; its stdout goes to `out`, its stderr beside it.

    `servers` are the servers' pids: their CPU is not foreign. Raises Failed if it does not
    end in time (it is killed then), or with none of `codes`.
    """
    known = _children()
    served_s = sum(map(_tree_s, servers))
    before = core_times()
    begun = time.monotonic()
    with out.open("wb") as stdout, out.with_suffix(".err").open("wb") as stderr:
        # Popen's own bookkeeping would reap the child without its rusage, so only its start is used.
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=pinned(*cores),
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    try:
        code, process_s = _reap(child.pid, begun + timeout_s)
        child.returncode = code
        wall_s = time.monotonic() - begun
    finally:
        left_s = _reap_orphans(known | {child.pid})
    process_s += left_s
    spent = core_times_since(before)
    served_s = sum(map(_tree_s, servers)) - served_s
    if code not in codes:
        said = out.with_suffix(".err").read_text(errors="replace").strip()[-300:]
        raise Failed(f"{Path(command[0]).name} ended with {code}: {said}")
    client = spent[CLIENT_CORE]
    busy_s = sum(core[name] for core in spent.values() for name in ("user", "nice", "system"))
    return Cost(
        wall_s=wall_s,
        process_s=process_s,
        core_s=sum(client[name] for name in ("user", "nice", "system", "irq", "softirq")),
        foreign_s=busy_s - process_s - served_s,
    )


def _reap(pid: int, deadline: float) -> tuple[int, float]:
    handle = os.pidfd_open(pid)
    ended: list[int] = []
    try:
        ended, _, _ = select.select([handle], [], [], max(deadline - time.monotonic(), 0))
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
        os.close(handle)
    _, status, usage = os.wait4(pid, 0)
    if not ended:
        raise Failed("it, or a process that it left, did not end in time and was killed")
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def _reap_orphans(known: frozenset[int]) -> float:
    """Return the CPU of processes that the program left to us; wait for each, and end those that stay."""
    process_s = 0.0
    for pid in _children() - known:
        try:
            process_s += _reap(pid, time.monotonic() + _ORPHANS_END_S)[1]
        except (ProcessLookupError, ChildProcessError):
            continue
    return process_s


def _children() -> frozenset[int]:
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return frozenset(int(pid) for pid in found.split())


def _tree_s(pid: int) -> float:
    """Return the CPU seconds so far of a process and of its children, in ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK_S + sum(_tree_s(int(child)) for child in children)


_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def core_times() -> dict[int, dict[str, float]]:
    """Return each core's seconds by state since boot, from /proc/stat."""
    times = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            seconds = [int(field) * TICK_S for field in fields[: len(_STATES)]]
            times[int(name[3:])] = dict(zip(_STATES, seconds, strict=True))
    return times


def core_times_since(before: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    """Return each core's seconds by state since an earlier reading."""
    return {
        core: {name: seconds - before[core][name] for name, seconds in states.items()}
        for core, states in core_times().items()
    }


def busy_share(for_s: float) -> float:
    """Return the share of the machine that is busy during this time."""
    before = core_times()
    time.sleep(for_s)
    spent = core_times_since(before).values()
    whole = sum(sum(one.values()) for one in spent)
    return 1 - sum(one["idle"] + one["iowait"] for one in spent) / max(whole, 1e-9)


def build(source: Path, folder: Path) -> Path:
    """Compile one C file with `cc -O2` into `folder`, unless the program there is newer. Raise Failed with the
    compiler's message."""
    program = folder / source.stem
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    try:
        made = subprocess.run(
            ["cc", "-O2", "-Wall", "-o", str(program), str(source)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except FileNotFoundError as why:
        raise Failed("there is no C compiler (apt install gcc libc6-dev)") from why
    if made.returncode:
        raise Failed(f"cc refuses {source.name}: {made.stderr.strip()[:300]}")
    return program

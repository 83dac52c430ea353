"""One run of a program on a separate core, and its cost: the CPU of its processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

SERVER_CORE, CLIENT_CORE = 0, 1
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Cost:
    """The cost of one run. `process_s`: user and system time of all the program's processes, to the ns of the
    scheduler's accounting. `foreign_s`: work of other processes, in ticks of 10 ms. `requests`: as the server
    counted them."""

    wall_s: float
    process_s: float
    foreign_s: float = 0.0
    requests: int = 0

    @property
    def foreign_share(self) -> float:
        """Return it as a share of one core (docs/method.md §3: above 5 % is weak, above 20 % refused)."""
        return max(self.foreign_s, 0.0) / self.wall_s


class Failed(Exception):
    """A run that can't be counted, and the reason."""


@contextlib.contextmanager
def noted(failures: list[str], what: str = "") -> Iterator[None]:
    """Add the reason why a run can't be counted, after `what` was run, and go on."""
    try:
        yield
    except (Failed, AssertionError, ValueError, OSError) as why:
        failures.append(f"{what}{why}")


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
    servers: frozenset[int] = frozenset(),
    cores: Sequence[int] = (CLIENT_CORE,),
    codes: Sequence[int] = (0,),
) -> Cost:
    """Run `command` on `cores` to its end; its stdout goes to `out`, its stderr beside it.

    `servers` are the servers' pids: their CPU is not foreign. Raises Failed if it does not
    end in time (it is killed then), or with none of `codes`.
    """
    served_s, before, used_s = sum(map(_tree_s, servers)), _all_s(), _ended_s()
    begun = time.monotonic()
    with out.open("wb") as stdout, out.with_suffix(".err").open("wb") as stderr:
        child = psutil.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True,
            preexec_fn=pinned(*cores),
        )  # fmt: skip
    try:
        code = child.wait(timeout_s)
    except psutil.TimeoutExpired as why:
        child.kill()
        child.wait()
        raise Failed("it did not end in time and was killed") from why
    wall_s = time.monotonic() - begun
    process_s = _ended_s() - used_s
    spent_s = _all_s() - before
    served_s = sum(map(_tree_s, servers)) - served_s
    if code not in codes:
        found = out.with_suffix(".err").read_text(errors="replace").strip()[-300:]
        raise Failed(f"{out.stem} ended with {code}: {found}")
    return Cost(wall_s, process_s, spent_s - process_s - served_s)


def _ended_s() -> float:
    """Return the CPU seconds of all children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tree_s(pid: int) -> float:
    """Return the CPU seconds so far of a process and of its children, in ticks."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        times = [one.cpu_times() for one in (root, *root.children(recursive=True))]
        return sum(one.user + one.system for one in times)
    return 0.0


def _all_s() -> float:
    """Return the CPU seconds so far of all processes, without interrupts."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def busy_share(for_s: float) -> float:
    """Return the share of the machine that is busy during this time."""
    return psutil.cpu_percent(for_s) / 100


def build(source: Path, folder: Path) -> Path:
    """Compile one C file with `cc -O2` into `folder`, unless the program there is newer. Raise Failed with
    the compiler's message."""
    program = folder / source.stem
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    words = ["cc", "-O2", "-Wall", "-o", str(program), str(source)]
    try:
        made = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError as why:
        raise Failed("there is no C compiler (apt install gcc libc6-dev)") from why
    if made.returncode:
        raise Failed(f"cc refuses {source.name}: {made.stderr.strip()[:300]}")
    return program

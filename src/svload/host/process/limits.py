"""This process's limits, checked before anything is loaded: if too low, libraries spin, crash or mislead."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

MIB = 1 << 20


class Need(NamedTuple):
    """The least that svload needs of a limit, and how a shell raises it (in `unit` bytes)."""

    limit: int
    least: int
    what: str
    flag: str
    unit: int


NEEDS = (
    # with 1.5 GB, but not with 2.9 GB, OpenBLAS tries to allocate for ever, ignoring signals, when a load is
    # judged
    Need(resource.RLIMIT_AS, 3072 * MIB, "memory", "-v", 1024),
    Need(resource.RLIMIT_DATA, 1024 * MIB, "memory for data", "-d", 1024),
    Need(resource.RLIMIT_FSIZE, 256 * MIB, "the size of one file", "-f", 1024),
    Need(resource.RLIMIT_NOFILE, 128, "open files", "-n", 1),
)
LEAST_TASKS = 24 + 4 * (os.cpu_count() or 1)
"""Processes and threads of a command, its agent, its generators and the libraries of the analysis, which
start some per core: 15 on two cores."""


class Short(NamedTuple):
    """One limit that is too low, in words."""

    what: str
    found: str
    needed: str
    command: str


def short(proc: str = "/proc") -> Iterator[Short]:
    """Yield each limit of this process that is lower than svload needs."""
    for need in NEEDS:
        soft, _ = resource.getrlimit(need.limit)
        if 0 <= soft < need.least:
            yield Short(
                need.what,
                _amount(soft, need),
                _amount(need.least, need),
                _raise(need.flag, need.least // need.unit),
            )
    yield from _tasks(proc)


def _amount(value: int, need: Need) -> str:
    return f"{value / MIB:.{0 if value >= MIB else 2}f} MiB" if need.unit > 1 else str(value)


def _raise(flag: str, to: int) -> str:
    return f"ulimit {flag} {to}"


def _tasks(proc: str) -> Iterator[Short]:
    """Check RLIMIT_NPROC, which counts all processes of the user and does not apply to root."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft < 0 or os.getuid() == 0:
        return
    running = _running(os.getuid(), proc)
    if running + LEAST_TASKS > soft:
        found = f"{soft} (user {os.getuid()} runs {running} already)"
        yield Short(
            "processes and threads", found, f"{LEAST_TASKS} more", _raise("-u", running + LEAST_TASKS)
        )


def _running(user: int, proc: str) -> int:
    """Return the number of processes and threads of `user` that this process can see."""
    count = 0
    with os.scandir(proc) as entries:
        for entry in entries:
            if entry.name.isdecimal():
                with suppress(OSError):  # it has just ended
                    if entry.stat().st_uid == user:
                        count += os.stat(f"{entry.path}/task").st_nlink - 2
    return count

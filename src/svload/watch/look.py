"""A look at the whole machine: who uses it, what the hypervisor takes, what waits for a core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from svload.analysis.quiet import Look, Whose
from svload.host.machine.linux import ProcessStat, read
from svload.watch import proc
from svload.watch.monitors.others import KERNEL, LEAST_S, command_of, user_of


class _Reading(NamedTuple):
    at: float
    processes: Mapping[int, ProcessStat]
    stolen_s: Mapping[str, float]
    waited_s: float | None


def look_round(seconds: float, pause: Callable[[float], object] = time.sleep, root: str = "/proc") -> Look:
    """Return what the machine does in the next `seconds`, during which `pause` waits. This process and its
    family, and the kernel's threads, are left out."""
    table = proc.ProcessTable(root)
    before = _read(table, root)
    pause(seconds)
    after = _read(table, root)
    table.close()
    took = max(after.at - before.at, 1e-3)
    # In a container, process 2 may be any program.
    kernel = {pid for pid, one in after.processes.items() if pid == KERNEL and one.name == "kthreadd"}
    own = proc.families({os.getpid()} | kernel, after.processes.values())
    used = sorted(proc.used_between(before.processes, after.processes), key=lambda one: -one.seconds)
    others = [one for one in used if one.pid not in own and one.seconds >= LEAST_S]
    waited = None if before.waited_s is None or after.waited_s is None else after.waited_s - before.waited_s
    return Look(
        cores=len(after.stolen_s),
        stolen={core: max(value - before.stolen_s.get(core, value), 0.0) / took for core, value in after.stolen_s.items()},
        waited=None if waited is None else waited / took,
        others=[
            (Whose(one.name, one.pid, user_of(one.pid, root), command_of(one.pid, root)), one.seconds / took)
            for one in others
        ],
    )  # fmt: skip


def _read(table: proc.ProcessTable, root: str) -> _Reading:
    cores = proc.parse_cpu(read(f"{root}/stat"))
    pressure = proc.parse_pressure(read(f"{root}/pressure/cpu"))
    stolen_s = {core: states["steal"] for core, states in cores.items()}
    return _Reading(time.monotonic(), table.renew(), stolen_s, pressure.get("some"))

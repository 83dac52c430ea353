"""The machine beside a load: its clocks, the ports that still rest, the memory, descriptors and
ports that a plan must fit into."""

from __future__ import annotations

import os
import platform
import time

from svload.host.machine.cores import split_cores
from svload.host.machine.linux import most_open_files, read
from svload.host.machine.ports import local_ports, port_reuse_s
from svload.host.machine.sock_diag import count_time_wait
from svload.model.conditions import Machine, Moment

CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def moment(calibration_ns: float | None = None, *, ports: bool = False) -> Moment:
    """The machine now; the ports that rest are counted if asked (some 10 ms where thousands do). The clocks
    are read within a microsecond."""
    return Moment(
        monotonic_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC),
        realtime_ns=time.clock_gettime_ns(time.CLOCK_REALTIME),
        boottime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        clock_source=read(CLOCK_SOURCE) or None,
        calibration_ns=calibration_ns,
        time_wait=count_time_wait(local_ports()) if ports else None,
    )


def machine(loopback_bytes_per_s: float | None = None, timer_floor_ns: float | None = None) -> Machine:
    """What this machine can carry; the two figures are those of `host.preflight`."""
    available = os.sched_getaffinity(0)
    return Machine(
        kernel=platform.release(),
        cores=len(available),
        load_cores=len(split_cores(available).load),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        open_files=most_open_files(),
        local_ports=len(local_ports()),
        port_reuse_s=port_reuse_s(loopback=True),
        clock_source=read(CLOCK_SOURCE) or None,
        loopback_bytes_per_s=loopback_bytes_per_s,
        timer_floor_ns=timer_floor_ns,
    )

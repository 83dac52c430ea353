"""The state of the machine beside a load: its clocks, the resting ports, and the memory, descriptors and
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

_OF_TCP = {"snmp": ("Tcp", "OutSegs", "RetransSegs"), "netstat": ("TcpExt", "TCPSynRetrans")}
_CLOCK_READINGS = 20
"""Readings of the clocks, of which the quickest counts: a process that is off its core between two of them (60 ms
under a CPU quota) would look like a machine that was suspended."""
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def moment(calibration_ns: float | None = None, *, ports: bool = False) -> Moment:
    """Return the machine's current state; resting ports are counted on request (some 10 ms for thousands)."""
    sent, resent = _tcp()
    _, monotonic_ns, realtime_ns, boottime_ns = min(_clocks() for _ in range(_CLOCK_READINGS))
    return Moment(
        monotonic_ns=monotonic_ns,
        realtime_ns=realtime_ns,
        boottime_ns=boottime_ns,
        clock_source=read(CLOCK_SOURCE) or None,
        calibration_ns=calibration_ns,
        time_wait=count_time_wait(local_ports()) if ports else None,
        tcp_sent=sent,
        tcp_resent=resent,
    )


def _clocks() -> tuple[int, int, int, int]:
    """Return how long a reading of the three clocks took, then monotonic, real and boot time, all in ns."""
    clocks = time.CLOCK_MONOTONIC, time.CLOCK_REALTIME, time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC
    first, real, boot, last = map(time.clock_gettime_ns, clocks)
    return last - first, first, real, boot


def _tcp() -> tuple[int | None, int | None]:
    """Return the number of segments sent, and of those retransmitted, except SYNs, which usually wait for a
    place in a server's queue. Counted in the calling thread's network, which may be the lab's."""
    found: dict[str, int] = {}
    for name, (head, *wanted) in _OF_TCP.items():
        lines = [line.split() for line in read(f"/proc/thread-self/net/{name}").splitlines()]
        rows = [fields[1:] for fields in lines if fields[:1] == [f"{head}:"]]
        if len(rows) == 2:
            values = dict(zip(*rows, strict=True))
            found |= {key: int(values[key]) for key in wanted if key in values}
    if "OutSegs" not in found or "RetransSegs" not in found:
        return None, None
    return found["OutSegs"], found["RetransSegs"] - found.get("TCPSynRetrans", 0)


def machine(loopback_bytes_per_s: float | None = None, timer_floor_ns: float | None = None) -> Machine:
    """Return what this machine can carry; the two figures are those of `host.preflight`."""
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

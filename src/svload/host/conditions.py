"""The machine beside a load: its clocks, the ports that still rest, the memory, descriptors and ports that a plan must fit into."""

from __future__ import annotations

import os
import platform
import re
import resource
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from svload.host.cores import split_cores
from svload.host.linux import descriptors
from svload.host.sock_diag import TCP_LISTEN, count_time_wait, tcp_sockets
from svload.model.conditions import Machine, Moment

CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
TIME_WAIT_S = 60.0
"""TCP_TIMEWAIT_LEN of Linux: fixed in the kernel."""
REUSED_AFTER_S = 1.0
"""With net.ipv4.tcp_tw_reuse a port in TIME_WAIT may be taken again a second later, when the peer's stamps have moved on."""
CAP_SYS_RESOURCE = 24
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def moment(calibration_ns: float | None = None, *, ports: bool = False) -> Moment:
    """The machine now; the ports that rest are counted if asked (some 10 ms where thousands do). The clocks are read within a microsecond."""
    return Moment(
        monotonic_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC),
        realtime_ns=time.clock_gettime_ns(time.CLOCK_REALTIME),
        boottime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        clock_source=_read(CLOCK_SOURCE) or None,
        calibration_ns=calibration_ns,
        time_wait=count_time_wait(*local_ports()) if ports else None,
    )


def machine(loopback_bytes_per_s: float | None = None, timer_floor_ns: float | None = None) -> Machine:
    """What this machine can carry; the two figures are those of `host.preflight`."""
    low, high = local_ports()
    available = os.sched_getaffinity(0)
    return Machine(
        kernel=platform.release(),
        cores=len(available),
        load_cores=len(split_cores(available).load),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        open_files=_open_files(),
        local_ports=high - low + 1,
        port_reuse_s=port_reuse_s(),
        clock_source=_read(CLOCK_SOURCE) or None,
        loopback_bytes_per_s=loopback_bytes_per_s,
        timer_floor_ns=timer_floor_ns,
    )


def local_ports() -> tuple[int, int]:
    """The lowest and highest port that the kernel gives to outgoing connections."""
    low, high = (_read(Path("/proc/sys/net/ipv4/ip_local_port_range")) or "32768 60999").split()
    return int(low), int(high)


def port_reuse_s() -> float:
    """How long a local port rests after a connection to loopback that this side closed first (net.ipv4.tcp_tw_reuse 1, or 2: loopback)."""
    return REUSED_AFTER_S if _read(Path("/proc/sys/net/ipv4/tcp_tw_reuse")) in ("1", "2") else TIME_WAIT_S


def _open_files() -> int:
    """Descriptors that a generator may have: its hard limit, which CAP_SYS_RESOURCE may raise to fs.nr_open (root in a container may lack it)."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = int(_read(Path("/proc/sys/fs/nr_open")) or hard)
    return most if hard == resource.RLIM_INFINITY or _may_raise_limits() else hard


def _may_raise_limits() -> bool:
    [effective] = re.findall(r"^CapEff:\s*([0-9a-f]+)$", _read(Path("/proc/self/status")), re.MULTILINE) or [
        "0"
    ]
    return bool(int(effective, 16) >> CAP_SYS_RESOURCE & 1)


def listeners(ports: Iterable[int]) -> set[int]:
    """Pids of the processes that listen on any of these TCP ports, as far as this user may see their descriptors."""
    wanted = set(ports)
    inodes = {
        f"socket:[{one.inode}]"
        for family in _FAMILIES
        for one in tcp_sockets(family, TCP_LISTEN)
        if one.port in wanted
    }
    if not inodes:
        return set()
    return {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and descriptors(int(pid)) & inodes}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""

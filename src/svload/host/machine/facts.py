"""The facts that determine what can be measured on this machine, from /proc and the kernel's limits."""

from __future__ import annotations

import os
import platform
import resource
from typing import TYPE_CHECKING

from svload.host.machine.awake import can_stay_awake
from svload.host.machine.cores import split_cores
from svload.host.machine.linux import most_open_files, read
from svload.host.machine.ports import local_ports
from svload.model.units import show_duration, show_size

if TYPE_CHECKING:
    from svload.host.machine.preflight import Preflight
    from svload.model.conditions import Machine
    from svload.model.plan import Room


def describe_machine(measured: Preflight | None = None) -> dict[str, str]:
    """Return facts in words: cores and their split, clock, descriptors, ports, memory, kernel, root,
    congestion control, and measurements."""
    available = sorted(os.sched_getaffinity(0))
    cores = split_cores(available)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ports = local_ports()
    return {
        "cores": f"{len(available)} ({processor()})",
        "load on cores": _list(cores.load),
        "servers on cores": _list(cores.servers) + ("" if cores.pinned else " (shared: too few to separate)"),
        "memory": f"{_memory_gib():.1f} GiB",
        "clock source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource", "unknown"),
        "open files": f"{soft} soft, {hard} hard",
        "local ports": f"{ports[0]} to {ports[-1]} ({len(ports)})",
        "listen backlog limit": read("/proc/sys/net/core/somaxconn", "unknown"),
        "congestion control": read("/proc/sys/net/ipv4/tcp_congestion_control", "unknown"),
        "kernel": platform.release(),
        "sleep states": "as the machine is set"
        + ("; a study may keep CPUs awake (measure.awake)" if can_stay_awake() else ""),
        "root": "yes" if os.geteuid() == 0 else "no",
        "load average": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        **(measured_words(measured) if measured else {}),
    }


def connection_room(wanted: int) -> Room:
    """Return how many connections generators can hold here if each requests `wanted` open files, which the
    agent sets (host.spawn)."""
    from svload.model.plan import Room

    return Room(descriptors=min(wanted, most_open_files()), local_ports=len(local_ports()))


def measured_words(found: Preflight | Machine) -> dict[str, str]:
    """Return the preflight's measurements in words."""
    words = {}
    if found.loopback_bytes_per_s is not None:
        words["loopback"] = f"{show_size(found.loopback_bytes_per_s)}/s in one stream"
    if found.timer_floor_ns is not None:
        words["timers"] = f"a sleep of 1 ms wakes {show_duration(found.timer_floor_ns / 1e9)} late"
    return words


def processor() -> str:
    """Return the processor's name, else the architecture's."""
    lines = read("/proc/cpuinfo", "").splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _list(cores: tuple[int, ...]) -> str:
    return ", ".join(str(core) for core in cores)

"""What this machine is: the facts that decide what can be measured on it. Read from /proc and the kernel's limits alone."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from svload.host.cores import split_cores
from svload.model.units import show_duration, show_size

if TYPE_CHECKING:
    from svload.host.preflight import Preflight
    from svload.model.conditions import Machine
    from svload.model.plan import Room


def describe_machine(measured: Preflight | None = None) -> dict[str, str]:
    """Facts in words: cores and their split, clock, descriptors, ports, memory, kernel, root, congestion control; and what was measured."""
    available = sorted(os.sched_getaffinity(0))
    cores = split_cores(available)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low, high = _local_ports()
    return {
        "cores": f"{len(available)} ({processor()})",
        "load on cores": _list(cores.load),
        "servers on cores": _list(cores.servers)
        + ("" if cores.pinned else " (shared: too few to pin apart)"),
        "memory": f"{_memory_gib():.1f} GiB",
        "clock source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource", "unknown"),
        "open files": f"{soft} soft, {hard} hard",
        "local ports": f"{low} to {high} ({high - low + 1})",
        "listen backlog limit": _read("/proc/sys/net/core/somaxconn", "unknown"),
        "congestion control": _read("/proc/sys/net/ipv4/tcp_congestion_control", "unknown"),
        "kernel": platform.release(),
        "root": "yes" if os.geteuid() == 0 else "no",
        "load average": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        **(measured_words(measured) if measured else {}),
    }


def connection_room(wanted: int) -> Room:
    """How many connections generators can hold here, if each asks for `wanted` open files, as the agent sets them (host.spawn)."""
    from svload.model.plan import Room

    low, high = _local_ports()
    return Room(descriptors=_descriptors(wanted), local_ports=high - low + 1)


def _descriptors(wanted: int) -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or wanted <= hard:
        return wanted
    most = int(_read("/proc/sys/fs/nr_open", str(hard)))
    return wanted if os.geteuid() == 0 and wanted <= most else hard


def _local_ports() -> tuple[int, int]:
    low, high = _read("/proc/sys/net/ipv4/ip_local_port_range", "32768 60999").split()
    return int(low), int(high)


def measured_words(found: Preflight | Machine) -> dict[str, str]:
    """What the preflight measured, in words."""
    words = {}
    if found.loopback_bytes_per_s is not None:
        words["loopback"] = f"{show_size(found.loopback_bytes_per_s)}/s in one stream"
    if found.timer_floor_ns is not None:
        words["timers"] = f"a sleep of 1 ms wakes {show_duration(found.timer_floor_ns / 1e9)} late"
    return words


def _read(path: str, otherwise: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return otherwise


def processor() -> str:
    """The processor's own name, else the architecture's."""
    lines = _read("/proc/cpuinfo", "").splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _list(cores: tuple[int, ...]) -> str:
    return ", ".join(str(core) for core in cores)

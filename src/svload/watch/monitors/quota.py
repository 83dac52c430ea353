"""A service's control groups at work: limits of CPU, memory, processes and disks, how close it is to each,
and how often the kernel enforced one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from svload.host.machine.linux import read
from svload.host.process import cgroups, disk_rates
from svload.model.declared import Limit, Refusal
from svload.watch.monitor import Monitor, Reading

SETTINGS = frozenset({"cpus", "memory_bytes", "pids", "disk_read_bytes_per_s", "disk_write_bytes_per_s"})
"""A group's limits (`model.facts.GroupFact`): listed here, because the sampler imports no models."""
_NO_LIMIT = 1 << 60
"""Version 1 reports “no limit” as a number near 2⁶³."""


class QuotaMonitor(Monitor):
    """An entity for each control group with a limit: the service's own, and one shared with others."""

    name = "quota"
    summary = (
        "a service's limits of CPU, memory, processes and disks at work, from the kernel's control groups"
    )
    metrics: ClassVar[Mapping[str, str]] = {
        "throttled_seconds_total": "time in which tasks that wanted to run were held back by the quota",
        "group_cpu_seconds_total": "CPU time of the group",
        "quota_ratio": "cores that the group's quota allows (1: one core); absent without a quota",
        "group_memory_bytes": "memory charged to the group, page cache included",
        "group_anonymous_bytes": "of it what is no file's: what can't be given back without swap",
        "group_memory_limit_bytes": "memory that the group may have; absent without a limit",
        "oom_kills_total": "number of processes of the group that the kernel killed for lack of memory",
        "group_processes": "number of processes and threads in the group",
        "group_processes_limit": "number of them that there may be; absent without a limit",
        "forks_refused_total": "number of forks that the limit of processes refused",
        "group_disk_read_bytes_total": "bytes read from the limited disk that the group reads most",
        "group_disk_read_limit_bytes": "bytes that it may read from each disk a second",
        "group_disk_write_bytes_total": "bytes written to the limited disk that the group writes most",
        "group_disk_write_limit_bytes": "bytes that it may write to each disk a second",
    }
    limits = (
        Limit("CPU quota", "cpu", "group_cpu_seconds_total", "quota_ratio", at=0.95),
        Limit(
            "memory limit", "memory", "group_anonymous_bytes", "group_memory_limit_bytes", at=0.95, brief=True
        ),
        Limit("limit of processes", "workers", "group_processes", "group_processes_limit", brief=True),
        Limit(
            "disk read rate", "disk", "group_disk_read_bytes_total", "group_disk_read_limit_bytes", at=0.95
        ),
        Limit(
            "disk write rate", "disk", "group_disk_write_bytes_total", "group_disk_write_limit_bytes", at=0.95
        ),
    )
    refusals = (
        Refusal("oom_kills_total", "of its processes killed for lack of memory", "memory", kind="failed"),
        Refusal("forks_refused_total", "forks refused by its limit of processes", "workers"),
    )

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._groups = {str(group["name"]): group["paths"] for group in _limited(facts)}

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return bool(facts and facts.get("processes") and _limited(facts))

    def sample(self) -> Iterable[Reading]:
        """Raises ProcessLookupError if none of its groups exists any more."""
        readings = [
            Reading(name, metric, value)
            for name, paths in self._groups.items()
            for metric, value in read_group(paths)
        ]
        if not readings:
            raise ProcessLookupError(f"no control group of {self.service} shows its limits")
        return readings


def _limited(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    groups: Iterable[dict[str, Any]] = facts.get("groups", ())
    return [group for group in groups if any(one["name"] in SETTINGS for one in group["settings"])]


def read_group(paths: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Yield (metric, value) for all that the groups' folders report, by controller or `unified`."""
    throttled = cgroups.throttled_s(paths)
    if throttled is not None:
        yield "throttled_seconds_total", throttled
    limits = cgroups.read_back(paths)
    if "cpus" in limits:
        yield "quota_ratio", limits["cpus"]
    if 0 < limits.get("memory_bytes", 0) < _NO_LIMIT:
        yield "group_memory_limit_bytes", limits["memory_bytes"]
    for way in disk_rates.WAYS:
        moved = disk_rates.moved_bytes(paths, way)
        if disk_rates.kind_of(way) in limits and moved is not None:
            yield f"group_disk_{way}_bytes_total", moved
            yield f"group_disk_{way}_limit_bytes", limits[disk_rates.kind_of(way)]
    unified = paths.get("unified", "")
    for controller, file, metric, unit in _NUMBERS:
        value = _number(os.path.join(paths.get(controller, ""), file)) if controller in paths else None
        if value is not None:
            yield metric, value * unit
    for controller, file, field, metric, unit in _FIELDS:
        folder = unified if controller == "unified" else paths.get(controller, "")
        value = _fields(os.path.join(folder, file)).get(field) if folder else None
        if value is not None:
            yield metric, value * unit


_NUMBERS = (
    ("cpuacct", "cpuacct.usage", "group_cpu_seconds_total", 1e-9),
    ("memory", "memory.usage_in_bytes", "group_memory_bytes", 1.0),
    ("unified", "memory.current", "group_memory_bytes", 1.0),
    ("pids", "pids.current", "group_processes", 1.0),
    ("pids", "pids.max", "group_processes_limit", 1.0),
    ("unified", "pids.current", "group_processes", 1.0),
    ("unified", "pids.max", "group_processes_limit", 1.0),
)
_FIELDS = (
    ("unified", "cpu.stat", "usage_usec", "group_cpu_seconds_total", 1e-6),
    ("memory", "memory.stat", "total_rss", "group_anonymous_bytes", 1.0),
    ("unified", "memory.stat", "anon", "group_anonymous_bytes", 1.0),
    ("memory", "memory.oom_control", "oom_kill", "oom_kills_total", 1.0),
    ("unified", "memory.events", "oom_kill", "oom_kills_total", 1.0),
    ("pids", "pids.events", "max", "forks_refused_total", 1.0),
    ("unified", "pids.events", "max", "forks_refused_total", 1.0),
)


def _number(path: str) -> float | None:
    """Return the number in a file; None for “max”, or if there is no file."""
    text = read(path)
    return float(text) if text.isdigit() else None


def _fields(path: str) -> dict[str, float]:
    """Return `name value` lines."""
    pairs = (line.split() for line in read(path).splitlines())
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}

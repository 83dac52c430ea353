"""Each service's processes: CPU, memory, threads, descriptors, with all that they started."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

from svload.host.process import cgroups
from svload.model.declared import Limit
from svload.watch import proc
from svload.watch.monitor import Monitor, Reading

BOUNDS_EVERY_S = 5.0
"""How often a process's own limits are read again: a server raises them when it starts, and rarely later."""
FRESH_S = 0.05
_FULLEST, _LIMIT = "fds_fullest", "fds_limit"


class CoreTable:
    """Each core's busy seconds, read at most once in `FRESH_S` for all callers."""

    def __init__(self) -> None:
        self._read_at = float("-inf")
        self._busy: dict[int, float] = {}
        self._file: proc.ProcFile | None = None

    def busy(self) -> dict[int, float]:
        """Return core → seconds so far, at most `FRESH_S` old."""
        if time.monotonic() - self._read_at >= FRESH_S:
            self._file = self._file or proc.ProcFile("/proc/stat")
            found = proc.parse_cpu(self._file.read().partition(b"\nintr ")[0].decode("ascii", "replace"))
            self._busy = {int(core.removeprefix("cpu")): states["busy"] for core, states in found.items()}
            self._read_at = time.monotonic()
        return self._busy


class ProcessMonitor(Monitor):
    """One entity for each process in the facts (it and its family), and the empty entity for the whole
    service.

    A process in two families counts once in the whole. CPU of children that ended is kept by the parent that
    waited for them; if none does (SA_NOCLDWAIT), only a control group knows it. So the whole service's CPU is
    that of its groups, if it has any.
    """

    name = "process"
    summary = "CPU, memory, threads and descriptors of a service's processes and of all that they started"
    metrics: ClassVar[Mapping[str, str]] = {
        "cpu_seconds_total": "CPU time used, user and system, ended children included; of the whole service that of its control groups, where it has any",
        "rss_bytes": "resident memory; pages shared by several processes count in each",
        "processes": "number of processes",
        "threads": "number of threads",
        "read_bytes_total": "bytes that they had a disk read, beyond what lay in the page cache",
        "written_bytes_total": "bytes that they wrote for a disk, as they wrote them to the page cache",
        "fds": "number of open descriptors",
        _FULLEST: "number of open descriptors of the process that is nearest to its limit",
        _LIMIT: "number of descriptors that this process may have, its soft limit",
        "cores_allowed": "number of cores that they may run on",
        "hot_core_ratio": "busy time of the busiest of these cores since the previous reading, whoever used "
        "it; only where they are pinned to some of the machine's",
    }
    limits = (
        Limit("descriptors", "descriptors", _FULLEST, _LIMIT, brief=True),
        Limit("cores", "cpu", "cpu_seconds_total", "cores_allowed", at=0.95, entity=""),
        Limit("busiest core", "cpu", "hot_core_ratio", 1.0, at=0.95, own="cpu_seconds_total"),
    )
    table: ClassVar[proc.ProcessTable] = proc.ProcessTable()
    cores: ClassVar[CoreTable] = CoreTable()
    root: ClassVar[str] = "/proc"

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._bounds: dict[int, proc.Bounds] = {}
        self._bounds_at = float("-inf")
        self._before: tuple[float, dict[int, float]] | None = None
        self._groups = [
            cgroups.CpuTime(group["paths"])
            for group in facts.get("groups", ())
            if str(group["name"]).partition("[")[0] == service
        ]

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return bool(facts and facts.get("processes"))

    def sample(self) -> Iterable[Reading]:
        """Raises ProcessLookupError if none of the service's processes exists any more."""
        members = members_of(self.facts, self.table)
        everyone = set().union(*members.values())
        found = {pid: figures for pid in everyone if (figures := self._figures(pid)) is not None}
        if not found:
            raise ProcessLookupError(f"no process of {self.service} is there")
        readings = [
            reading
            for name, pids in members.items()
            for reading in _sums(name, [found[pid] for pid in pids if pid in found])
        ]
        whole = _sums("", list(found.values()))
        return [*readings, *self._with_group_cpu(whole), *self._against_limits(found)]

    def _with_group_cpu(self, whole: list[Reading]) -> list[Reading]:
        used = [seconds for group in self._groups if (seconds := group.seconds()) is not None]
        if not used or len(used) < len(self._groups):
            return whole
        others = [one for one in whole if one.metric != "cpu_seconds_total"]
        return [*others, Reading("", "cpu_seconds_total", sum(used))]

    def _figures(self, pid: int) -> dict[str, float] | None:
        stat = self.table.now(pid)
        if stat is None:
            return None
        figures = {
            "cpu_seconds_total": stat.cpu_seconds,
            "rss_bytes": stat.rss_bytes,
            "processes": 1,
            "threads": stat.threads,
        }
        read, written = self.table.disk(pid)
        if read is not None:
            figures["read_bytes_total"] = read
        if written is not None:
            figures["written_bytes_total"] = written
        if (descriptors := self.table.descriptors(pid)) is not None:
            figures["fds"] = descriptors
        return figures

    def close(self) -> None:
        for group in self._groups:
            group.close()

    def _against_limits(self, found: Mapping[int, Mapping[str, float]]) -> Iterator[Reading]:
        """Yield descriptors of the process nearest to its limit, and the cores that the service may use."""
        if time.monotonic() - self._bounds_at >= BOUNDS_EVERY_S:
            self._bounds, self._bounds_at = {}, time.monotonic()
        for pid in found.keys() - self._bounds.keys():
            self._bounds[pid] = proc.read_bounds(pid, self.root)
        bounds = {pid: self._bounds[pid] for pid in found}
        held = [
            (figures["fds"], limit)
            for pid, figures in found.items()
            if "fds" in figures and (limit := bounds[pid].descriptors)
        ]
        if held:
            fullest, limit = max(held, key=lambda one: one[0] / one[1])
            yield Reading("", _FULLEST, fullest)
            yield Reading("", _LIMIT, limit)
        allowed = frozenset[int]().union(*(one.cores for one in bounds.values()))
        if allowed:
            yield Reading("", "cores_allowed", len(allowed))
            yield from self._hot_core(allowed)

    def _hot_core(self, allowed: frozenset[int]) -> Iterator[Reading]:
        now, before = time.monotonic(), self._before
        if before is not None and now - before[0] < BOUNDS_EVERY_S and not allowed < before[1].keys():
            return  # it may run on all of them
        busy = self.cores.busy()
        if before is not None and busy is before[1]:
            return  # counted at that time, not now
        self._before = (now, busy)
        if before is None or not allowed < busy.keys():
            return
        yield Reading(
            "",
            "hot_core_ratio",
            max(busy[core] - before[1].get(core, 0.0) for core in allowed) / (now - before[0]),
        )


def members_of(facts: Mapping[str, Any], table: proc.ProcessTable) -> dict[str, AbstractSet[int]]:
    """Return, by name in the facts, the pids of each process that is still there, and of its family."""
    roots: dict[str, set[int]] = {}
    for process in facts["processes"]:
        pid = int(process["pid"])
        leader = table.now(pid)
        if leader is not None and not leader.ended and leader.start_ticks == int(process["start_ticks"]):
            roots.setdefault(str(process["name"]), set()).add(pid)
    return {name: table.families(pids) for name, pids in roots.items()}


def _sums(entity: str, processes: Sequence[Mapping[str, float]]) -> list[Reading]:
    sums: dict[str, float] = {}
    for figures in processes:
        for metric, value in figures.items():
            sums[metric] = sums.get(metric, 0.0) + value
    return [Reading(entity, metric, value) for metric, value in sums.items()]

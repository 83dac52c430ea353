"""Each service's processes: CPU, memory, threads, descriptors, with all that they started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from svload.watch import proc
from svload.watch.monitor import Monitor, Reading


class ProcessMonitor(Monitor):
    """One entity for each process that the facts name (it and its family), and the empty entity for the whole service.

    A process in two families counts once in the whole. CPU of children that ended is kept by the parent that waited for them.
    """

    name = "process"
    summary = "CPU, memory, threads and descriptors of a service's processes and of all that they started"
    metrics: ClassVar[Mapping[str, str]] = {
        "cpu_seconds_total": "CPU time used, user and system, ended children included",
        "rss_bytes": "resident memory; pages shared by several processes count in each",
        "processes": "number of processes",
        "threads": "number of threads",
        "read_bytes_total": "bytes that they had a disk read, beyond what lay in the page cache",
        "fds": "number of open descriptors",
    }
    table: ClassVar[proc.ProcessTable] = proc.ProcessTable()
    root: ClassVar[str] = "/proc"

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        """Every service that names processes."""
        return bool(facts and facts.get("processes"))

    def sample(self) -> Iterable[Reading]:
        """Raises ProcessLookupError when none of the service's processes is there any more."""
        machine = self.table.all()
        members: dict[str, set[int]] = {}
        for process in self.facts["processes"]:
            pid = int(process["pid"])
            leader = proc.read_stat(pid, self.root)
            if leader is not None and not leader.ended and leader.start_ticks == int(process["start_ticks"]):
                members.setdefault(str(process["name"]), set()).update(proc.family(pid, machine))
        everyone = set().union(*members.values())
        if not everyone:
            raise ProcessLookupError(f"no process of {self.service} is there")
        found = {pid: figures for pid in everyone if (figures := self._figures(pid)) is not None}
        readings = [
            reading
            for name, pids in members.items()
            for reading in _sums(name, [found[pid] for pid in pids if pid in found])
        ]
        return readings + _sums("", list(found.values()))

    def _figures(self, pid: int) -> dict[str, float] | None:
        stat = proc.read_stat(pid, self.root)
        if stat is None:
            return None
        figures = {
            "cpu_seconds_total": stat.cpu_seconds,
            "rss_bytes": stat.rss_bytes,
            "processes": 1,
            "threads": stat.threads,
        }
        read = proc.read_from_disk(pid, self.root)
        if read is not None:
            figures["read_bytes_total"] = read
        descriptors = proc.count_descriptors(pid, self.root)
        return figures if descriptors is None else {**figures, "fds": descriptors}


def _sums(entity: str, processes: Sequence[Mapping[str, float]]) -> list[Reading]:
    sums: dict[str, float] = {}
    for figures in processes:
        for metric, value in figures.items():
            sums[metric] = sums.get(metric, 0.0) + value
    return [Reading(entity, metric, value) for metric, value in sums.items()]

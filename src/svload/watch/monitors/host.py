"""The machine: cores, memory, disks, network, pressure, and other things that can disturb a measurement."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from svload.host.machine.linux import PAGE_BYTES
from svload.model.declared import Limit, Refusal
from svload.watch import proc
from svload.watch.monitor import Monitor, Reading

SLOW_EVERY_S = 1.0
"""How often the files are read that cost the kernel most, which are also the longest."""


class HostMonitor(Monitor):
    """/proc of the whole machine. Entities: `cpu0`…, disks, interfaces, `cpu`/`io`/`memory` for pressure,
    else empty.

    Values that the kernel has to sum over cores and lists for each reading (memory, the protocols' counters,
    pressure) are read once a second, and at both ends of a load.
    """

    name = "host"
    summary = "the machine's cores, memory, disks, network and pressure, from /proc"
    metrics: ClassVar[Mapping[str, str]] = {
        "busy_seconds_total": "per core: time in anything but idle and waiting for a disk, steal included",
        "user_seconds_total": "per core: time in user code",
        "system_seconds_total": "per core: time in the kernel, without interrupts",
        "softirq_seconds_total": "per core: time in interrupts, where the network's work is done",
        "iowait_seconds_total": "per core: idle while a disk was awaited",
        "steal_seconds_total": "per core: time that the hypervisor gave to others",
        "memory_total_bytes": "memory of the machine",
        "memory_available_bytes": "memory that could be had without swapping",
        "memory_cached_bytes": "page cache",
        "reads_total": "per disk: number of reads",
        "read_bytes_total": "per disk: bytes read",
        "writes_total": "per disk: number of writes",
        "written_bytes_total": "per disk: bytes written",
        "io_seconds_total": "per disk: time with any request under way (about 0 under a throttle)",
        "in_flight": "number of requests under way, per disk",
        "queue_seconds_total": "per disk: time of all its requests together, waiting included: its growth a "
        "second is the mean queue",
        "received_bytes_total": "per interface: bytes received",
        "received_packets_total": "per interface: number of packets received",
        "received_drops_total": "per interface: number of packets dropped on receipt",
        "sent_bytes_total": "per interface: bytes sent",
        "sent_packets_total": "per interface: number of packets sent",
        "sent_drops_total": "per interface: number of packets dropped on sending",
        "pressure_some_seconds_total": "cpu, io or memory: time in which at least one task waited for it",
        "pressure_full_seconds_total": "cpu, io or memory: time in which all tasks waited for it",
        "context_switches_total": "number of context switches",
        "forks_total": "number of processes and threads that were started",
        "running": "number of tasks that run or want to",
        "blocked": "number of tasks that wait for a disk",
        "listen_overflows_total": "number of connections refused for a full accept queue",
        "listen_drops_total": "number of SYNs dropped by a listening socket",
        "retransmits_total": "number of TCP segments sent again",
        "time_wait": "number of TCP sockets in TIME_WAIT",
        "tcp_memory_bytes": "memory of all TCP sockets' buffers",
        "tcp_memory_limit_bytes": "what the kernel gives to them at most (net.ipv4.tcp_mem)",
        "receive_buffer_drops_total": "number of TCP segments dropped for a full receive buffer",
        "backlog_drops_total": "number of TCP segments dropped, the socket being in use and its backlog full",
        "udp_buffer_errors_total": "number of UDP datagrams dropped for a full buffer",
        "files_open": "number of open files of the whole machine",
        "files_limit": "number of files that may be open (fs.file-max)",
        "major_faults_total": "number of page faults that read a disk",
        "oom_kills_total": "number of processes killed for lack of memory",
        "drop_pagecache_total": "number of times that someone dropped the page cache",
    }
    limits = (
        # Which core is a server's and which the load's, the machine can't tell: the monitor `process` does.
        Limit("core", "cpu", "busy_seconds_total", 1.0, at=0.95, verdict=False),
        Limit("disk", "disk", "io_seconds_total", 1.0, at=0.95, verdict=False),
        Limit("memory of TCP buffers", "memory", "tcp_memory_bytes", "tcp_memory_limit_bytes", brief=True, verdict=False),
        Limit("open files", "descriptors", "files_open", "files_limit", brief=True, verdict=False),
    )  # fmt: skip
    refusals = (
        Refusal("listen_overflows_total", "connections refused for a full accept queue, of any program", "accept queue", verdict=False),
        Refusal("retransmits_total", "TCP segments sent again", "network", kind="lost", verdict=False),
        Refusal("received_drops_total", "packets dropped on receipt", "network", kind="lost", verdict=False),
        Refusal("sent_drops_total", "packets dropped on sending", "network", kind="lost", verdict=False),
        Refusal("receive_buffer_drops_total", "TCP segments dropped for a full receive buffer", "network", kind="lost", verdict=False),
        Refusal("backlog_drops_total", "TCP segments dropped for a full backlog", "network", kind="lost", verdict=False),
        Refusal("udp_buffer_errors_total", "UDP datagrams dropped for a full buffer", "network", kind="lost", verdict=False),
        Refusal("oom_kills_total", "processes killed for lack of memory", "memory", kind="failed", verdict=False),
        Refusal("major_faults_total", "page faults that read a disk", "memory", kind="waited", verdict=False),
    )  # fmt: skip
    root: ClassVar[str] = "/proc"

    def __init__(self, service: str, facts: dict[str, Any]) -> None:
        super().__init__(service, facts)
        self._quick = _opened(self.root, _FILES)
        self._slow = _opened(self.root, _SLOW_FILES)
        self._slow_due = 0.0

    @classmethod
    def reads(cls, facts: dict[str, Any] | None) -> bool:
        return facts is None

    def sample(self) -> Iterable[Reading]:
        """Read the open files that are due."""
        readings = [reading for part in self._quick for reading in part.readings()]
        now_s = time.monotonic()
        if now_s >= self._slow_due:
            self._slow_due = now_s + SLOW_EVERY_S
            readings += [reading for part in self._slow for reading in part.readings()]
        return readings

    def catch_up(self) -> None:
        """Read all files at the ends of a load."""
        self._slow_due = 0.0

    def close(self) -> None:
        for part in (*self._quick, *self._slow):
            part.file.close()
        self._quick = self._slow = []


class _Part:
    """One file and its content; a text that has not changed is not parsed again."""

    def __init__(self, file: proc.ProcFile, read: Callable[[bytes], list[Reading]]) -> None:
        self.file = file
        self._read = read
        self._known: tuple[bytes, list[Reading]] = (b"", [])

    def readings(self) -> list[Reading]:
        """Return its present readings."""
        text = self.file.read()
        if self._known[0] != text:
            self._known = (text, self._read(text))
        return self._known[1]


def _opened(root: str, files: Mapping[str, Callable[[bytes], list[Reading]]]) -> list[_Part]:
    """Open those files that this kernel has and lets us read."""
    found = []
    for path, read in files.items():
        with contextlib.suppress(OSError):
            file = proc.ProcFile(os.path.join(root, path))
            try:
                file.read()  # a kernel whose pressure files are disabled opens them, but refuses to read
            except OSError:
                file.close()
                continue
            found.append(_Part(file, read))
    return found


_OF_STAT = {
    b"ctxt ": "context_switches_total",
    b"processes ": "forks_total",
    b"procs_running ": "running",
    b"procs_blocked ": "blocked",
}
_OF_MEMORY = {
    b"MemTotal:": "memory_total_bytes",
    b"MemAvailable:": "memory_available_bytes",
    b"Cached:": "memory_cached_bytes",
}
_OF_VMSTAT = {
    b"pgmajfault ": "major_faults_total",
    b"oom_kill ": "oom_kills_total",
    b"drop_pagecache ": "drop_pagecache_total",
}
_DROPPED = ("TcpExt.TCPRcvQDrop", "TcpExt.RcvPruned", "TcpExt.OfoPruned")
_OF_NETSTAT = {
    "TcpExt.ListenOverflows": "listen_overflows_total",
    "TcpExt.ListenDrops": "listen_drops_total",
    "TcpExt.TCPBacklogDrop": "backlog_drops_total",
    "dropped": "receive_buffer_drops_total",
}
_ERRORS = ("Udp.RcvbufErrors", "Udp.SndbufErrors")
_OF_SNMP = {"Tcp.RetransSegs": "retransmits_total", "errors": "udp_buffer_errors_total"}
"""By file: the kernel's name → ours. Nothing else in these long files is parsed, every 0.2 s."""


def _stat(text: bytes) -> list[Reading]:
    of_cores = text.partition(b"\nintr ")[0]  # thousands of numbers follow
    cores = [
        Reading(core, f"{state}_seconds_total", seconds)
        for core, states in proc.parse_cpu(of_cores.decode("ascii", "replace")).items()
        for state, seconds in states.items()
    ]
    return cores + _pairs(text, _OF_STAT)


def _pairs(text: bytes, wanted: Mapping[bytes, str]) -> list[Reading]:
    found = proc.parse_pairs(text, wanted)
    return [Reading("", metric, found[name]) for name, metric in wanted.items() if name in found]


def _netstat(text: bytes) -> list[Reading]:
    found = proc.parse_titled(text, (*_OF_NETSTAT, *_DROPPED))
    if any(name in found for name in _DROPPED):
        found["dropped"] = sum(found.get(name, 0.0) for name in _DROPPED)
    return _named(found, _OF_NETSTAT)


def _snmp(text: bytes) -> list[Reading]:
    found = proc.parse_titled(text, (*_OF_SNMP, *_ERRORS))
    if any(name in found for name in _ERRORS):
        found["errors"] = sum(found.get(name, 0.0) for name in _ERRORS)
    return _named(found, _OF_SNMP)


def _sockstat(text: bytes) -> list[Reading]:
    for line in text.decode("ascii", "replace").splitlines():
        fields = line.split()
        if fields[:1] == ["TCP:"]:
            held = float(fields[fields.index("mem") + 1]) * PAGE_BYTES if "mem" in fields else 0.0
            waits = float(fields[fields.index("tw") + 1])
            return [Reading("", "time_wait", waits), Reading("", "tcp_memory_bytes", held)]
    return []


def _tcp_memory(text: bytes) -> list[Reading]:
    return [Reading("", "tcp_memory_limit_bytes", float(text.split()[2]) * PAGE_BYTES)]


def _files(text: bytes) -> list[Reading]:
    opened, _, limit = text.split()
    return [Reading("", "files_open", float(opened)), Reading("", "files_limit", float(limit))]


def _disks(text: bytes) -> list[Reading]:
    return [
        Reading(disk, name if name == "in_flight" else f"{name}_total", value)
        for disk, values in proc.parse_disks(text.decode("ascii", "replace")).items()
        for name, value in values.items()
    ]


def _network(text: bytes) -> list[Reading]:
    found = proc.parse_interfaces(text.decode("ascii", "replace"))
    return [
        Reading(interface, f"{name}_total", value)
        for interface, values in found.items()
        for name, value in values.items()
    ]


def _pressure(text: bytes, entity: str) -> list[Reading]:
    return [
        Reading(entity, f"pressure_{kind}_seconds_total", seconds)
        for kind, seconds in proc.parse_pressure(text.decode("ascii", "replace")).items()
    ]


def _named(values: Mapping[str, float], wanted: Mapping[str, str]) -> list[Reading]:
    return [Reading("", metric, values[name]) for name, metric in wanted.items() if name in values]


_FILES: Mapping[str, Callable[[bytes], list[Reading]]] = {
    "stat": _stat,
    "diskstats": _disks,
    "self/net/dev": _network,
    "self/net/sockstat": _sockstat,
    "sys/net/ipv4/tcp_mem": _tcp_memory,
    "sys/fs/file-nr": _files,
}
_SLOW_FILES: Mapping[str, Callable[[bytes], list[Reading]]] = {
    "meminfo": partial(_pairs, wanted=_OF_MEMORY),
    "vmstat": partial(_pairs, wanted=_OF_VMSTAT),
    "self/net/netstat": _netstat,
    "self/net/snmp": _snmp,
    **{f"pressure/{entity}": partial(_pressure, entity=entity) for entity in ("cpu", "io", "memory")},
}

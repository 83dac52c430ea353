"""Facts from kits about their services: endpoints, processes, counters, settings; and a trial's lab.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from svload.model.base import Artefact, Frozen
from svload.model.conditions import Conditions
from svload.model.declared import Declared
from svload.model.faults import FaultEvent
from svload.model.parameters import Layer
from svload.model.units import show_rate, show_size
from svload.model.unix_url import PREFIX


class Endpoint(Frozen):
    """Where one scheme of a service listens."""

    scheme: Literal["http", "https", "tcp", "tls"]
    """the scheme spoken there"""
    address: str
    """IP address, or `unix:` and the path of a socket"""
    port: int
    """TCP port; 0 for a socket's path"""
    ca_pem: str | None = None
    """certificate authority that verifies its certificate; null: none was given"""
    verify: bool = True
    """its certificate is verified"""
    via: str | None = None
    """what terminates TLS: hitch, or the service itself; null: not reported"""
    authority: str | None = None
    """host[:port] by which a server outside the lab is known; null: the service's name"""

    @property
    def connects_to(self) -> str:
        """Return the address as a share has it: `ip:port`, `[ip6]:port` or `unix:/path`."""
        if self.address.startswith(PREFIX):
            return self.address
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


class ProcessFact(Frozen):
    """A process that belongs to a service."""

    name: str
    """its part in the service, such as varnishd"""
    pid: int
    """the machine's (outermost) pid"""
    start_ticks: int
    """start time in clock ticks since boot (/proc/PID/stat): distinguishes it from a reused pid"""


class Counters(Frozen):
    """Canonical counters of a service at one moment; a key that the service does not offer is absent.

    Keys: requests, answers, hits, misses, connections, tls_handshakes, tls_resumed,
    bytes_out, body_bytes_out, status.NNN.
    """

    at_ns: int
    """CLOCK_MONOTONIC when reading began, without an offset"""
    values: dict[str, float]
    """by canonical name: sums since the service's start or reset, and the sizes of files that it sends"""
    exact: bool = True
    """true: up to date immediately; false: only `settle_s` after the load's end"""
    raw: dict[str, float] = {}
    """by the server's own names, in its own units"""


CPUS = "cpus"
"""The setting for the number of cores that a group's quota allows."""
DISK_READ, DISK_WRITE = "disk_read_bytes_per_s", "disk_write_bytes_per_s"
"""The settings for the rates at which a group may read from its disks and write to them."""
BUFFERED = (
    "version 1 of the kernel's control groups holds direct and synchronous writes alone (O_DIRECT, fsync), "
    "and what the page cache writes later escapes the limit"
)
"""Why a limit on writes may not have held."""
GROUP_SETTINGS = (CPUS, "memory_bytes", "pids", DISK_READ, DISK_WRITE)
"""All limits that a group may have."""
LINK_RATE = "rate_limit"
"""The setting for the bytes per second that may leave by a link that the server itself simulates."""
LINK_SPEED, LINK_LATENCY = "link_rate_bytes_per_s", "link_latency_s"
"""The settings for a link's bytes per second each way, and for the latency it adds to a round trip."""
FILES, RESIDENT_FILES = "file_bytes", "file_resident_bytes"
"""Counters of a service that sends files: the size of the files, and how much of it is in the page cache."""


class Setting(Frozen):
    """A setting as requested and as the running service reports it."""

    name: str
    """an option of the service, or the server's own name for it"""
    asked: str | None
    """value that was requested; null: none"""
    found: str | None
    """value that the running service or the kernel reports; null: it can't be read back"""
    layer: Layer = "server"
    """what it belongs to"""
    why: str = ""
    """why it differs from the requested value, if known"""


class GroupFact(Frozen):
    """A control group that contains all of a service, its processes' children included; or a parent that
    several services share."""

    name: str
    """name of the service, or of the machine that contains it"""
    paths: dict[str, str]
    """its folder by controller; `unified` with version 2 of the kernel's control groups"""
    settings: tuple[Setting, ...]
    """its limits (cpus, memory_bytes, pids, disk_read_bytes_per_s, disk_write_bytes_per_s) as requested and
    as the kernel reports them"""

    @property
    def cpus(self) -> float | None:
        """Return the cores that its quota allows; None: it has no quota."""
        return self.held(CPUS)

    def held(self, name: str) -> float | None:
        """Return a limit as the kernel reports it; None: there is none of that name."""
        found = next((setting.found for setting in self.settings if setting.name == name), None)
        return float(found) if found is not None else None


class LinkFact(Frozen):
    """The link of a server that has its own network namespace."""

    name: str
    """the server, such as `web[2]`"""
    outside: str
    """the lab's interface to it"""
    network: str
    """file of its network namespace; exists as long as the lab"""
    settings: tuple[Setting, ...]
    """its limits (link_rate_bytes_per_s, link_latency_s), as requested and as found"""
    delay_line: str | None = None
    """file in which the process that delays its packets records what it does; null: nothing delays them"""

    def held(self, name: str) -> float | None:
        """Return a limit of the link; None: there is none of that name."""
        found = next((setting.found for setting in self.settings if setting.name == name), None)
        return float(found) if found is not None else None


class ServiceFacts(Frozen):
    """What one running service offers to load, monitors and judges."""

    service: str
    """its name in the study"""
    kit: str
    """the kit that started it"""
    version: str
    """the server's own version; empty: not known"""
    endpoints: tuple[Endpoint, ...] = ()
    """where it listens, one entry per scheme; for several replicas those of all"""
    named: dict[str, Endpoint] = {}
    """further ports, by name: a URL says `service.name`"""
    processes: tuple[ProcessFact, ...] = ()
    """its processes, without svload's own helpers; empty for a server that was already running"""
    admin: dict[str, Any] = {}
    """addresses and folders that monitors and kits use to query it, by kind"""
    settle_s: float = 0.0
    """seconds after the load's end until its counters are up to date; 0: immediately"""
    settings: tuple[Setting, ...] = ()
    """settings read back when the service was ready"""
    groups: tuple[GroupFact, ...] = ()
    """control groups that contain its processes, its own first; empty: neither it nor its parent has a
    limit"""
    links: tuple[LinkFact, ...] = ()
    """its servers' own links; empty: they listen in the lab's shared network"""
    machine: str = ""
    """machine of the inventory that it runs on (`on`); empty: the one that controls the run"""
    outputs: dict[str, str] = {}
    """further outputs of the kit, name → value; secrets only as digests"""
    programs: dict[str, str] = {}
    """programs of the study's folder that it was started from, file or folder → SHA-256 at that time"""


class Death(Frozen):
    """The end of a limited service, or of one of its processes, in a trial of a study that treats it as a
    finding (`on_death`)."""

    service: str
    """the service that ended"""
    cause: Literal["oom_kill", "exit"]
    """killed by the kernel for lack of memory, or ended by itself"""
    process: str = ""
    """the part of the service that ended, such as varnishd; empty: one that the service started itself"""
    exit: int | None = None
    """its exit code, negative for a signal; null: svload had not started this part"""
    kills: int = 0
    """processes of the service that the kernel killed for lack of memory"""
    limits: dict[str, float] = {}
    """its limits as the kernel had them, by group and limit (`vm.memory_bytes`)"""
    offset_s: float | None = None
    """seconds from the load's start until it was noticed, at most one second late; null: before the load"""
    tail: str = ""
    """the last lines of its log"""

    @property
    def sentence(self) -> str:
        """Return what happened, with the limit that applied."""
        when = "before the load" if self.offset_s is None else f"{self.offset_s:.3g} s into the load"
        held = ", ".join(_limit_text(name, value) for name, value in sorted(self.limits.items()))
        if self.cause == "oom_kill":
            several = (
                f"{self.kills} processes of {self.service}"
                if self.kills > 1
                else f"a process of {self.service}"
            )
            return f"The kernel killed {several} for lack of memory {when} ({held})."
        how = f"signal {-self.exit}" if self.exit is not None and self.exit < 0 else f"exit {self.exit}"
        return f"{self.service} exited unexpectedly {when} ({self.process}, {how}; {held})."


def _limit_text(name: str, value: float) -> str:
    group, _, kind = name.rpartition(".")
    word = {
        "memory_bytes": "of memory",
        "cpus": "cores",
        "pids": "processes",
        DISK_READ: "of disk reads",
        DISK_WRITE: "of disk writes",
    }[kind]
    shown = show_rate(value) if kind.startswith("disk_") else f"{value:g}"
    return f"{group} may have {show_size(value) if kind == 'memory_bytes' else shown} {word}"


class TrialLab(Artefact):
    """lab.json of a trial: facts, proof of the reset, and counters before and after its load. The previous
    case shows carry-over.

    Format 1 named kinds of facts that a service offers, which nobody read.
    """

    FORMAT: ClassVar[int] = 2
    format: int = 2
    """number of the file's format; a higher one comes from a newer svload"""
    services: tuple[ServiceFacts, ...]
    """every service that was up, whether this case uses it or not"""
    previous_case: str | None
    """case of the trial that was sealed before this one; null: the first since the run began or was resumed"""
    whole_plot: int
    """number of the bring-up that it belongs to, as in the plan"""
    reset: dict[str, dict[str, Any]]
    """by service that was reset: what it then reported of itself; `connections at rest`: connections that
    ended in TIME_WAIT; `planted`: a fault"""
    before: dict[str, Counters]
    """by service: counters before the load, after reset and warming"""
    after: dict[str, Counters]
    """by service: counters after the load, once up to date; empty if the load was stopped"""
    phases_s: dict[str, float]
    """seconds by phase of the trial, until this file was written"""
    settings: tuple[Setting, ...] = ()
    """settings of the kernel that the study requests (`sysctl`), as found in the lab's network or machine"""
    deaths: tuple[Death, ...] = ()
    """services that ended in this trial, as the study allows; they were up again for the next one"""
    faults: tuple[FaultEvent, ...] = ()
    """planned faults as they were carried out, in order of time; all were undone after the trial"""
    conditions: Conditions | None = None
    """the machine before and after the load; null: an older svload did not record it"""
    declared: tuple[Declared, ...] | None = None
    """declarations of this trial's monitors: limits, and counters of refusals; null: an older svload did not
    record them"""

    @property
    def programs(self) -> dict[str, str]:
        """Return the programs of the study's folder that its servers were started from → SHA-256."""
        return {name: digest for service in self.services for name, digest in service.programs.items()}

    @classmethod
    def upgrade(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Convert format 1 to 2: drop what its services offered."""
        if raw["format"] >= cls.FORMAT:
            return raw
        services = [{key: value for key, value in one.items() if key != "offers"} for one in raw["services"]]
        return {**raw, "format": cls.FORMAT, "services": services}


def newest_programs(built: Iterable[tuple[float, Mapping[str, str]]]) -> dict[str, str]:
    """Return each program of some trials (when sealed, programs) as the last trial that started from it has
    it."""
    found: dict[str, str] = {}
    for _, programs in sorted(built, key=lambda one: one[0]):
        found |= programs
    return found


def other_programs(programs: Mapping[str, str], newest: Mapping[str, str]) -> list[str]:
    """Return the names of a trial's programs that later changed."""
    return sorted(name for name, digest in programs.items() if newest.get(name, digest) != digest)

"""What kits say about their services: endpoints, processes, counters, settings read back; and a trial's lab.json."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from svload.model.base import Artefact, Frozen
from svload.model.conditions import Conditions
from svload.model.unix_url import PREFIX


class Endpoint(Frozen):
    """Where one scheme of a service listens."""

    scheme: Literal["http", "https", "tcp", "tls"]
    """what is spoken there"""
    address: str
    """IP address, or `unix:` and the path of a socket"""
    port: int
    """TCP port; 0 for a socket's path"""
    ca_pem: str | None = None
    """authority that its certificate is verified by; null: none was given"""
    verify: bool = True
    """its certificate is verified"""
    via: str | None = None
    """what terminates TLS: hitch, or the service itself; null: nothing is said"""
    authority: str | None = None
    """host[:port] that a server outside the lab is known by; null: the service's name is"""

    @property
    def connects_to(self) -> str:
        """As a share has it: `ip:port`, `[ip6]:port` or `unix:/path`."""
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
    """start time in clock ticks since boot (/proc/PID/stat): tells it from a reused pid"""


class Counters(Frozen):
    """Canonical counters of a service at one moment; a key that the service does not offer is absent.

    Keys: requests, answers, hits, misses, connections, tls_handshakes, tls_resumed, bytes_out, body_bytes_out, status.NNN.
    """

    at_ns: int
    """CLOCK_MONOTONIC when reading began, no offset"""
    values: dict[str, float]
    """by canonical name: sums since the service's start or reset, and the bytes of files that it sends"""
    exact: bool = True
    """true at once; false: only `settle_s` after the load's end"""
    raw: dict[str, float] = {}
    """by the server's own names, in its own units"""


CPUS = "cpus"
"""The setting that says how many cores a service's quota allows."""
LINK_RATE = "rate_limit"
"""The setting that says how many bytes a second may leave by a service's link."""
FILES, RESIDENT_FILES = "file_bytes", "file_resident_bytes"
"""Counters of a service that sends files: how many bytes they have, and how many of those lie in the page cache."""


class Setting(Frozen):
    """A setting as asked and as the running service reports it."""

    name: str
    """an option of the service, or the server's own name for it"""
    asked: str | None
    """value that it was told; null: none"""
    found: str | None
    """value as the running service or the kernel reports it; null: it can't be read back"""


class ServiceFacts(Frozen):
    """What one running service offers to load, monitors and judges."""

    service: str
    """its name in the study"""
    kit: str
    """the kit that brought it up"""
    version: str
    """the server's own version; empty: not known"""
    endpoints: tuple[Endpoint, ...] = ()
    """where it listens, one for each scheme"""
    processes: tuple[ProcessFact, ...] = ()
    """its processes, without svload's own helpers; none of a server that ran already"""
    admin: dict[str, Any] = {}
    """by kind: addresses and folders by which monitors and kits ask it"""
    offers: tuple[str, ...] = ()
    """kinds of facts that it has: counters, object_store and the names of kits"""
    settle_s: float = 0.0
    """seconds after the load's end until its counters are true; 0: at once"""
    settings: tuple[Setting, ...] = ()
    """settings read back when the service was ready"""
    outputs: dict[str, str] = {}
    """what else the kit tells, name → value; secrets as digests alone"""


class TrialLab(Artefact):
    """lab.json of a trial: facts, the reset's proof, and counters before and after its load. Previous case for carry-over."""

    FORMAT: ClassVar[int] = 1
    services: tuple[ServiceFacts, ...]
    """every service that was up, whether this case asks it or not"""
    previous_case: str | None
    """case of the trial that was sealed before this one; null: the first since the run began or was resumed"""
    whole_plot: int
    """number of the bring-up that it belongs to, as in the plan"""
    reset: dict[str, dict[str, Any]]
    """by service that was reset: what it then said of itself; `connections at rest`: those ended in TIME_WAIT; `planted`: a fault"""
    before: dict[str, Counters]
    """by service: counters before the load, after reset and warming"""
    after: dict[str, Counters]
    """by service: counters after the load, once settled; empty where it was stopped"""
    phases_s: dict[str, float]
    """seconds by phase of the trial, up to the writing of this file"""
    conditions: Conditions | None = None
    """the machine before and after the load; null: an older svload did not record it"""

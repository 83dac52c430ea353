"""What kits say about their services: endpoints, processes, counters, settings read back; and a trial's lab.json."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from svload.model.base import Artefact, Frozen
from svload.model.conditions import Conditions
from svload.model.unix_url import PREFIX


class Endpoint(Frozen):
    """Where one scheme of a service listens. `ca_pem` verifies its TLS, if `verify`; `via` names what terminates it (hitch, itself).

    `address` is an IP address, or `unix:` and the path of a socket, which has no port (0). `authority` is the host[:port] that a
    server outside the lab is known by; None where the service's name is.
    """

    scheme: Literal["http", "https", "tcp", "tls"]
    address: str
    port: int
    ca_pem: str | None = None
    verify: bool = True
    via: str | None = None
    authority: str | None = None

    @property
    def connects_to(self) -> str:
        """As a share has it: `ip:port`, `[ip6]:port` or `unix:/path`."""
        if self.address.startswith(PREFIX):
            return self.address
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


class ProcessFact(Frozen):
    """A process that belongs to a service. `pid` is the machine's (outermost) pid; `start_ticks` of /proc/PID/stat tells it from a reused pid."""

    name: str
    pid: int
    start_ticks: int


class Counters(Frozen):
    """Canonical counters of a service at one moment; a key that the service does not offer is absent.

    Keys: requests, answers, hits, misses, connections, tls_handshakes, tls_resumed, bytes_out, body_bytes_out, status.NNN.
    `exact` means true at once; otherwise `settle_s` after the load's end.
    """

    at_ns: int
    values: dict[str, float]
    exact: bool = True
    raw: dict[str, float] = {}


CPUS = "cpus"
"""The setting that says how many cores a service's quota allows."""
LINK_RATE = "rate_limit"
"""The setting that says how many bytes a second may leave by a service's link."""
FILES, RESIDENT_FILES = "file_bytes", "file_resident_bytes"
"""Counters of a service that sends files: how many bytes they have, and how many of those lie in the page cache."""


class Setting(Frozen):
    """A setting as asked and as the running service reports it (`None`: it cannot be read back)."""

    name: str
    asked: str | None
    found: str | None


class ServiceFacts(Frozen):
    """What one running service offers to load, monitors and judges. `outputs` of name → value; secrets are only digests."""

    service: str
    kit: str
    version: str
    endpoints: tuple[Endpoint, ...] = ()
    processes: tuple[ProcessFact, ...] = ()
    admin: dict[str, Any] = {}
    offers: tuple[str, ...] = ()
    settle_s: float = 0.0
    settings: tuple[Setting, ...] = ()
    outputs: dict[str, str] = {}


class TrialLab(Artefact):
    """lab.json of a trial: facts, the reset's proof, and counters before and after its load. Previous case for carry-over.

    `conditions` is None in runs of an svload that did not record them.
    """

    FORMAT: ClassVar[int] = 1
    services: tuple[ServiceFacts, ...]
    previous_case: str | None
    whole_plot: int
    reset: dict[str, dict[str, Any]]
    before: dict[str, Counters]
    after: dict[str, Counters]
    phases_s: dict[str, float]
    conditions: Conditions | None = None

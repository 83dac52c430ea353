"""What is known of the instrument and of the lab's own noise: made once, kept while host, kernel and engine stay as they are."""

from __future__ import annotations

from typing import ClassVar

from svload.model.base import Artefact, Frozen


class Place(Frozen):
    """Where a certificate holds: any change voids it. `engine` is the digest of the native module."""

    host: str
    kernel: str
    engine: str

    def __str__(self) -> str:
        return f"{self.host}, kernel {self.kernel}, engine {self.engine[:12]}"


class InstrumentLevel(Frozen):
    """One service time: what the truth server logged that it did, and what the load saw, in ns over `n` requests."""

    service_ns: int
    n: int
    truth_p50_ns: int
    truth_p99_ns: int
    seen_p50_ns: int
    seen_p99_ns: int

    @property
    def bias_p50_ns(self) -> int:
        """Seen less true, at the median."""
        return self.seen_p50_ns - self.truth_p50_ns

    @property
    def bias_p99_ns(self) -> int:
        """Seen less true, at the 99th percentile."""
        return self.seen_p99_ns - self.truth_p99_ns


class InstrumentCertificate(Artefact):
    """The truth server against the load (METHOD §2). The bias holds the way over loopback, both ways."""

    FORMAT: ClassVar[int] = 1
    place: Place
    made_wall: float
    levels: tuple[InstrumentLevel, ...]


class Floor(Frozen):
    """Of one metric at one load: the 95 % quantile of |log ratio| between two trials of the same thing, and its standard deviation."""

    load: str
    metric: str
    pairs: int
    floor: float
    sd: float


class AaCertificate(Artefact):
    """The lab against itself (METHOD §2). `settings` is the digest of all that the study asks of lab, data and traffic."""

    FORMAT: ClassVar[int] = 1
    place: Place
    settings: str
    made_wall: float
    study: str
    cases: tuple[str, ...]
    pairs: int
    restarts: bool
    floors: tuple[Floor, ...]


class Certificates(Artefact):
    """certificates.json of a run: those that held when it began; None: there was none."""

    FORMAT: ClassVar[int] = 1
    instrument: InstrumentCertificate | None = None
    aa: AaCertificate | None = None

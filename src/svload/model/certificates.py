"""What is known of the instrument and of the lab's own noise: made once, kept while host,
kernel and engine stay as they are."""

from __future__ import annotations

from typing import ClassVar

from svload.model.base import Artefact, Frozen


class Place(Frozen):
    """Where a certificate holds: any change voids it. `engine` is the digest of the native module."""

    host: str
    """processor and the first 8 hex digits of the SHA-256 of the host's name"""
    kernel: str
    """release, as `uname -r` has it"""
    engine: str
    """SHA-256 of the native module's file; `none` without one"""

    def __str__(self) -> str:
        return f"{self.host}, kernel {self.kernel}, engine {self.engine[:12]}"


class InstrumentLevel(Frozen):
    """One service time: what the truth server logged that it did, and what the load saw, in ns over `n` requests."""

    service_ns: int
    """the service time that the truth server was told to have"""
    n: int
    """answers, each both seen and logged"""
    truth_p50_ns: int
    """median of what the server did, from receiving a request to writing its answer"""
    truth_p99_ns: int
    """the same at p99"""
    seen_p50_ns: int
    """median response (done − due) that the load saw of the same requests"""
    seen_p99_ns: int
    """the same at p99"""

    @property
    def bias_p50_ns(self) -> int:
        """Seen less true, at the median."""
        return self.seen_p50_ns - self.truth_p50_ns

    @property
    def bias_p99_ns(self) -> int:
        """Seen less true, at the 99th percentile."""
        return self.seen_p99_ns - self.truth_p99_ns


class InstrumentCertificate(Artefact):
    """The truth server against the load (docs/method.md §2). The bias holds the way over loopback, both ways."""

    FORMAT: ClassVar[int] = 1
    place: Place
    """where it holds"""
    made_wall: float
    """when it was made, Unix time in s"""
    levels: tuple[InstrumentLevel, ...]
    """by service time, from the shortest"""


class Floor(Frozen):
    """Of one metric at one load: how far two trials of the same thing lie apart."""

    load: str
    """the load: every traffic group with its executor as JSON and its connection"""
    metric: str
    """full name: `group.metric.stat`, `service.metric` or `feeder.metric`"""
    pairs: int
    """pairs of trials of which neither is broken"""
    floor: float
    """95 % quantile of |log ratio| over the pairs (nearest rank); their maximum where it is certified"""
    sd: float
    """standard deviation of the log ratios"""
    certified: bool = False
    """true from 59 pairs on, whose maximum lies above the true quantile with 95 % confidence; false: estimated"""
    strangers: float | None = None
    """mean share of the machine that others had beside its pairs; null: not read, or by an older svload"""


class AaCertificate(Artefact):
    """The lab against itself (docs/method.md §2)."""

    FORMAT: ClassVar[int] = 1
    place: Place
    """where it holds"""
    settings: str
    """SHA-256 of all that the study asks of lab, data and traffic: it holds for no other"""
    made_wall: float
    """when it was made, Unix time in s"""
    study: str
    """name of the study that was repeated"""
    cases: tuple[str, ...]
    """cases that were repeated, one for each load"""
    pairs: int
    """the fewest pairs that any of its floors rests on"""
    restarts: bool
    """services came up anew before every trial"""
    floors: tuple[Floor, ...]
    """by load and metric; a metric that was null or 0 in any pair has none"""


class Certificates(Artefact):
    """certificates.json: what was known of the instrument and the lab's own noise when the run began; null: nothing."""

    FORMAT: ClassVar[int] = 1
    instrument: InstrumentCertificate | None = None
    """how far the load is off, against the truth server"""
    aa: AaCertificate | None = None
    """how far the lab lies from itself"""

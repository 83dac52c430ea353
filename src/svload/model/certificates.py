"""Certificates of the instrument and of the lab's own noise: made once, valid while host, kernel and engine
stay the same."""

from __future__ import annotations

from typing import ClassVar

from svload.model.base import Artefact, Frozen


class Place(Frozen):
    """Where a certificate is valid: any change voids it. `engine` is the digest of the native module."""

    host: str
    """processor and the first 8 hex digits of the SHA-256 of the host's name"""
    kernel: str
    """release, as `uname -r` reports it"""
    engine: str
    """SHA-256 of the native module's file; `none` without one"""

    def __str__(self) -> str:
        return f"{self.host}, kernel {self.kernel}, engine {self.engine[:12]}"


class InstrumentLevel(Frozen):
    """One service time: durations in the truth server's log and as the load saw them, in ns."""

    service_ns: int
    """the service time that the truth server was set to"""
    n: int
    """answers, each both seen and logged"""
    truth_p50_ns: int
    """median of the server's own log, from receiving a request to writing its answer"""
    truth_p99_ns: int
    """the same at p99"""
    seen_p50_ns: int
    """median response (done − due) of the same requests as the load saw it"""
    seen_p99_ns: int
    """the same at p99"""

    @property
    def bias_p50_ns(self) -> int:
        """Return the seen time minus the true one, at the median."""
        return self.seen_p50_ns - self.truth_p50_ns

    @property
    def bias_p99_ns(self) -> int:
        """Return the seen time minus the true one, at the 99th percentile."""
        return self.seen_p99_ns - self.truth_p99_ns


class InstrumentCertificate(Artefact):
    """The load compared with the truth server (docs/method.md §2). The bias includes loopback, both ways."""

    FORMAT: ClassVar[int] = 1
    place: Place
    """where it is valid"""
    made_wall: float
    """when it was made, Unix time in s"""
    levels: tuple[InstrumentLevel, ...]
    """by service time, from the shortest"""


class Floor(Frozen):
    """How far apart two trials of the same thing lie, for one metric at one load."""

    load: str
    """the load: every traffic group with its executor as JSON and its connection"""
    metric: str
    """full name: `group.metric.stat`, `service.metric` or `feeder.metric`"""
    pairs: int
    """pairs of trials in which neither is broken"""
    floor: float
    """95 % quantile of |log ratio| over the pairs (nearest rank); their maximum if certified"""
    sd: float
    """standard deviation of the log ratios"""
    certified: bool = False
    """true from 59 pairs on: their maximum is above the true quantile with 95 % confidence; else estimated"""
    strangers: float | None = None
    """mean share of the machine used by others during its pairs; null: not read, or by an older svload"""


class AaCertificate(Artefact):
    """The lab compared with itself (docs/method.md §2)."""

    FORMAT: ClassVar[int] = 1
    place: Place
    """where it is valid"""
    settings: str
    """SHA-256 of all settings of lab, data and traffic in the study: it is valid for no others"""
    made_wall: float
    """when it was made, Unix time in s"""
    study: str
    """name of the study that was repeated"""
    cases: tuple[str, ...]
    """cases that were repeated, one for each load"""
    pairs: int
    """the smallest number of pairs behind any of its floors"""
    restarts: bool
    """services were started again before every trial"""
    floors: tuple[Floor, ...]
    """by load and metric; a metric that was null or 0 in any pair has none"""


class Certificates(Artefact):
    """certificates.json: what was known of the instrument and the lab's own noise when the run began; null:
    nothing."""

    FORMAT: ClassVar[int] = 1
    instrument: InstrumentCertificate | None = None
    """bias of the load compared with the truth server"""
    aa: AaCertificate | None = None
    """differences of the lab compared with itself"""

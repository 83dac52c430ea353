"""Under what a trial was made: clocks, ports, the speed of a core, before and after its load; and what the machine can carry."""

from __future__ import annotations

from svload.model.base import Frozen


class Moment(Frozen):
    """The machine at one moment beside a load. None: it could not be read.

    `calibration_ns` is how long a fixed piece of work took on a generator's core (lower quartile of its repeats); `time_wait` counts
    the sockets in TIME_WAIT that hold one of this machine's local ports.
    """

    monotonic_ns: int
    realtime_ns: int
    boottime_ns: int
    clock_source: str | None = None
    calibration_ns: float | None = None
    time_wait: int | None = None


class Machine(Frozen):
    """What the preflight of a run measured and read; None: it could not be.

    `port_reuse_s` is how long a local port rests after its connection; `loopback_bytes_per_s` what one stream over loopback carries;
    `timer_floor_ns` the median lateness of a sleep of 1 ms.
    """

    kernel: str
    cores: int
    load_cores: int
    memory_bytes: int
    open_files: int
    local_ports: int
    port_reuse_s: float
    clock_source: str | None = None
    loopback_bytes_per_s: float | None = None
    timer_floor_ns: float | None = None


class Conditions(Frozen):
    """Both moments of one trial, and the machine of its run.

    `awake`: whether CPUs were kept from sleeping between requests while load was made; None: nobody wrote it down.
    """

    machine: Machine | None
    before: Moment
    after: Moment
    awake: bool | None = None

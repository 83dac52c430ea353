"""Under what a trial was made: clocks, ports, the speed of a core, before and after its load;
and what the machine can carry."""

from __future__ import annotations

from svload.model.base import Frozen
from svload.model.clocks import MachineClock


class Moment(Frozen):
    """The machine at one moment beside a load; null: it could not be read."""

    monotonic_ns: int
    """CLOCK_MONOTONIC, which stands still while the machine is suspended"""
    realtime_ns: int
    """CLOCK_REALTIME: Unix time in ns"""
    boottime_ns: int
    """CLOCK_BOOTTIME, which runs on while the machine is suspended"""
    clock_source: str | None = None
    """the kernel's current clock source, such as tsc or kvm-clock"""
    calibration_ns: float | None = None
    """how long a fixed piece of work takes on a generator's core: lower quartile of its repeats"""
    time_wait: int | None = None
    """sockets in TIME_WAIT that hold a local port of this machine; read before the load only"""
    tcp_sent: int | None = None
    """TCP segments that the load's network sent since its start, without those sent again"""
    tcp_resent: int | None = None
    """TCP segments that it sent again, SYNs apart: the path, or who is at its end, lost them"""


class Machine(Frozen):
    """What the preflight of a run measured and read; null: it could not be."""

    kernel: str
    """release, as `uname -r` has it"""
    cores: int
    """cores that svload may use"""
    load_cores: int
    """how many of them make load"""
    memory_bytes: int
    """physical memory"""
    open_files: int
    """most open files that a process may have"""
    local_ports: int
    """ports that outgoing connections may use (ip_local_port_range)"""
    port_reuse_s: float
    """how long a local port rests after its connection over loopback"""
    clock_source: str | None = None
    """the kernel's current clock source"""
    loopback_bytes_per_s: float | None = None
    """what one TCP stream over loopback carries, best of a few short tries"""
    timer_floor_ns: float | None = None
    """median lateness of a sleep of 1 ms"""


class Conditions(Frozen):
    """Both moments of one trial, and the machine of its run."""

    machine: Machine | None
    """what the run's preflight found; null: there was none"""
    before: Moment
    """just before the load, when the counters before it were read"""
    after: Moment
    """when the counters after the load were read; of a stopped load, as it was stopped"""
    awake: bool | None = None
    """CPUs were kept from sleeping between requests while load was made; null: nobody wrote it down"""
    clocks: tuple[MachineClock, ...] = ()
    """of the machines of a fleet that made the load; empty: this one made it"""

"""The conditions of a trial: clocks, ports and core speed before and after its load, and what the machine can
carry."""

from __future__ import annotations

from svload.model.base import Frozen
from svload.model.clocks import MachineClock


class Moment(Frozen):
    """The machine at one moment before or after a load; null: could not be read."""

    monotonic_ns: int
    """CLOCK_MONOTONIC, which stands still while the machine is suspended"""
    realtime_ns: int
    """CLOCK_REALTIME: Unix time in ns"""
    boottime_ns: int
    """CLOCK_BOOTTIME, which runs on while the machine is suspended"""
    clock_source: str | None = None
    """the kernel's current clock source, such as tsc or kvm-clock"""
    calibration_ns: float | None = None
    """duration of a fixed piece of work on a generator's core: lower quartile of its repeats"""
    time_wait: int | None = None
    """sockets in TIME_WAIT that hold a local port of this machine; only read before the load"""
    tcp_sent: int | None = None
    """TCP segments sent by the load's network since its start, without retransmissions"""
    tcp_resent: int | None = None
    """TCP segments retransmitted, except SYNs: the path or the other end lost them"""


class Machine(Frozen):
    """What the preflight of a run measured and read; null: not possible."""

    kernel: str
    """release, as `uname -r` reports it"""
    cores: int
    """cores that svload may use"""
    load_cores: int
    """how many of them make load"""
    memory_bytes: int
    """physical memory"""
    open_files: int
    """largest number of open files that a process may have"""
    local_ports: int
    """ports that outgoing connections may use (ip_local_port_range)"""
    port_reuse_s: float
    """how long a local port cannot be used again after its connection over loopback"""
    clock_source: str | None = None
    """the kernel's current clock source"""
    loopback_bytes_per_s: float | None = None
    """bytes per second of one TCP stream over loopback, best of a few short tries"""
    timer_floor_ns: float | None = None
    """median lateness of a sleep of 1 ms"""


class Conditions(Frozen):
    """The machine before and after the load of one trial, and the machine's properties in its run."""

    machine: Machine | None
    """what the run's preflight found; null: there was no preflight"""
    before: Moment
    """just before the load, when the counters before it were read"""
    after: Moment
    """when the counters after the load were read; for a stopped load, when it was stopped"""
    awake: bool | None = None
    """CPUs were kept from sleeping between requests while load was made; null: not recorded"""
    clocks: tuple[MachineClock, ...] = ()
    """clocks of the fleet's machines that made the load; empty: this machine made it"""

"""A link's latency: a process that forwards packets between two interfaces with a delay, in order.

    python -m svload.host.machine.delay_line --inside lab --outside link1 --fabric FILE --state FILE

It is started in the service's network namespace; `--fabric` is the file of the other one. `--state` is a file
shared with its observers (`LineState`): the delay, which may be changed while it runs, and its statistics. Uses
only the standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import mmap
import os
import select
import struct
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from svload.host.machine import linux

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x1, 0x1000
_PR_SET_TIMERSLACK = 29
_PRIORITY = 10
_MOST_PACKETS = 65_536
_AT_ONCE = 64
_PACKET_BYTES = 65_536
_LAYOUT = struct.Struct("=8q")
_DELAY, _DONE = struct.Struct("=q"), struct.Struct("=7q")


class LineState(NamedTuple):
    """The contents of the shared file: the delay in each direction; then, since the start, what was carried,
    how late, and at what cost."""

    delay_ns: int
    started: int
    packets: int
    bytes: int
    dropped: int
    late_ns: int
    late_most_ns: int
    cpu_ns: int


def write_line_state(path: Path, delay_ns: int) -> None:
    """Create the file for a line before its start. Raises OSError."""
    path.write_bytes(_LAYOUT.pack(delay_ns, *[0] * (len(LineState._fields) - 1)))


def change_delay(path: str | Path, delay_ns: int) -> None:
    """Set the delay of a running line in each direction, for later packets. Raises OSError."""
    with open(path, "r+b") as file:
        file.write(_DELAY.pack(delay_ns))


def read_line_state(path: str | Path) -> LineState:
    """Read the file. Raises OSError if there is none."""
    with open(path, "rb") as file:
        return LineState(*_LAYOUT.unpack(file.read(_LAYOUT.size)))


class Line:
    """The packets of two interfaces (non-blocking descriptors), each direction independently."""

    def __init__(self, ends: tuple[int, int], shared: mmap.mmap) -> None:
        self._ends, self._shared = ends, shared
        self._waiting: tuple[deque[tuple[int, bytes]], ...] = (deque(), deque())
        self._packets = self._bytes = self._dropped = self._late_ns = self._late_most_ns = 0

    def serve(self) -> None:
        while True:
            delay_ns = _DELAY.unpack_from(self._shared)[0]
            busy = False
            for way in (0, 1):
                busy |= self._take(way, delay_ns)
                self._give(way)
            self._tell()
            if not busy:
                self._sleep()

    def _take(self, way: int, delay_ns: int) -> bool:
        """Return whether there may be more packets."""
        waiting, end = self._waiting[way], self._ends[way]
        for _ in range(_AT_ONCE):
            try:
                packet = os.read(end, _PACKET_BYTES)
            except BlockingIOError:
                return False
            if len(waiting) < _MOST_PACKETS:
                waiting.append((time.monotonic_ns() + delay_ns, packet))
            else:
                self._dropped += 1
        return True

    def _give(self, way: int) -> None:
        waiting, end = self._waiting[way], self._ends[1 - way]
        while waiting and waiting[0][0] <= (now_ns := time.monotonic_ns()):
            due_ns, packet = waiting.popleft()
            try:
                os.write(end, packet)
            except OSError:  # the other end is down
                self._dropped += 1
                continue
            late_ns = now_ns - due_ns
            self._packets, self._bytes = self._packets + 1, self._bytes + len(packet)
            self._late_ns += late_ns
            self._late_most_ns = max(self._late_most_ns, late_ns)

    def _tell(self) -> None:
        """Write the statistics; the delay in the file is left unchanged."""
        done = (self._packets, self._bytes, self._dropped, self._late_ns, self._late_most_ns)
        _DONE.pack_into(self._shared, _DELAY.size, 1, *done, time.process_time_ns())

    def _sleep(self) -> None:
        due = [waiting[0][0] for waiting in self._waiting if waiting]
        wait_s = max(0, min(due) - time.monotonic_ns()) / 1e9 if due else None
        select.select(self._ends, (), (), wait_s)


def _attach(device: str) -> int:
    """Return a descriptor of this namespace's TUN interface. Raises OSError."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI))
    return descriptor


def main() -> None:
    parser = argparse.ArgumentParser(description="the latency of a link")
    for name in ("--inside", "--outside", "--fabric", "--state"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    inside = _attach(options.inside)
    with linux.in_network(options.fabric):
        outside = _attach(options.outside)
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    with open(options.state, "r+b") as file:
        shared = mmap.mmap(file.fileno(), _LAYOUT.size)
    Line((inside, outside), shared).serve()


if __name__ == "__main__":
    main()

"""CPUs that do not sleep while load is generated: waking one may take longer than a response (on a guest:
tens of microseconds in each direction)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DEVICE = Path("/dev/cpu_dma_latency")
_NO_LATENCY = bytes(4)


@contextmanager
def awake(asked: bool = True, device: Path = DEVICE) -> Iterator[bool]:
    """Keep all CPUs out of states that take time to leave during the block (PM QoS of the kernel); yield
    whether that succeeded.

    The request lasts as long as an open descriptor, so the kernel cancels it however this process ends.
    """
    descriptor, written = -1, 0
    if asked:
        with suppress(OSError):
            descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
            written = os.write(descriptor, _NO_LATENCY)
    try:
        yield written > 0
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def can_stay_awake(device: Path = DEVICE) -> bool:
    """Return whether this user may request it."""
    return os.access(device, os.W_OK)

"""CPUs that do not sleep while load is made: waking one takes longer than many an answer (on a guest:
tens of microseconds, each way)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DEVICE = Path("/dev/cpu_dma_latency")
_NO_LATENCY = bytes(4)


@contextmanager
def awake(asked: bool = True, device: Path = DEVICE) -> Iterator[bool]:
    """While the block runs no CPU enters a state that takes time to leave (PM QoS of the
    kernel); whether that could be had.

    The request lives by an open descriptor: the kernel takes it back however this process ends.
    """
    descriptor = -1
    if asked:
        with suppress(OSError):
            descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, _NO_LATENCY)
    try:
        yield descriptor >= 0
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def can_stay_awake(device: Path = DEVICE) -> bool:
    """Whether this user may ask for it."""
    return os.access(device, os.W_OK)

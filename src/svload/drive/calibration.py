"""A fixed piece of work whose time tells whether a core is as fast after a load as before it (METHOD §3). Only the standard library."""

from __future__ import annotations

import hashlib
import time

BLOCK = bytes(range(256)) * 256
REPEATS = 48
WARM_NS = 3_000_000
"""A core that slept is first brought to its speed, unmeasured."""


def fixed_work_ns() -> float:
    """Lower quartile of `REPEATS` times of one SHA-256 over 64 KiB, ns: some 5 ms in all.

    The quartile leaves out what interrupts and other processes took (their own checks tell that); it moves with the core's clock.
    """
    warm_until_ns = time.perf_counter_ns() + WARM_NS
    while time.perf_counter_ns() < warm_until_ns:
        hashlib.sha256(BLOCK).digest()
    times = []
    for _ in range(REPEATS):
        begun_ns = time.perf_counter_ns()
        hashlib.sha256(BLOCK).digest()
        times.append(time.perf_counter_ns() - begun_ns)
    return float(sorted(times)[REPEATS // 4])

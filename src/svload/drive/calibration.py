"""A fixed piece of work whose time tells whether a core is as fast after a load as before it (docs/method.md
§3). Only the standard library."""

from __future__ import annotations

import hashlib
import time

BLOCK = bytes(range(256)) * 256
BURSTS, REPEATS = 6, 10
GAP_S = 0.004
WARM_NS = 3_000_000
"""A core that slept is first brought to its speed, unmeasured."""


def fixed_work_ns() -> float:
    """Lower quartile of `BURSTS` × `REPEATS` times of one SHA-256 over 64 KiB, ns: some 25 ms in all.

    The quartile leaves out what interrupts and other processes took (their own checks tell that), the gaps
    between the bursts what disturbs a core for some milliseconds; both move with the core's clock.
    """
    times = []
    for burst in range(BURSTS):
        if burst:
            time.sleep(GAP_S)
        warm_until_ns = time.perf_counter_ns() + (WARM_NS if burst == 0 else WARM_NS // 20)
        while time.perf_counter_ns() < warm_until_ns:
            hashlib.sha256(BLOCK).digest()
        for _ in range(REPEATS):
            begun_ns = time.perf_counter_ns()
            hashlib.sha256(BLOCK).digest()
            times.append(time.perf_counter_ns() - begun_ns)
    return float(sorted(times)[len(times) // 4])

"""The probe's times against curl's own, by docs/method.md §6: medians of alternated transfers within max(5 %,
50 µs). Needs a quiet machine."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from tests.conformance.test_curl import LEAST_S, SHARE, alternated, deviations, ports

__all__ = ["ports"]
TRANSFERS = 200
TRIES = 3


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_probe_measures_what_curl_measures(ports: dict[str, Any], scheme: str) -> None:
    expected = []
    for _ in range(TRIES):
        ours, theirs = alternated(scheme, ports[f"{scheme}_port"], ports["ca"], TRANSFERS)
        shake_s = [
            statistics.median(row["time_appconnect"] - row["time_connect"] for row in rows)
            for rows in (ours, theirs)
        ]
        off = deviations(ours, theirs)
        if scheme == "https" and shake_s[0] > shake_s[1] + max(SHARE * shake_s[1], LEAST_S):
            off.append(f"handshake: {shake_s[0] * 1e6:.0f} µs, curl {shake_s[1] * 1e6:.0f} µs")
        if not off:
            return
        expected.append(off)
    pytest.fail(f"not equivalent in {TRIES} tries: {expected}")

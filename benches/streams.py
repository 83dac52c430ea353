"""The cost of combining the results of a thousand generators: `python -m benches.streams [--generators
1000]`.

The real code of a run is fed with synthetic streams: each generator's progress once a second, as JSON,
through the followers of a hundred machines to one picture; then each one's tables of a minute, merged exactly
and written. Printed: CPU per second of load, bytes per second to the coordinator, seconds and memory of the
merge.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benches.harness import arguments
from svload.drive.progress import continued, merge_progress
from svload.store.parquet import merge_shares, write_trial_tables

MACHINES, SECONDS = 100, 60
INTERVAL_S = 0.1
BUCKETS = 60
"""Filled buckets of an interval's histogram: responses between 1 and 20 ms, of 100 requests."""


def progress(draw: random.Random, second: int) -> str:
    """Return a line of a generator of two groups, as printed by the engine."""
    groups = [
        {
            "name": name, "due": 1_000 * second, "begun": 1_000 * second, "ok": 990 * second,
            "failed": 10 * second, "in_flight": draw.randrange(40), "active_vus": 40,
            "errors": {"timeout": 10 * second},
            "last": {"ok": 990, "failed": 10, "response_p50_ns": draw.randrange(10**6, 2 * 10**7),
                     "response_p99_ns": draw.randrange(10**7, 2 * 10**8)},
        }
        for name in ("probe", "background")
    ]  # fmt: skip
    return json.dumps({"progress": {"offset_ns": second * 10**9, "groups": groups, "cpu_s": 0.3 * second}})


def live(generators: int) -> tuple[float, float]:
    """Return (CPU seconds per second of load, bytes per second) of the live picture."""
    draw = random.Random(1)
    lines = [[progress(draw, second) for _ in range(generators)] for second in range(1, 11)]
    begun = time.process_time()
    heard: list[dict[int, dict[str, Any]]] = [{} for _ in range(MACHINES)]
    for of_second in lines:
        for number, line in enumerate(of_second):
            machine = heard[number % MACHINES]
            machine[number] = continued(None, json.loads(line)["progress"])
        shown = merge_progress([merge_progress(own.values()) for own in heard if own])
    assert shown["groups"][0]["ok"] == generators * 9_900
    return (time.process_time() - begun) / len(lines), sum(map(len, lines[0]))


def tables(draw: random.Random) -> dict[str, dict[str, tuple[str, Any]]]:
    """Return intervals and histograms of one generator over a minute."""
    count = round(SECONDS / INTERVAL_S)
    cells, buckets = count * BUCKETS, draw.randrange(1_700, 1_900) + np.arange(BUCKETS)
    histograms = {
        "group": ("u16", np.zeros(cells, "u2")),
        "step": ("u16", np.zeros(cells, "u2")),
        "interval": ("u32", np.repeat(np.arange(count, dtype="u4"), BUCKETS)),
        "metric": ("u8", np.zeros(cells, "u1")),
        "bucket": ("u32", np.tile(buckets.astype("u4"), count)),
        "count": ("u64", np.full(cells, draw.randrange(1, 4), "u8")),
    }
    return {"histograms": {name: (kind, values.tobytes()) for name, (kind, values) in histograms.items()}}


def merge(generators: int) -> tuple[float, float, int, int]:
    """Return (seconds to merge, seconds to write, bytes in, requests) of a trial's tables."""
    draw = random.Random(2)
    parts = [([0], tables(draw)) for _ in range(generators)]
    size = sum(len(column[1]) for _, found in parts for table in found.values() for column in table.values())
    begun = time.monotonic()
    merged = merge_shares(parts)
    merged_s = time.monotonic() - begun
    requests = int(merged["histograms"]["count"].sum())  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        write_trial_tables(Path(folder), merged)
        return merged_s, time.monotonic() - begun, size, requests


def main() -> int:
    """Print the table; return 0."""
    count = arguments(__doc__, generators=1_000).generators
    cpu_s, sent_bytes = live(count)
    print(
        f"live picture of {count:,} generators: {100 * cpu_s:.2g} % of a core, {sent_bytes / 2**10:.0f} KiB/s"
    )
    merged_s, written_s, size, requests = merge(count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"a minute of each, {requests:,} requests in {size / 2**20:.0f} MiB of tables: merged in ", end="")
    print(f"{merged_s:.2f} s, written in {written_s:.2f} s, {peak / 2**30:.2f} GiB at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Verified reads while an object server is stopped: `python -m benches.ring [--reads 100000]`.

Runs studies/004-swift-locust/ring.yaml on real Swift repeatedly until enough reads are verified. In each load
object-2 and its daemons are stopped (SIGSTOP) from second 50 to 140. Prints the outcome of the reads,
and how long it took until the ring was whole: until each object from before the stop's end was on all three
devices. The exit code is 1 if any was lost or altered, or if ten runs are not enough.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.journeys.ring import STUDY, requests, run_with_a_stop, seconds_until_whole
from tests.journeys.world import Command, World

from benches.harness import arguments
from svload.host import cache_dir

BOUND_S, STOP_S = 900.0, (50.0, 140.0)
MOST_RUNS = 10


def main(given: Sequence[str] | None = None) -> int:
    """Return 0 if none was lost or altered and enough were verified, else 1."""
    asked = arguments(__doc__, given, reads=100_000)
    outcomes: Counter[str] = Counter()
    for _ in range(MOST_RUNS):
        for row in _one_run():
            shown = [f"{name} {value}" for name, value in row.items() if value not in ("", None)]
            print("  ".join(shown), flush=True)
            outcomes[row["outcome"]] += row["requests"]
        print("in all:", ", ".join(f"{n} {outcome}" for outcome, n in outcomes.most_common()), flush=True)
        if outcomes["lost"] or outcomes["altered"]:
            return 1
        if outcomes["verified"] >= asked.reads:
            return 0
    return 1


def _one_run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="svload-ring-") as folder:
        world = World(Path(folder), cache_dir(), anew=True)
        study = STUDY / "ring.yaml"
        installed = world.svload("lab", "install", str(study))
        if installed.returncode:
            raise SystemExit(installed.stderr)

        def await_whole(command: Command) -> None:
            took_s = seconds_until_whole(world, command, time.time(), BOUND_S)
            when = "not before the load's end" if took_s is None else f"{took_s:.1f} s after the stop's end"
            print(f"whole: {when}", flush=True)

        stop = ("verify", "/object-2-server.conf", *STOP_S, BOUND_S)
        return requests(world, run_with_a_stop(world, study, *stop, await_whole))


if __name__ == "__main__":
    sys.exit(main())

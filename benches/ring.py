"""Verified reads while an object server is stopped: `python -m benches.ring [--loads 5]`.

Each load is studies/004-swift-locust/ring.yaml on real Swift. From second 50 to 140 object-2 and its daemons
are stopped (SIGSTOP). Prints the outcome of the reads, and how long it took until the ring was whole: until
each object from before the stop's end was on all three devices. The exit code is 1 if any was lost or
altered.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.journeys.ring import STUDY, requests, run_with_a_stop, seconds_until_whole
from tests.journeys.world import Command, World

from benches.harness import arguments
from svload.host import cache_dir

BOUND_S, STOP_S = 900.0, (50.0, 140.0)


def main(given: Sequence[str] | None = None) -> int:
    """Return 0 if no object was lost or altered, else 1."""
    outcomes: Counter[str] = Counter()
    for _ in range(arguments(__doc__, given, loads=5).loads):
        with tempfile.TemporaryDirectory(prefix="svload-ring-") as folder:
            world = World(Path(folder), cache_dir(), anew=True)
            world.succeed("lab", "install", str(STUDY / "ring.yaml"))

            def await_whole(command: Command, world: World = world) -> None:
                took_s = seconds_until_whole(world, command, time.time(), BOUND_S)
                print("whole after the stop's end:", "never" if took_s is None else f"{took_s:.1f} s")

            stop = ("verify", "/object-2-server.conf", *STOP_S, BOUND_S)
            run = run_with_a_stop(world, STUDY / "ring.yaml", *stop, await_whole)
            for row in requests(world, run):
                shown = [f"{name} {value}" for name, value in row.items() if value not in ("", None)]
                print("  ".join(shown), flush=True)
                outcomes[row["outcome"]] += row["requests"]
        print("in all:", ", ".join(f"{n} {outcome}" for outcome, n in outcomes.most_common()), flush=True)
    return 1 if outcomes["lost"] or outcomes["altered"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.fuzz --hours 8 [--only studies|packs|answers|pages|imports] [--seed N]`: fuzz for that
long.

The fuzzers take turns of a minute. Each failure is printed with the command that repeats it; the exit code is
1 if there was one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

from . import answers, imports, oracle, packs, pages, studies
from .oracle import Fuzzer, Tally, fuzz

KINDS: dict[str, Fuzzer] = {
    "studies": studies.one,
    "packs": packs.one,
    "answers": answers.one,
    "pages": pages.one,
    "imports": imports.one,
}
TURN_S = 60.0
READY: dict[str, Callable[[], None]] = {"packs": packs.ready, "imports": packs.ready}


def main() -> int:
    """Parse the options, fuzz, print what was found."""
    known = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    known.add_argument("--hours", type=float, default=0.05)
    known.add_argument("--only", choices=sorted(KINDS))
    known.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_000)
    known.add_argument("--case", type=int, help="play this case alone")
    asked = known.parse_args()
    kinds = {name: one for name, one in KINDS.items() if asked.only in (None, name)}
    os.nice(10)
    oracle.judges_waits = True
    for name in kinds:
        READY.get(name, lambda: None)()
    tallies = {name: Tally(name, asked.seed) for name in kinds}
    first = dict.fromkeys(kinds, asked.case or 0)
    ends = time.monotonic() + asked.hours * 3600
    print(f"seed {asked.seed}", file=sys.stderr, flush=True)
    while time.monotonic() < ends:
        for name, one in kinds.items():
            left_s = min(TURN_S, ends - time.monotonic())
            turn = fuzz(name, one, asked.seed, left_s, first[name], None if asked.case is None else 1)
            first[name] += turn.ended.total()
            tallies[name].ended += turn.ended
            tallies[name].failures += turn.failures
            tallies[name].cpu_s += turn.cpu_s
        print("; ".join(map(str, tallies.values())), file=sys.stderr, flush=True)
        if asked.case is not None:
            break
    return int(any(tally.failures for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())

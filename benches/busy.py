"""The demo beside a core that something else keeps busy a third of the time:
`python -m benches.busy [--times 10] [--minutes 20]`.

How many of its claims are decided, and is any decided wrongly? The truth is the demo made without a stranger,
in the same way. A claim is wrong where it names the other direction, or no difference where the quiet one's
interval lies beyond that. Intervals that do not overlap are counted apart: a server that shares its core may
truly gain or lose more. Each demo is kept under build/bench/busy, and a call makes those that are missing: a
demo takes a minute and a half. When all are there the table is written to benches/busy.md. Exit: 0 no claim
is wrong, 1 one is, 2 a demo did not end, 3 some are still to be made.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benches.command import KEPT, Clock
from svload import api
from svload.model.results import Claim, Findings
from svload.store import RunDir

BUSY_S, IDLE_S = 0.5, 1.0
"""Means of exponential spells: a third of the time."""
DEMO_BOUND_S = 900.0
HOG = f"""
import os, random, sys, time
draw = random.Random(int(sys.argv[1]))
while os.getppid() == int(sys.argv[2]):
    end = time.monotonic() + draw.expovariate(1 / {BUSY_S})
    while time.monotonic() < end:
        pass
    time.sleep(draw.expovariate(1 / {IDLE_S}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, judge, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benches.busy", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="demos beside the stranger")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="begin no demo after so long; the next call goes on")
    parser.add_argument("--keep", type=Path, default=KEPT / "busy", help="where the demos are kept")
    parser.add_argument("--anew", action="store_true", help="drop what is kept")
    asked = parser.parse_args(arguments)
    draw, clock = random.Random(asked.seed), Clock(asked.minutes)
    folder = asked.keep / f"seed-{asked.seed}"
    if asked.anew:
        shutil.rmtree(folder, ignore_errors=True)
    quiet = _kept(folder / "quiet") or demo(folder / "quiet", draw.randrange(2**31))
    if quiet is None:
        return 2
    draw = random.Random(asked.seed + 1)
    busy = []
    for n in range(asked.times):
        hogs, demos = draw.randrange(2**31), draw.randrange(2**31)
        found = _kept(folder / str(n))
        if found is None and clock.left_s <= 0:
            continue
        if found is None:
            with stranger(hogs):
                found = demo(folder / str(n), demos)
        if found is None:
            return 2
        busy.append(found)
        print(f"{n + 1}/{asked.times}: {_grades(found)}", file=sys.stderr, flush=True)
    text, bad = table(quiet, busy)
    print(text, end="")
    if len(busy) < asked.times:
        print(f"{len(busy)} of {asked.times} demos are made: call it again", file=sys.stderr)
        return 3
    title = f"# The demo beside a busy core\n\n`python -m benches.busy --times {asked.times} --seed {asked.seed}`\n\n"
    (Path(__file__).parent / "busy.md").write_text(title + text, encoding="utf-8")
    return 1 if bad else 0


def _kept(out: Path) -> Findings | None:
    """What today's rules say of a demo that was made; what another call left half made is dropped."""
    found = sorted(out.glob("*/derived/findings.json"))
    if found and Findings.read(found[0]).complete:
        return api.analyse(RunDir(found[0].parents[1]))
    shutil.rmtree(out, ignore_errors=True)
    return None


@contextmanager
def stranger(seed: int) -> Iterator[None]:
    """A process that keeps a core busy a third of the time, in spells; it ends with this one."""
    hog = subprocess.Popen([sys.executable, "-c", HOG, str(seed), str(os.getpid())])
    try:
        yield
    finally:
        hog.kill()
        hog.wait()


def demo(out: Path, seed: int) -> Findings | None:
    """One demo; None where it did not end."""
    begun = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "svload", "demo", "--seed", str(seed), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=DEMO_BOUND_S,
        check=False,
    )
    found = sorted(out.glob("*/derived/findings.json"))
    if ended.returncode != 0 or not found:
        print(f"a demo ended with {ended.returncode}: {ended.stderr[-2000:]}", file=sys.stderr)
        return None
    print(f"a demo took {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return Findings.read(found[0])


def wrong(claim: Claim, truth: Claim) -> bool:
    """Decided, and against the truth."""
    mine, true = _interval(claim), _interval(truth)
    if mine is None or true is None or truth.outcome != "decided":
        return False
    if claim.outcome == "decided":
        return ((claim.ratio.value or 0.0) > 1) != (true[0] > 1)
    within = claim.within or 0.0
    return claim.outcome == "no difference" and (true[0] > 1 + within or true[1] < 1 / (1 + within))


def apart(claim: Claim, truth: Claim) -> bool:
    """Both have an interval, and they do not overlap."""
    mine, true = _interval(claim), _interval(truth)
    return mine is not None and true is not None and (mine[0] > true[1] or mine[1] < true[0])


def _interval(claim: Claim) -> tuple[float, float] | None:
    low, high = claim.ratio.low, claim.ratio.high
    return None if low is None or high is None else (low, high)


def table(quiet: Findings, busy: Sequence[Findings]) -> tuple[str, int]:
    """The table, and how many claims are wrong."""
    lines = [
        f"| claim | quiet: ratio | of {len(busy)} busy: decided | no difference | open | refused | wrong | apart |",
        "|---|---|---|---|---|---|---|---|",
    ]
    bad = 0
    for truth in quiet.claims:
        mine = [claim for one in busy for claim in one.claims if claim.name == truth.name]
        counts = Counter(claim.outcome for claim in mine)
        errors = sum(wrong(claim, truth) for claim in mine)
        bad += errors
        around = _interval(truth)
        told = f"{truth.outcome}, {around[0]:.3g} … {around[1]:.3g}" if around else truth.outcome
        outcomes = " | ".join(str(counts[one]) for one in ("decided", "no difference", "open", "refused"))
        far = sum(apart(one, truth) for one in mine)
        lines.append(f"| {truth.name} | {told} | {outcomes} | {errors} | {far} |")
    lines += ["", f"Trials of the quiet one: {_grades(quiet)}. Of the busy ones:", ""]
    lines += [f"- {_grades(findings)}" for findings in busy]
    return "\n".join(lines) + "\n", bad


def _grades(findings: Findings) -> str:
    counts = Counter(trial.verdict.instrument for trial in findings.trials)
    return ", ".join(f"{counts[grade]} {grade}" for grade in ("VALID", "WEAK", "REFUSED"))


if __name__ == "__main__":
    sys.exit(main())

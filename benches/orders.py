"""Is a comparison by turns right, judged by one of long trials, and do equal builds stay equal?

    python -m benches.orders [--minutes 40] [--only pool-50 jvm aa-nginx] [--times 14]

Each setup has a build 15 % slower and is measured twice: by turns, and by trials of 30 s one after the other.
The machine should be calm; in the setup `busy` strangers use 35 % of it. Where the ratios differ by more than
3 % and their intervals exclude each other, a guard must have spoken. Setups `aa-…` compare equal builds by
turns, --times runs each, of which at most one in eight may name a difference. Runs are kept under
build/bench/orders, continued, and judged by the present code (as in benches/shared.py); the tables go to
benches/orders.md. Exit: 0 right, 1 not, 3 there is more to run.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from math import inf, log, nan
from statistics import stdev
from typing import NamedTuple

from benches.harness import KEPT, arguments, markdown, more_to_run, page, publish
from benches.shared import OPEN, SLOWER, Question, builds, command, make, planted, runs_in
from svload.api.runs import judged
from svload.model.results import Claim, Findings

ORDERS = {"turns": ("turns", 5, 6), "trials": ("randomised-blocks", 30, 4)}
"""The order's name → in a study, the seconds of a side in a block, and the blocks."""
UVICORN = KEPT / "uvicorn"
FAR = log(1.03)
NAMED = 1 / 8
"""The highest share of runs of equal builds that may name a difference."""


class Setup(NamedTuple):
    """A service, what main costs there, the load, and what the candidate costs over main."""

    lab: str
    main: float
    load: str
    ratio: float = SLOWER
    strangers: int = 0
    """percent of the machine that other programs use"""


def at(rate: float) -> str:
    """Return an open loop, of this many requests per second."""
    return f"{OPEN.format(rate=rate, slots=64)}, arrivals: poisson"


def users(number: int) -> str:
    """Return a closed loop without think time."""
    return f"executor: constant-vus, vus: {number}"


POOL, JVM = planted("sleep"), command("java Planted.java")
HOLDS = 4 / (0.02 * SLOWER)
"""Requests per second that the slower build's pool of four can answer."""
SETUPS = {
    **{f"pool-{part}": Setup(POOL, 0.02, at(HOLDS * part / 100)) for part in (50, 80, 95)},
    **{f"users-{number}": Setup(POOL, 0.02, users(number)) for number in (4, 40)},
    "cache": Setup(planted("cache"), 0.005, at(40)),
    "disk": Setup(f"{planted('disk')}, disk_rate: {{write: 8 MB/s}}", 65536, users(2)),
    "jvm": Setup(JVM, 0.004, at(100)),
    "busy": Setup(planted("burn"), 0.0026, at(120), strangers=35),
    "aa-nginx": Setup("kit: nginx, workers: '${build.cost}', files: {/page: 10 KiB}", 1, at(200), 1),
    "aa-uvicorn": Setup(command(f"{UVICORN.resolve()}/bin/python planted.py uvicorn"), 1, at(100), 1),
    "aa-jvm": Setup(JVM, 0.004, at(100), 1),
}


def question(name: str, order: str) -> Question:
    """Return a setup's study by this order."""
    setup, (word, seconds, blocks) = SETUPS[name], ORDERS[order]
    study = builds(
        setup.main,
        setup.ratio,
        name=f"{name}-{order}",
        lab=setup.lab,
        load=setup.load,
        order=word,
        seconds=seconds,
        blocks=blocks,
    )
    return Question(name, "run", (), study, lambda _: {}, {})


def wanted(names: Sequence[str], times: int) -> Iterator[tuple[str, str, int]]:
    """Yield the name, order and number of each run: of each setup one by both orders, or `times` by turns."""
    for number, name, order in product(range(times), names, ORDERS):
        if order == "turns" if name.startswith("aa-") else number == 0:
            yield name, order, number


def orders_of(name: str, turns: Findings, trials: Findings) -> Iterator[list[str]]:
    """Yield a setup's line for each percentile: the ratio by both orders, whether they differ, and the guards
    that spoke."""
    for both in zip(turns.claims, trials.claims, strict=True):
        ratios = [one.ratio.value or nan for one in both]
        (low, high), (least, most) = (one.single or (0.0, inf) for one in both)
        apart = abs(log(ratios[0] / ratios[1])) > FAR and (low > most or least > high)
        guards = both[0].turns.guards if both[0].turns else ()
        cells = map(_cell, both)
        yield [name, both[0].metric, *cells, "yes" if apart else "no", "; ".join(guards) or "–"]


def _cell(claim: Claim) -> str:
    """Return the ratio with its interval, and the scatter of a block."""
    logs, (low, high) = [one.log_ratio for one in claim.evidence], claim.single or (0.0, inf)
    if claim.ratio.value is None or len(logs) < 2:
        return "–"
    return f"{claim.ratio.value:.3f} ({low:.3f} to {high:.3f}), ± {100 * stdev(logs):.1f} %"


HEAD = """# Turns and trials

`python -m benches.orders`: ratios of a build 15 % slower, by turns (6 blocks of 5 s a side) and by \
trials of 30 s one after the other (4 blocks), with 95 % intervals; ± is the scatter of a block. “Apart”: \
by more than 3 %, and the intervals exclude each other.

"""
AA_HEAD = """
Equal builds by turns: runs that name a difference in p50 or p95.

"""


def main(given: Sequence[str] | None = None) -> int:
    """Make what is missing, judge all runs, write the tables."""
    asked = arguments(__doc__, given, minutes=1e9, times=14, only=[*SETUPS], keep=KEPT / "orders")
    until = time.monotonic() + 60 * asked.minutes
    if "aa-uvicorn" in asked.only and not UVICORN.exists():
        subprocess.run([sys.executable, "-m", "venv", UVICORN], check=True)
        subprocess.run([UVICORN / "bin/pip", "install", "-q", "uvicorn"], check=True)
    for name, order, number in wanted(asked.only, asked.times):
        place = asked.keep / name / order / str(number)
        if not (place / "ended.json").exists() and time.monotonic() < until:
            make(question(name, order), SETUPS[name].strangers, place)
    made = {
        (name, order): [
            judged(runs_in(one.parent)[0]) for one in asked.keep.glob(f"{name}/{order}/*/ended.json")
        ]
        for name, order in product(SETUPS, ORDERS)
    }
    lines = [
        line
        for name in SETUPS
        for both in zip(made[name, "turns"], made[name, "trials"], strict=False)
        for line in orders_of(name, *both)
    ]
    equal = [
        (name, len(runs), sum(any(claim.outcome == "decided" for claim in one.claims) for one in runs))
        for (name, order), runs in made.items()
        if name.startswith("aa-") and order == "turns"
    ]
    text = HEAD + markdown("setup|number|turns|trials|apart|guards", lines)
    publish(page(__file__), text + AA_HEAD + markdown("server|runs|name a difference", equal))
    if any(len(made[name, order]) <= number for name, order, number in wanted([*SETUPS], asked.times)):
        return more_to_run()
    unexplained = any("yes" in line and line[-1] == "–" for line in lines)
    return int(unexplained or sum(one[2] for one in equal) > NAMED * sum(one[1] for one in equal))


if __name__ == "__main__":
    sys.exit(main())

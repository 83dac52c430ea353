"""Is a comparison by turns right, judged by one of long trials, and do equal builds stay equal?

    python -m benches.orders [--minutes 40] [--only pool-50 jvm aa-nginx] [--times 14]

Each setup has a build 15 % slower, and is measured twice: by turns, and by trials of 30 s one after the other.
The machine should be calm; in the setup `busy` strangers use 35 % of it. Where the ratios differ by more than 3 % and their intervals exclude each other, a
guard must have spoken. Setups `aa-…` compare equal builds by turns, --times runs each, of which at most one in
eight may name a difference. Runs are kept under build/bench/orders, continued, and judged by the present code
(as in benches/shared.py); the tables go to benches/orders.md. Exit: 0 right, 1 not, 3 there is more to run.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from statistics import stdev
from typing import NamedTuple

from benches.harness import KEPT, arguments, markdown, more_to_run, page, publish
from benches.shared import SLOWER, Question, make, runs_in
from svload.api.runs import judged
from svload.model.results import Claim, Findings

STUDY = """\
name: {name}
question: Is the second build slower?
lab:
  api: {{{lab}}}
factors:
  build: {{main: {{costs: {main}}}, candidate: {{costs: {candidate}}}}}
traffic:
  people: {{{load}, request: GET http://api/page}}
measure: {{duration: {seconds}s, replicates: {blocks}, order: {order}}}
compare:
  - {{factor: build, baseline: main, metric: response.p50}}
  - {{factor: build, baseline: main, metric: response.p95}}
"""
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


def command(words: str) -> str:
    """Return a service by its command, which gets the cost and the port."""
    return f'run: "{words} ${{build.costs}} --port ${{port}}", ready: GET /health'


def at(rate: float) -> str:
    """Return an open loop, of this many requests per second."""
    return f"executor: constant-arrival-rate, rate: {rate:.0f}/s, arrivals: poisson, max_vus: 64"


def users(number: int) -> str:
    """Return a closed loop without think time."""
    return f"executor: constant-vus, vus: {number}"


PYTHON = f"{sys.executable} planted.py"
POOL, JVM = command(f"{PYTHON} sleep"), command("java Planted.java")
HOLDS = 4 / (0.02 * SLOWER)
"""Requests per second that the slower build's pool of four can answer."""
SETUPS = {
    **{f"pool-{part}": Setup(POOL, 0.02, at(HOLDS * part / 100)) for part in (50, 80, 95)},
    **{f"users-{number}": Setup(POOL, 0.02, users(number)) for number in (4, 40)},
    "cache": Setup(command(f"{PYTHON} cache"), 0.005, at(40)),
    "disk": Setup(f"{command(f'{PYTHON} disk')}, disk_rate: {{write: 8 MB/s}}", 65536, users(2)),
    "jvm": Setup(JVM, 0.004, at(100)),
    "busy": Setup(command(f"{PYTHON} burn"), 0.0026, at(120), strangers=35),
    "aa-nginx": Setup("kit: nginx, workers: '${build.costs}', files: {/page: 10 KiB}", 1, at(200), 1),
    "aa-uvicorn": Setup(command(f"{UVICORN.resolve()}/bin/python planted.py uvicorn"), 1, at(100), 1),
    "aa-jvm": Setup(JVM, 0.004, at(100), 1),
}


def question(name: str, order: str) -> Question:
    """Return a setup's study by this order."""
    setup, (word, seconds, blocks) = SETUPS[name], ORDERS[order]
    study = STUDY.format(
        name=f"{name}-{order}", lab=setup.lab, main=setup.main, candidate=f"{setup.main * setup.ratio:.6g}",
        load=setup.load, seconds=seconds, blocks=blocks, order=word,
    )  # fmt: skip
    return Question(name, "run", (), study, lambda _: {}, {})


def missing(keep: Path, names: Sequence[str], times: int, until: float) -> Iterator[tuple[Question, Path]]:
    """Yield the runs to make: of each setup both orders, or `times` by turns."""
    for number in range(times):
        for name in names:
            kinds = ["turns"] if name.startswith("aa-") else list(ORDERS) if number == 0 else []
            for order in kinds:
                place = keep / name / order / str(number)
                if not (place / "ended.json").exists() and time.monotonic() < until:
                    yield question(name, order), place


def found_in(keep: Path, name: str, order: str) -> list[Findings]:
    """Judge the existing runs of a setup by the present code."""
    return [judged(runs_in(one.parent)[0]) for one in sorted(keep.glob(f"{name}/{order}/*/ended.json"))]


def orders_of(name: str, turns: Findings, trials: Findings) -> Iterator[tuple[list[str], bool]]:
    """Yield a setup's line for each percentile, and whether the orders differ without a guard."""
    for by_turns, by_trials in zip(turns.claims, trials.claims, strict=True):
        both = [one.ratio.value for one in (by_turns, by_trials)]
        (low, high), (least, most) = _interval(by_turns), _interval(by_trials)
        guards = by_turns.turns.guards if by_turns.turns else ()
        apart = None in both or (
            abs(log(both[0] / both[1])) > FAR and (low > most or least > high)  # type: ignore[operator, arg-type]
        )
        cells = [_cell(one) for one in (by_turns, by_trials)]
        says = "; ".join(guards) or "–"
        yield [name, by_turns.metric, *cells, "yes" if apart else "no", says], apart and not guards


def _interval(claim: Claim) -> tuple[float, float]:
    """Return the 95 % interval of this claim alone; from 0 to infinity if there is none."""
    return claim.single or (0.0, float("inf"))


def _cell(claim: Claim) -> str:
    """Return the ratio with its interval, and the scatter of a block."""
    logs = [one.log_ratio for one in claim.evidence]
    if claim.ratio.value is None or len(logs) < 2:
        return "–"
    low, high = _interval(claim)
    return f"{claim.ratio.value:.3f} ({low:.3f} to {high:.3f}), ± {100 * (exp(stdev(logs)) - 1):.1f} %"


HEAD = """# Turns and trials

`python -m benches.orders --times {times}`: ratios of a build 15 % slower, by turns (6 blocks of 5 s a side) and by \
trials of 30 s one after the other (4 blocks), with 95 % intervals; ± is the scatter of a block. “Apart”: by \
more than 3 %, and the intervals exclude each other.

"""
AA_HEAD = """
Equal builds by turns: runs that name a difference in p50 or p95.

"""


def main(given: Sequence[str] | None = None) -> int:
    """Make what is missing, judge all runs, write the tables."""
    asked = arguments(
        __doc__, given, minutes=1e9, times=14, only=[*SETUPS], keep=KEPT / "orders"
    )  # fmt: skip
    if "aa-uvicorn" in asked.only and not UVICORN.exists():
        subprocess.run([sys.executable, "-m", "venv", UVICORN], check=True)
        subprocess.run([UVICORN / "bin/pip", "install", "-q", "uvicorn"], check=True)
    for one, place in missing(asked.keep, asked.only, asked.times, time.monotonic() + 60 * asked.minutes):
        make(one, SETUPS[place.parts[-3]].strangers, place)
    lines, wrong, aa, more = [], False, [], False
    for name in SETUPS:
        turns, trials = (found_in(asked.keep, name, order) for order in ORDERS)
        if name.startswith("aa-"):
            named = sum(any(claim.outcome == "decided" for claim in one.claims) for one in turns)
            aa.append([name.removeprefix("aa-"), f"{len(turns)} of {asked.times}", named])
            more |= len(turns) < asked.times
        elif turns and trials:
            for line, without_guard in orders_of(name, turns[0], trials[0]):
                lines.append(line)
                wrong |= without_guard
        else:
            more = True
    runs, named = (sum(int(str(line[at]).split()[0]) for line in aa) for at in (1, 2))
    columns = "setup|number|turns|trials|apart|guards"
    text = HEAD.format(times=asked.times) + markdown(columns, lines)
    publish(page(__file__), text + AA_HEAD + markdown("server|runs|name a difference", aa))
    return more_to_run() if more else int(wrong or named > NAMED * runs)


if __name__ == "__main__":
    sys.exit(main())

"""The search of `svload capacity` on simulated servers with a known limit (docs/method.md §4), in virtual
time.

    python -m benches.search            # all rows, some minutes; the table goes to benches/search.md
    python -m benches.search --runs 40  # quicker, printed only

A row passes if the interval contains the limit's lowest and highest values in at least 90 % of the searches
(a drift that nobody could know of, marked *, is shown and not judged). Exit 1 if one does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt

import numpy as np

from benches.harness import arguments, markdown, page, publish
from svload.analysis.capacity.search import Answer, Budget, Reading, Search, next_step

LIMIT = 900.0
"""The load at which every server here reaches its limit, if nothing shifts it."""
MEMORY = 0.95
"""For a drift: how much of it the next trial keeps."""
HOLDS = 0.90
_TOLERANCE = 1.03
"""Tolerance on a limit: a search that is off by 3 % is right."""
COLUMNS = (
    "server, scatter of a trial|interval holds the limit (±3 %) %|no answer %|width: median (90 %)|"
    "median off by|trials: median (90 %)"
)


@dataclass(frozen=True)
class Server:
    """`curve`: the margin at a load over the limit. `scatter` of a trial's margin, `drift` from trial to
    trial, `trend`: how much lower the limit is after 60 trials, `slow`: share of trials in which everything
    takes three times as long."""

    name: str
    curve: Callable[[float], float]
    scatter: float
    drift: float = 0.0
    trend: float = 0.0
    slow: float = 0.0
    judged: bool = True


def queue(load: float) -> float:
    """Return the margin of a queue whose response is 1/(1 − utilisation); the limit lies at 90 %."""
    return -inf if 0.9 * load >= 1 else log((1 - 0.9 * load) / 0.1)


def power(elasticity: float) -> Callable[[float], float]:
    """Return the margin of a response that grows with a power of the load: 1 for a closed loop beyond N*."""
    return lambda load: -elasticity * log(load)


def servers() -> Iterator[Server]:
    """Yield the rows."""
    for name, curve in (("queue", queue), ("in proportion", power(1)), ("elasticity 0.5", power(0.5))):
        for scatter in (0.03, 0.1, 0.3):
            yield Server(f"{name}, ±{100 * scatter:.0f} %", curve, scatter)
    yield Server("in proportion, AR(0.95) drift ±10 %*", power(1), 0.03, drift=0.1, judged=False)
    yield Server("in proportion, AR(0.95) drift ±20 %*", power(1), 0.03, drift=0.2, judged=False)
    yield Server("in proportion, 20 % slower over 60 trials", power(1), 0.03, trend=0.2)
    yield Server("queue, ±10 %, one trial in ten ×3", queue, 0.1, slow=0.1)
    yield Server("in proportion, ±10 %, one trial in ten ×3", power(1), 0.1, slow=0.1)


def searched(server: Server, rng: np.random.Generator) -> tuple[Answer, int]:
    """Run a whole search; return its answer and how many trials it made."""
    search = Search(1, 1_000_000, 64, 0.05, Budget(), int(rng.integers(2**32)))
    seen: list[Reading] = []
    drift = rng.standard_normal()
    while not isinstance(step := next_step(search, seen), Answer):
        for load in step.loads:
            drift = MEMORY * drift + sqrt(1 - MEMORY**2) * rng.standard_normal()
            margin = server.curve(load / LIMIT * exp(server.trend * min(len(seen) / 60, 1)))
            margin += server.scatter * rng.standard_normal() + server.drift * drift
            margin -= log(3) if rng.random() < server.slow else 0
            seen.append(Reading(load, margin, surely=margin < -0.7))
    return step, len(seen)


def row(server: Server, runs: int) -> tuple[list[str], bool]:
    """Return the cells of a row, and whether too few of its answers contain the limit."""
    rng = np.random.default_rng([20270115, *server.name.encode()])
    found = [searched(server, rng) for _ in range(runs)]
    limits = [one.limit for one, _ in found if one.state == "found" and one.limit is not None]
    late = LIMIT * exp(-server.trend)
    held = [one.low <= LIMIT * _TOLERANCE and one.high >= late / _TOLERANCE for one in limits]
    share = sum(held) / max(len(held), 1)
    width, most = np.quantile([100 * one.width for one in limits] or [inf], (0.5, 0.9))
    count, most_trials = np.quantile([count for _, count in found], (0.5, 0.9))
    off = np.median([100 * log(one.value / LIMIT) for one in limits] or [inf])
    cells = [server.name, f"{100 * share:.0f}", f"{100 * (1 - len(limits) / runs):.0f}"]
    cells += [f"{width:.0f} % ({most:.0f} %)", f"{off:+.1f} %", f"{count:.0f} ({most_trials:.0f})"]
    return cells, server.judged and share < HOLDS


def main(given: Sequence[str] | None = None) -> int:
    """Print the table."""
    runs = arguments(__doc__, given, runs=0).runs
    rows = [row(server, runs or 100) for server in servers()]
    missed = [f"\nMISSED {cells[0]}\n" for cells, is_missed in rows if is_missed]
    head = "# The search on simulated servers\n\n`python -m benches.search`\n\n"
    text = head + markdown(COLUMNS, [cells for cells, _ in rows]) + "".join(missed)
    publish(None if runs else page(__file__), text)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

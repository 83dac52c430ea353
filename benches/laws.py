"""The laws of docs/method.md §4 on servers with a known limit: simulated in virtual time, judged only by the
product's functions.

    python -m benches.laws            # every model, about a minute on one core; writes benches/laws.md
    python -m benches.laws --tenth    # every tenth model, as tests/analysis/test_laws.py does

N* = (D + Z)/max(Dᵢ/mᵢ) of each model follows from its parameters. Exit 1 if a cell that is held to the
limits misses one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat

import numpy as np
from tests.support.queueing import Closed, Seen, Station, simulate_closed

from benches.harness import arguments, markdown, page, publish
from svload.analysis.laws.every import Laws, laws_of
from svload.analysis.laws.levels import Resource, Run

SEED, MODELS_A_CELL, BLOCKS, REQUESTS = 20_261_122, 24, 5, 1_500
WITHIN, COVERAGE_MIN = 0.10, 0.92
_EXCEEDED = 1.05


@dataclass(frozen=True)
class Model:
    """A server, the resources that are visible, and the levels of users that it is run at. `unseen_s`: the
    part of each response that no resource shows."""

    cell: str
    stations: tuple[Station, ...]
    think_s: float
    users: tuple[int, ...]
    unseen_s: float = 0.0
    blind: bool = False
    """no resource is read"""

    @property
    def n_star(self) -> float:
        alone_s = sum(one.mean_s for one in self.stations) + self.unseen_s
        return (alone_s + self.think_s) / max(one.mean_s / one.servers for one in self.stations)

    @property
    def inside(self) -> bool:
        """Return whether its N* lies within the levels."""
        return self.users[0] < self.n_star < self.users[-1]

    def network(self, users: int) -> Closed:
        """Return the network to simulate; the unseen part is a delay."""
        unseen = (Station(self.unseen_s, users),) if self.unseen_s else ()
        return Closed((*self.stations, *unseen), users, self.think_s)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Return the resources that a study would read."""
        shown = () if self.blind else self.stations
        return tuple(Resource(f"s{at}", "cpu", one.servers) for at, one in enumerate(shown))


@dataclass(frozen=True)
class Cell:
    """A kind of model. `stations`, `servers`: from, to; `cv`: of service; `levels`: the lowest and the
    highest number of users over N*."""

    name: str
    stations: tuple[int, int] = (1, 1)
    servers: tuple[int, int] = (1, 1)
    cv: float = 1.0
    think: bool = True
    balanced: bool = False
    unseen: bool = False
    blind: bool = False
    levels: tuple[float, float] = (1 / 8, 3.0)
    held: bool = True


CELLS = (
    Cell("one station, one core"),
    Cell("one station, 2 to 8 cores", servers=(2, 8)),
    Cell("one station, 4 to 16 cores, no think time", servers=(4, 16), think=False),
    Cell("2 or 3 stations, one core each", stations=(2, 3)),
    Cell("2 or 3 stations, 1 to 4 cores", stations=(2, 3), servers=(1, 4)),
    Cell("3 equal stations", stations=(3, 3), balanced=True),
    Cell("service less variable (cv 0.5)", stations=(1, 2), servers=(1, 4), cv=0.5),
    Cell("service more variable (cv 1.5)", stations=(1, 2), servers=(1, 4), cv=1.5),
    Cell("a third of D unseen", stations=(1, 2), servers=(1, 4), unseen=True),
    Cell("all levels above N*", stations=(1, 2), servers=(1, 4), levels=(1.5, 6.0)),
    Cell("all levels below N*", stations=(1, 2), servers=(1, 4), levels=(1 / 10, 0.67)),
    Cell("no resource read", stations=(1, 2), servers=(1, 4), blind=True, levels=(1 / 8, 8.0), held=False),
)


def models(count: int = MODELS_A_CELL) -> Iterator[Model]:
    """Yield this many of each cell, drawn with one seed."""
    for number, cell in enumerate(CELLS):
        rng = np.random.default_rng([SEED, number])
        drawn = (_drawn(cell, rng) for _ in repeat(None))
        yield from islice(filter(None, drawn), count)


def _drawn(cell: Cell, rng: np.random.Generator) -> Model | None:
    """Return a model with an N* of 4 to 40; None if the draw has another."""
    count = int(rng.integers(cell.stations[0], cell.stations[1] + 1))
    first_s = float(10 ** rng.uniform(-3, -1))
    servers = [int(rng.integers(cell.servers[0], cell.servers[1] + 1)) for _ in range(count)]
    shares = np.ones(count) if cell.balanced else rng.uniform(0.3, 1.0, count)
    stations = tuple(
        Station(first_s * float(share) * m, m, cell.cv) for share, m in zip(shares, servers, strict=True)
    )
    alone_s = sum(one.mean_s for one in stations)
    unseen_s = alone_s / 2 if cell.unseen else 0.0
    think_s = float(alone_s * 10 ** rng.uniform(-0.3, 1.2)) if cell.think else 0.0
    model = Model(cell.name, stations, think_s, (1, 2), unseen_s, cell.blind)
    if not 4 <= model.n_star <= 40:
        return None
    low, high = (share * model.n_star for share in cell.levels)
    users = sorted({max(1, round(n)) for n in np.geomspace(max(low, 1), max(high, 2), 8)})
    least = model.n_star if cell.levels[0] > 1 else 0
    most = model.n_star if cell.levels[1] < 1 else np.inf
    chosen = tuple(n for n in users if least < n < most)
    return replace(model, users=chosen) if len(chosen) >= 3 else None


@dataclass(frozen=True)
class Judged:
    """A model with the results of the laws for its runs, and how many of its levels broke a bound."""

    model: Model
    laws: Laws | None
    bounds_broken: int

    @property
    def off(self) -> float:
        """Return the estimated N* over the true one, minus one."""
        value = self.laws.limit.value if self.laws else None
        return value / self.model.n_star - 1 if value else float("inf")

    @property
    def covers(self) -> bool:
        """Return whether the interval contains the true N*."""
        low, high = (self.laws.limit.low, self.laws.limit.high) if self.laws else (None, None)
        return low is not None and high is not None and low <= self.model.n_star <= high

    @property
    def state(self) -> str:
        """Return the state, as reported."""
        return self.laws.limit.state if self.laws else "none"


def judge(chosen: Sequence[Model], blocks: int = BLOCKS, requests: int = REQUESTS) -> list[Judged]:
    """Simulate all models at all of their levels, then judge them."""
    cells = [(model, users) for model in chosen for users in model.users for _ in range(blocks)]
    seen = iter(simulate_closed([model.network(users) for model, users in cells], requests, SEED))
    return [_judged(model, [*islice(seen, blocks * len(model.users))], blocks) for model in chosen]


def _judged(model: Model, seen: Sequence[Seen], blocks: int) -> Judged:
    users = np.repeat(model.users, blocks).tolist()
    runs = [_run(model, n, at % blocks, one) for at, (n, one) in enumerate(zip(users, seen, strict=True))]
    laws = laws_of(runs, model.resources, "users")
    if laws is None or laws.bounds is None:
        return Judged(model, laws, 0)
    mosts = [(level.throughput_rps, laws.bounds.at(level, "users")[0]) for level in laws.levels]
    return Judged(model, laws, sum(rate > _EXCEEDED * most for rate, most in mosts))


def _run(model: Model, users: int, block: int, seen: Seen) -> Run:
    think_s = seen.think_total_s / seen.completed
    busy_s = zip(model.resources, seen.busy_s, strict=False)
    return Run(
        throughput_rps=seen.throughput_rps, response_s=seen.response_s, users=users, think_s=think_s,
        block=block, window_s=seen.window_s, longest_cycle_s=seen.longest_s + think_s,
        uses={one.name: busy / seen.window_s for one, busy in busy_s},
    )  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A cell's outcome."""

    cell: Cell
    judged: tuple[Judged, ...]

    @property
    def inside(self) -> list[Judged]:
        """Return the models whose N* lies within the levels."""
        return [one for one in self.judged if one.model.inside]

    @property
    def outside(self) -> list[Judged]:
        return [one for one in self.judged if not one.model.inside]

    @property
    def missed(self) -> list[str]:
        """Return what a held cell missed, as sentences; coverage is checked over all cells together."""
        if not self.cell.held:
            return []
        found = [f"N* off by {100 * one.off:.3g} %" for one in self.inside if abs(one.off) > WITHIN]
        found += ["said to be bracketed" for one in self.outside if one.state == "bracketed"]
        found += ["not bracketed" for one in self.inside if one.state not in ("bracketed", "edge")]
        found += ["a bound broken" for one in self.judged if one.bounds_broken]
        peaks = [one.laws for one in self.judged if one.laws and one.laws.peak.value is not None]
        return found + len(peaks) * ["a peak where there is none"]


def rows_of(judged: Sequence[Judged]) -> list[Row]:
    """Return the rows by cell, in their order."""
    return [Row(cell, tuple(one for one in judged if one.model.cell == cell.name)) for cell in CELLS]


def coverage(rows: Sequence[Row]) -> float:
    """Return the share of intervals that contain N*, over models of held cells whose levels bracket it."""
    covered = [one.covers for row in rows if row.cell.held for one in row.inside]
    return sum(covered) / len(covered) if covered else 0.0


PAGE = """# Laws simulated

`python -m benches.laws`: {models} models, seed {seed}; each at 5 to 9 numbers of users, with \
{blocks} runs of {requests:,} requests at each.

- N* = (D + Z)/max(Dᵢ/mᵢ) follows from a model's structure. Error: N* found ÷ N* − 1. Covered: \
the 95 % interval contains N*.
- Told: the report says that the levels bracket N*; for the others its interval extends beyond the levels.
- Not bracketed: the report says so; only models whose N* lies outside the levels are counted.
- Bounds broken: levels that exceed a bound, by the demands found.
- N_break/N*: the median; then how many lie within 25 %.
- Limits: error ≤ {within:.0f} %, coverage ≥ {least:.0f} % over all cells, not bracketed in all, \
no bound broken, no peak (no model has one).
  They don't apply to cells in brackets.

{rows}
Coverage over the {held} models with limits: {coverage:.1f} %. Largest error: {largest:.1f} %.
{missed}"""
COLUMNS = (
    "models|bracketed by the levels|median error, %|largest, %|covered|told|not bracketed|bounds broken|"
    "N_break/N*|within 25 %"
)


def table(rows: Sequence[Row]) -> str:
    """Return the page."""
    held = [one for row in rows if row.cell.held for one in row.inside]
    missed = [f"MISSED {row.cell.name}: {why}\n" for row in rows for why in row.missed]
    return PAGE.format(
        models=sum(len(row.judged) for row in rows),
        seed=SEED,
        blocks=BLOCKS,
        requests=REQUESTS,
        within=100 * WITHIN,
        least=100 * COVERAGE_MIN,
        rows=markdown(COLUMNS, [_cells(row) for row in rows]),
        held=len(held),
        coverage=100 * coverage(rows),
        largest=100 * max(abs(one.off) for one in held),
        missed="".join(missed),
    )


def _cells(row: Row) -> list[str]:
    inside, outside = row.inside, row.outside
    of = f"of {len(inside)}"
    cells = [row.cell.name if row.cell.held else f"({row.cell.name})", f"{len(inside)} of {len(row.judged)}"]
    if inside:
        errors = np.abs([one.off for one in inside])
        known = errors[np.isfinite(errors)]
        without = f" ({len(inside) - len(known)} without)" if len(known) < len(inside) else ""
        cells += [f"{100 * np.median(errors):.1f}", f"{100 * max(known, default=float('nan')):.1f}{without}"]
        cells.append(f"{sum(one.covers for one in inside)} {of}")
        cells.append(f"{sum(one.state == 'bracketed' for one in inside)} {of}")
    else:
        cells += ["–"] * 4
    cells.append(f"{sum(one.state != 'bracketed' for one in outside)} of {len(outside)}" if outside else "–")
    cells.append(str(sum(one.bounds_broken for one in row.judged)))
    found = [(one.laws.break_at.value, one.model.n_star) for one in inside if one.laws]
    breaks = [value / n_star for value, n_star in found if value]
    near = sum(1 / 1.25 <= one <= 1.25 for one in breaks)
    return cells + ([f"{np.median(breaks):.2f}", f"{near} of {len(breaks)}"] if breaks else ["–", "–"])


def main() -> int:
    """Print the table; for all models, also write it."""
    tenth = arguments(__doc__, tenth=False).tenth
    rows = rows_of(judge(list(models())[:: 10 if tenth else 1]))
    text = table(rows)
    publish(None if tenth else page(__file__), text)
    return 1 if "MISSED" in text or coverage(rows) < COVERAGE_MIN else 0


if __name__ == "__main__":
    sys.exit(main())

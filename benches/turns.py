"""Sides that take turns compared with successive trials, simulated on a machine with two hidden speeds.

    python -m benches.turns                       # 4 minutes on a core; writes benches/turns.md
    python -m benches.turns --tenth               # a tenth of the gates; nothing is written
    python -m benches.turns --endings             # when a gate may end, a minute; nothing is written

All judging is done by the product's own functions (`svload.analysis.claims`). benches/orders.py compares both
orders on real servers.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benches.harness import arguments, markdown, page, publish
from svload.analysis import limits
from svload.analysis.claims import turns as rule
from svload.analysis.claims.statistic import Effect, apart, effect_of, half_width, p_of, p_of_distance
from svload.analysis.claims.turned import growth_in_turn, rises
from svload.analysis.quantiles import ranked_values
from svload.analysis.turn_plan import turn_plan
from svload.run.warming import typical_p99_ns

Floats = NDArray[np.float64]
SEED, GATES = 20_260_101, 100
MARGIN = log(1.05)
PERCENTILES = (0.5, 0.95)


class Blocks(NamedTuple):
    """Results of blocks, [..., block]: effect, own error and pooled ratio, in logarithms. For trials the
    error is 0 and the pooled ratio is the effect itself."""

    effect: Floats
    error: Floats
    pooled: Floats

    def first(self, n: int) -> Blocks:
        return Blocks(*(one[..., :n] for one in self))

    def moved(self, by: Floats) -> Blocks:
        return Blocks(self.effect + by, self.error, self.pooled + by)


@dataclass(frozen=True)
class Judged:
    """The results of the rule for sets of blocks: the effect, and that with all requests counted equally."""

    effect: Effect
    alike: Effect

    @property
    def half(self) -> Floats:
        return half_width(self.effect)

    def names_a_difference(self) -> NDArray[np.bool_]:
        return np.asarray(p_of(self.effect) <= limits.ALPHA)

    def holds(self, truth: float) -> NDArray[np.bool_]:
        return np.asarray(np.abs(self.effect.mean - truth) <= self.half)

    def passes(self, p: float = limits.ALPHA) -> NDArray[np.bool_]:
        """Return which gates “worse by more than 5 %” pass, by the interval at this level."""
        half = half_width(self.effect, round(limits.ALPHA / p)) if p else np.inf
        return np.asarray((self.effect.mean + half <= MARGIN) & ~apart(self.alike, None, MARGIN))

    def fails(self) -> NDArray[np.bool_]:
        return np.asarray(self.effect.mean - self.half > MARGIN)

    def p_beyond(self) -> Floats:
        """p of the effect being within the margin, for effects beyond it."""
        return np.asarray(p_of_distance(np.maximum(self.effect.mean - MARGIN, 0.0), self.effect))


def judged(blocks: Blocks) -> Judged:
    """Judge all sets at the same time, with the functions that judge a run: a case and its blocks."""
    effect, error, pooled = (one[..., None, :] for one in blocks)
    unit = np.arange(effect.shape[-1])
    return Judged(effect_of(effect, unit, rule.block_weights(effect, error)), effect_of(pooled, unit))


# Simulated blocks

ROUNDS, HALF_S, PAUSE_S, TRIAL_S = 25, 0.5, 0.05, 5.0
FIRST, FIXED = limits.GATE_ENDS_FROM, 12
MOST = limits.GATE_MOST * FIRST
RATIOS = (1.0, 1.05, 1.15)
STARTS = (0.01, 0.02, 0.04)
SLOW, SPELL_S, GRID_S = 1.75, 2.0, 0.005
"""Hidden speeds: how much slower the slow one is, their mean length, and the grid on which they are drawn."""
BUSY = 0.3
"""Utilisation of the server by the open loop, at full speed."""


@dataclass(frozen=True)
class Cell:
    """Requests of `shape` by an open or a closed loop, `requests` per half second at full speed."""

    shape: str
    loop: str
    requests: int


def cells() -> Iterator[Cell]:
    for requests in (20, 100):
        for shape in SHAPES:
            for loop in ("open", "closed"):
                yield Cell(shape, loop, requests)
    yield Cell("heavy-tailed", "open", 500)
    yield Cell("log-normal", "closed", 500)


Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
SHAPES: dict[str, Draw] = {
    "log-normal": lambda rng, shape: np.exp(0.3 * rng.standard_normal(shape)),
    # a cache that answers four in five
    "two-humped": lambda rng, shape: (
        np.where(rng.random(shape) < 0.8, 1.0, 4.0) * np.exp(0.1 * rng.standard_normal(shape))
    ),
    # Pareto from 1 on: a mean, no variance
    "heavy-tailed": lambda rng, shape: (1 - rng.random(shape)) ** (-1 / 1.8),
}


@cache
def _mean_of(shape: str) -> float:
    return float(SHAPES[shape](np.random.default_rng(1), (400_000,)).mean())


def speeds(rng: np.random.Generator, blocks: int, seconds: float) -> NDArray[np.bool_]:
    """Return whether the core is slow, [block, moment]: exponential spells."""
    steps = ceil(seconds / GRID_S) + 1
    turned = rng.random((blocks, steps)) < GRID_S / SPELL_S
    turned[:, 0] = rng.random(blocks) < 0.5
    return np.asarray(np.cumsum(turned, axis=1) % 2 == 1)


def responses(
    cell: Cell,
    rng: np.random.Generator,
    slow: NDArray[np.bool_],
    begin_s: Floats,
    seconds: float,
    ratio: ArrayLike,
    used: float = BUSY,
) -> tuple[Floats, Floats]:
    """Return when after `begin_s` requests are due and their responses in s, [block, window, request]; NaN
    after the last."""
    wanted = cell.requests * seconds / HALF_S
    mean_s = (used if cell.loop == "open" else 1.0) * seconds / wanted
    most = ceil(wanted + 4 * sqrt(wanted)) if cell.loop == "open" else ceil(1.4 * wanted + 10)
    work = SHAPES[cell.shape](rng, (most, *begin_s.shape)) * mean_s / _mean_of(cell.shape) * np.asarray(ratio)
    block = np.arange(len(begin_s))[:, None]
    found, dues = np.full(work.shape, np.nan), np.empty(work.shape)
    due, free = np.zeros_like(begin_s), np.zeros_like(begin_s)
    gaps = rng.exponential(seconds / wanted, work.shape) if cell.loop == "open" else None
    for place in range(most):
        due = due + gaps[place] if gaps is not None else free
        started = np.maximum(due, free)
        moment = np.minimum(((begin_s + started) / GRID_S).astype(int), slow.shape[1] - 1)
        free = started + work[place] * np.where(slow[block, moment], SLOW, 1.0)
        found[place], dues[place] = np.where(due < seconds, free - due, np.nan), due
    return np.moveaxis(dues, 0, -1), np.moveaxis(found, 0, -1)


def made(cell: Cell, rng: np.random.Generator, blocks: int, ratio: float, turns: bool) -> list[Blocks]:
    """Return blocks by each of `PERCENTILES`: both sides in turns as planned, in random order within each
    round; without turns in one trial of 5 s each."""
    rounds, seconds, pause_s = 1, TRIAL_S, 0.5
    if turns:
        length_ns, _, rounds = turn_plan(0.0, cell.requests / HALF_S, rounds=ROUNDS)
        seconds, pause_s = length_ns / 1e9, PAUSE_S
    slow = speeds(rng, blocks, 2 * rounds * (seconds + pause_s) + 1)
    place = 2 * np.arange(rounds)[:, None] + np.argsort(rng.random((blocks, rounds, 2)), axis=2)
    begin = (seconds + pause_s) * place.reshape(blocks, -1).astype(float)
    _, took = responses(cell, rng, slow, begin, seconds, np.tile([1.0, ratio], rounds))
    ranked = ([ranked_values(one[~np.isnan(one)]) for one in block] for block in took)
    found = [[rule.block_effect(block[::2], block[1::2], p) for p in PERCENTILES] for block in ranked]
    return [
        Blocks(*(np.array([getattr(one[at], name) for one in found]) for name in Blocks._fields))
        for at in range(len(PERCENTILES))
    ]


def simulated(cell: Cell, gates: int, turns: bool) -> list[dict[float, Blocks]]:
    """Return blocks by percentile and planted ratio, [gate, block], as if all starts were equal."""
    found: list[dict[float, Blocks]] = [{} for _ in PERCENTILES]
    chunk = 10
    for ratio in RATIOS:
        rng = np.random.default_rng([SEED, turns, *map(ord, repr(cell))])
        parts = [made(cell, rng, chunk * MOST, ratio, turns) for _ in range(ceil(gates / chunk))]
        for by_ratio, same in zip(found, zip(*parts, strict=True), strict=True):
            columns = zip(*same, strict=True)
            by_ratio[ratio] = Blocks(*(np.concatenate(one).reshape(-1, MOST) for one in columns))
    return found


class Shares(NamedTuple):
    """Shares of all gates; `blocks` is what equal builds used."""

    false_alarms: float
    coverage: float
    blocks: float
    equal_passes: float
    margin_passes: float
    fails: float


def shares(by_ratio: dict[float, Blocks], start: float, seed: int, turns: bool) -> Shares:
    """Return the shares with starts of a server that differ by `start`. False alarms and coverage are of 12
    blocks; gates add blocks, and only those by turns end early."""
    rng = np.random.default_rng([SEED, seed])
    moved = {}
    for ratio, blocks in by_ratio.items():
        moved[ratio] = blocks.moved(start * rng.standard_normal(blocks.effect.shape))
    gates = {ratio: ended(one, *(ENDS if turns else NEVER)) for ratio, one in moved.items()}
    fixed = {ratio: judged(one.first(FIXED)) for ratio, one in moved.items()}
    truth = float(np.nanmean(by_ratio[1.15].effect))
    return Shares(
        float(np.mean(fixed[1.0].names_a_difference())), float(np.mean(fixed[1.15].holds(truth))),
        gates[1.0].blocks, gates[1.0].passes, gates[1.05].passes, gates[1.15].fails,
    )  # fmt: skip


ENDS, NEVER = (limits.GATE_FAILS_P, limits.GATE_PASSES_P), (0.0, 0.0)
"""Levels at which a gate ends because it fails, and because it passes."""


class Ended(NamedTuple):
    """Shares of gates that fail and pass, and the blocks that they used on average."""

    fails: float
    passes: float
    blocks: float


def ended(blocks: Blocks, fails_p: float, passes_p: float) -> Ended:
    """Look at gates after each block from the sixth on; they end where their interval is narrow, they fail at
    `fails_p` or pass at `passes_p`."""
    count = len(blocks.effect)
    used, failed, passed = np.zeros(count), np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    for n in range(FIRST, MOST + 1):
        look = judged(blocks.first(n))
        narrow = (look.half <= limits.GATE_WIDTH * MARGIN) | (n == MOST)
        ends = (used == 0) & (narrow | (look.p_beyond() <= fails_p) | look.passes(passes_p))
        used, failed = np.where(ends, n, used), failed | (ends & look.fails())
        passed |= ends & look.passes()
    return Ended(float(failed.mean()), float(passed.mean()), float(used.mean()))


def drawn_blocks(ratio: float, start: float, error: float, gates: int = 4000) -> Blocks:
    """Draw blocks whose log effects have this scatter between starts and this error of their own."""
    rng = np.random.default_rng([SEED, round(1e4 * start)])
    effect = log(ratio) + np.hypot(start, error) * rng.standard_normal((gates, MOST))
    own = error * np.sqrt(rng.chisquare(ROUNDS - 1, effect.shape) / (ROUNDS - 1))
    return Blocks(effect, own, effect)


def endings() -> str:
    """Tabulate how gates end that stop where they are decided, by the levels at which they fail and pass."""
    levels = (NEVER, (0.05, 0.05), ENDS)
    names = [f"p ≤ {fails:g}, {passes:g}" for fails, passes in levels[1:]]
    lines = []
    for start, error in ((0.01, 0.02), (0.02, 0.02), (0.04, 0.02), (0.04, 0.06), (0.06, 0.1)):
        for ratio in (0.5, 0.9, 1.0, 1.03, *RATIOS[1:]):
            blocks = drawn_blocks(ratio, start, error)
            found = [ended(blocks, *level) for level in levels]
            result = [f"{100 * one.fails:.1f}, {100 * one.passes:.1f}, {one.blocks:.1f}" for one in found]
            lines.append([f"{ratio:g}", f"{100 * start:g}, {100 * error:g} %", *result])
    return markdown("|".join(["planted|starts, error|by width alone: fails, passes, blocks", *names]), lines)


HEAD = """# Turns simulated

`python -m benches.turns`: {gates} gates a cell (a quarter with 500 requests), seed {seed}. All values but \
the blocks in %.

- The core has two hidden speeds: the slow one is 1.75 times as slow, spells last 2 s on average.
- Order: turns are 25 to 28 rounds of 0.2 to 0.3 s, as planned; trials take 5 s a side, one after the other.
- Starts: random difference between the builds of a block (standard deviation).
- Requests: per half second at full speed. The open loop uses 30 % of a server at full speed; the \
closed loop is one user without think time.
- False alarms (equal builds) and coverage (a build 15 % slower, the mean over all its blocks) \
are with 12 blocks.
- Gates “worse by more than 5 %” use 6 to 24 blocks; “blocks” is the mean for equal builds. \
A build at the margin is 5 % slower.
- They end as svload's do: where half of the interval is 0.6 of the margin; by turns also where they fail with
  p ≤ {fails:g} or pass with p ≤ {passes:g}.

"""


def table(rows: Sequence[tuple[str, Shares]]) -> str:
    """Return a percentile's table; the name of a row contains its first three cells."""
    columns = "requests|starts|order|false alarms|coverage|blocks|equal passes|at the margin passes"
    lines = []
    for name, one in rows:
        percent = [f"{100 * value:.0f}" for value in one._replace(blocks=one.blocks / 100)]
        percent[one._fields.index("blocks")] = f"{one.blocks:.1f}"
        lines.append([name, *percent])
    return markdown(f"{columns}|15 % slower fails", lines)


def simulate(gates: int) -> str:
    """Return the tables of all cells, and of all together."""
    rows: dict[float, list[tuple[str, Shares]]] = {p: [] for p in PERCENTILES}
    every: dict[tuple[float, str], list[Shares]] = defaultdict(list)
    for number, cell in enumerate(cells()):
        some = gates // 4 if cell.requests > 100 else gates
        for order in ("turns", "trials"):
            of_percentile = simulated(cell, some, order == "turns")
            for p, by_ratio in zip(PERCENTILES, of_percentile, strict=True):
                for start in STARTS:
                    found = shares(by_ratio, start, number, order == "turns")
                    what = f"{cell.shape}, {cell.loop}, {cell.requests}"
                    rows[p].append((f"{what} | {100 * start:g} | {order}", found))
                    every[p, f"all | {100 * start:g} | {order}"].append(found)
        print(f"{cell.shape}, {cell.loop}, {cell.requests}: made", file=sys.stderr, flush=True)
    parts = []
    for p in PERCENTILES:
        mean = [(name, Shares(*np.mean(several, axis=0))) for (of, name), several in every.items() if of == p]
        parts.append(f"## p{100 * p:g}\n\n{table([*mean, *rows[p]])}")
    return "\n".join(parts)


# An open loop near its capacity

USED = (0.3, 0.5, 0.8, 0.9, 0.95)
ALWAYS_S, CUT_S = 30.0, 3.0
QUEUES_HEAD = """
## An open loop near its capacity

{runs} runs of 12 blocks; log-normal, 200 requests/s, which use the given share of main. “Turns” and \
“always”: the ratio candidate ÷ main of p50, p95, by
turns as planned and in trials of 30 s. “Rising”: runs in % in which that guard speaks, after 6 and after \
12 blocks.

"""


def near_capacity(used: float, ratio: float, runs: int) -> list[object]:
    """Return a row of the table of queues, by the product's own plan, numbers and guard."""
    rng = np.random.default_rng([SEED, round(100 * used), round(100 * ratio)])

    def loads(blocks: int, rounds: int, seconds: float, one: float) -> tuple[Floats, Floats]:
        begin = np.zeros((blocks, rounds))
        slow = np.zeros((blocks, ceil(2 * seconds / GRID_S)), dtype=bool)
        return responses(Cell("log-normal", "open", 100), rng, slow, begin, seconds, one, used)

    always = [loads(runs, 1, ALWAYS_S, one) for one in (1.0, ratio)]
    p99_ns = max(typical_p99_ns(1e9 * took[due < 2 * CUT_S]) for due, took in always)
    length_ns, pause_ns, rounds = turn_plan(p99_ns, 100 / HALF_S, duration_ns=5_000_000_000)
    begin_ns = np.arange(rounds) * (length_ns + pause_ns)
    turns = rule.Turns(begin_ns, begin_ns + length_ns, begin_ns + length_ns + pause_ns)
    effects, growths = [], []
    for _ in range(runs):
        growth, ranked = [], []
        for one in (1.0, ratio):
            due, took = loads(FIXED, rounds, length_ns / 1e9, one)
            blocks = [_in_block(*block, turns) for block in zip(due, took, strict=True)]
            both = [(block, rule.measured(block, turns, p99_ns)) for block in blocks]
            growth.append([growth_in_turn(block, turns, which, p99_ns) for block, which in both])
            ranked.append([rule.by_turn(block, turns, which) for block, which in both])
        growths.append(growth)
        for main, other in zip(*ranked, strict=True):
            effects.append([rule.block_effect(main, other, p).effect for p in PERCENTILES])
    known = [took[(due > CUT_S) & ~np.isnan(took)] for due, took in always]
    speaks = [
        100 * np.mean([rises([side[:n] for side in run], range(n)) is not None for run in growths])
        for n in (FIRST, FIXED)
    ]
    return [
        f"{100 * used:.0f} %",
        ratio,
        ", ".join(f"{exp(one):.2f}" for one in np.mean(effects, axis=0)),
        ", ".join(f"{np.quantile(known[1], p) / np.quantile(known[0], p):.2f}" for p in PERCENTILES),
        ", ".join(f"{one:.0f}" for one in speaks),
    ]


def _in_block(due: Floats, took: Floats, turns: rule.Turns) -> rule.Requests:
    """Return one side's requests in a block, [round, request] in s; each its own connection."""
    at = (turns.begin_ns[:, None] + 1e9 * due)[~np.isnan(took)].astype(np.int64)
    response = 1e9 * took[~np.isnan(took)]
    each, done = np.arange(len(at)), at + response.astype(np.int64)
    return rule.Requests(at, at, done, response, each, each, np.zeros_like(at))


def queues(runs: int) -> str:
    """Return the table of queues."""
    rows = [near_capacity(used, ratio, runs) for used in USED for ratio in RATIOS]
    return QUEUES_HEAD.format(runs=runs) + markdown("capacity used|planted|turns|always|rising", rows)


def main(given: Sequence[str] | None = None) -> int:
    """Simulate, and print or write the tables."""
    asked = arguments(__doc__, given, tenth=False, endings=False)
    if asked.endings:
        print(endings(), end="")
    else:
        gates = GATES // 10 if asked.tenth else GATES
        head = HEAD.format(gates=gates, seed=SEED, fails=ENDS[0], passes=ENDS[1])
        text = head + simulate(gates) + queues(gates // 2)
        if asked.tenth:
            print(text)
        else:
            publish(page(__file__), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

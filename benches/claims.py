"""The rule of comparisons, simulated on machines disturbed by others: false alarms, coverage, power, "no
difference", and gates that add blocks.

    python -m benches.claims            # 2,000 runs per cell, minutes on one core; writes benches/claims.md
    python -m benches.claims --tenth    # 200 runs per cell, as tests/analysis/test_claims_simulated.py does

Data are simulated here, and judged only by the product's functions (`svload.analysis.claims.statistic`).
Exit 1 if a cell that is held to the limits misses one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.optimize.elementwise import find_root
from scipy.signal import lfilter
from scipy.special import ndtr, ndtri

from benches.harness import arguments, markdown, page, publish
from svload.analysis import limits
from svload.analysis.claims import statistic
from svload.analysis.claims.pairs import unit_is_bring_up

Floats = NDArray[np.float64]
RUNS, SEED = 2_000, 20_260_101
FALSE_ALARMS_MAX, COVERAGE_MIN = 0.07, 0.93
MARGIN = log(1.05)
SCATTER = 0.10
"""Scatter of one request's logarithm, undisturbed."""


@dataclass(frozen=True)
class World:
    """The conditions on a machine. Shares are of one, times in s, waits in ms; the rest is of logarithms.

    `short`, `long`: (share of the time, mean length) of bursts of other processes, which take one core, or
    with probability `both` two; a request that is hit waits `waits` ms on average at one or two cores.
    """

    name: str
    short: tuple[float, float] = (0.0, 1.0)
    long: tuple[float, float] = (0.0, 1.0)
    both: float = 0.3
    waits: tuple[float, float] = (0.15, 2.5)
    always: float = 0.0
    """share of both cores that others always use"""
    seen: float = 1.0
    """share of the trials in which monitors see it"""
    sigma: float = 1.0
    """noise of a trial, as a multiple of its case's"""
    heavy: bool = False
    """t(3) instead of normal"""
    drift: float = 0.0
    """AR(1) with correlation 0.95 from trial to trial, and a trend of twice that"""
    block_effect: float = 0.0
    """treatment × block"""
    bring_ups: int = 0
    """0: they have no effect"""
    bring_up_effect: float = 0.0
    missing: float = 0.0
    # the treatment's effect
    suffers: float = 1.0
    """how much harder disturbances hit the treatment"""
    disturbs: float = 0.0
    """share of its own trials that it disturbs for 0.7 of their time"""
    hungry: float = 1.0
    """others' share beside the treatment, as a multiple of that beside the baseline"""
    lag: float = 0.0
    """the generator's own delay in its trials"""
    slow: float = 0.0
    """share of its trials that are 50 % slower by themselves"""


QUIET = World("quiet")
LIGHT = World("light", (0.05, 0.3), (0.05, 3.0))
DEMO = World("a desktop at work", (0.10, 0.4), (0.20, 6.0))
HEAVY = World("heavy", (0.20, 0.4), (0.40, 20.0), 0.5, (0.15, 4.0))
MINUTES = World("minutes long", (0.05, 0.4), (0.30, 90.0), 0.5)
RARE = World("rare, ten times as slow", long=(0.05, 3.0), both=1.0, waits=(0.15, 6.0))
BUSY = World("both cores always busy", always=1.0, waits=(0.15, 1.0))
ADVERSE = (
    replace(DEMO, name="half of it not seen", seen=0.5),
    replace(DEMO, name="nothing seen", seen=0.0),
    replace(DEMO, name="20 % of the trials missing", missing=0.2),
    replace(DEMO, name="others get half beside the treatment", hungry=0.5),
    replace(LIGHT, name="the generator adds 10 % to the treatment", lag=log(1.1)),
)


@dataclass(frozen=True)
class Cell:
    """A world and a design."""

    world: World
    cases: int
    blocks: int
    held: bool = True
    """held to the limits; if false, only shown"""


def cells() -> Iterator[Cell]:
    """Yield the designs, one per row."""
    drift = World("drift and trend", drift=0.05)
    tails = World("t(3), twice as large", sigma=2.0, heavy=True)
    crossed = replace(DEMO, name="a desktop at work, treatment × block 2 %", block_effect=0.02)
    for world in (QUIET, LIGHT, DEMO, HEAVY, MINUTES, RARE, drift, tails, crossed):
        for cases, blocks in ((8, 4), (1, 6)):
            yield Cell(world, cases, blocks, held=not (world is MINUTES and cases == 1))
    for cases, blocks in ((1, 3), (8, 3), (4, 10), (1, 20)):
        yield Cell(DEMO, cases, blocks)
    for world in ADVERSE:
        yield Cell(world, 8, 4)
    for bring_ups in (1, 3, 6, 12):
        world = World(f"{bring_ups} bring-ups that differ by 2 %", bring_ups=bring_ups, bring_up_effect=0.02)
        yield Cell(world, 4, 12, held=bring_ups >= limits.CLAIM_BRING_UPS)


@dataclass(frozen=True)
class Data:
    """Simulated runs, [run, case, block], with one more side for `strangers`."""

    logs: Floats
    clean: Floats
    strangers: Floats
    unit: NDArray[np.int64]
    percentile: float = 0.5

    @cached_property
    def known(self) -> Floats:
        """The strangers' shares of the pairs that are there."""
        return np.where(np.isnan(self.logs)[..., None], np.nan, self.strangers)

    @cached_property
    def weight(self) -> Floats:
        """The weight of each pair."""
        return np.asarray(statistic.weights(self.known, self.percentile))

    def first(self, blocks: int) -> Data:
        """Return the data of the first blocks."""
        logs, clean, strangers = self.logs[..., :blocks], self.clean[..., :blocks], self.strangers
        return Data(logs, clean, strangers[..., :blocks, :], self.unit[:blocks], self.percentile)


def simulate(
    world: World, cases: int, blocks: int, effect: float, runs: int, seed: list[int], percentile: float = 0.5,
    trial_s: float = 1.2,
) -> Data:  # fmt: skip
    """Simulate trials in randomised blocks, in the order in which they run; equal seeds give equal
    disturbances whatever the effect."""
    rng = np.random.default_rng(seed)
    n, gap_s = 2 * cases, 0.5
    place = np.argsort(rng.random((runs, blocks, n)), axis=2)
    begun = (trial_s + gap_s) * (place + n * np.arange(blocks)[:, None])
    one, two = _covered(world, np.asarray(begun.reshape(runs, -1), np.float64), trial_s, rng)
    shape = (runs, blocks, cases, 2)
    one, two = one.reshape(shape), two.reshape(shape)
    treated = np.array([0.0, 1.0])
    own = np.where((rng.random(shape) < world.disturbs) & (treated == 1), 0.7, 0.0)
    two = 1 - (1 - np.maximum(two, world.always)) * (1 - own)
    q_ms = np.full(cases, 2.0) if cases == 1 else np.exp(np.linspace(log(0.7), log(50.0), cases))
    length = q_ms[:, None] * np.exp(effect * treated)
    harder = np.where(treated == 1, world.suffers, 1.0)
    push = sum(
        _shift(percentile, share, np.broadcast_to(np.log1p(wait / length) * harder, shape))
        for share, wait in zip((np.minimum(one, 1 - two), two), world.waits, strict=True)
    )
    noise = rng.standard_t(3, shape) / np.sqrt(3) if world.heavy else rng.standard_normal(shape)
    scatter = (0.002 + 0.06 * (0.7 / q_ms) ** 0.8) * world.sigma * (2 if percentile > 0.5 else 1)
    y = np.log(length) + scatter[:, None] * noise + push + 0.02 * rng.standard_normal((runs, blocks, 1, 1))
    drift = _drift(world, runs, blocks * n, rng).reshape(runs, blocks, n)
    y = y + np.take_along_axis(drift, place, 2).reshape(shape)
    unit, of_unit = _bring_ups(world, runs, blocks, rng)
    y = y + (of_unit + world.block_effect * rng.standard_normal((runs, blocks)))[..., None, None] * treated
    y = y + np.where((rng.random(shape) < world.slow) & (treated == 1), log(1.5), 0.0) + world.lag * treated
    sight = rng.random(shape) < world.seen
    x = sight * (0.5 * one + 0.95 * two) * np.where(treated == 1, world.hungry, 1.0)
    x = x * (1 + 0.05 * rng.standard_normal(shape)) + np.abs(0.01 * rng.standard_normal(shape))
    late = -np.log1p(-rng.uniform(0.2, 0.6, shape) * (1 - np.exp(-np.maximum(push, 0)))) + world.lag * treated
    gone = (rng.random(shape) < world.missing).any(-1)
    ratio, clean = (np.where(gone, np.nan, one[..., 1] - one[..., 0]) for one in (y, y - late))
    return Data(*(np.moveaxis(one, 1, 2) for one in (ratio, clean, x)), unit, percentile)


def _covered(world: World, begun: Floats, trial_s: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return for each trial the shares of its time in which others had one core, and two."""
    one, two = np.zeros_like(begun), np.zeros_like(begun)
    for share, mean_s in (world.short, world.long):
        if share <= 0:
            continue
        cycle_s = mean_s / share
        total_s = float(begun.max()) + trial_s
        count = int(total_s / cycle_s * 1.3 + 8 * np.sqrt(total_s / cycle_s) + 12)
        on = rng.exponential(mean_s, (len(begun), count))
        starts = np.cumsum(on + rng.exponential(cycle_s - mean_s, on.shape), axis=1) - on
        starts -= rng.uniform(0, 2, (len(begun), 1)) * cycle_s
        wide = rng.random(on.shape) < world.both
        for run in range(len(begun)):
            edges = np.stack([starts[run], starts[run] + on[run]], axis=1).ravel()
            for into, which in ((one, ~wide[run]), (two, wide[run])):
                sums = np.cumsum(on[run] * which)
                levels = np.stack([np.concatenate([[0.0], sums[:-1]]), sums], axis=1).ravel()
                at = np.interp(np.stack([begun[run], begun[run] + trial_s]), edges, levels)
                into[run] = 1 - (1 - into[run]) * (1 - np.clip((at[1] - at[0]) / trial_s, 0, 1))
    return one, two


def _drift(world: World, runs: int, length: int, rng: np.random.Generator) -> Floats:
    if not world.drift:
        return np.zeros((runs, length))
    steps, rho = rng.standard_normal((runs, length)), 0.95
    steps[:, 1:] *= np.sqrt(1 - rho**2)
    level = lfilter([1.0], [1.0, -rho], steps)
    trend = np.linspace(-1, 1, length) * rng.choice([-1.0, 1.0], (runs, 1))
    return np.asarray(world.drift * (level + trend))


def _bring_ups(
    world: World, runs: int, blocks: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats]:
    if not world.bring_ups:
        return np.arange(blocks), np.zeros((runs, blocks))
    of = np.arange(blocks) * world.bring_ups // blocks
    effects = world.bring_up_effect * rng.standard_normal((runs, world.bring_ups))
    return (of if unit_is_bring_up(world.bring_ups, blocks) else np.arange(blocks)), effects[:, of]


_SHARES, _HARMS = np.linspace(0, 1, 81), np.linspace(0, 3.2, 65)


@cache
def _shifts(percentile: float) -> RegularGridInterpolator:
    """Return how far a percentile of log-normal responses moves if a share waits, by share and log wait."""
    share, harm = np.meshgrid(_SHARES, _HARMS, indexing="ij")
    hit = np.sqrt(SCATTER**2 + (0.35 * harm) ** 2)

    def above(middle: Floats, share: Floats, harm: Floats, hit: Floats) -> Floats:
        below = (1 - share) * ndtr(middle / SCATTER) + share * ndtr((middle - harm) / hit)
        return np.asarray(below - percentile)

    found = find_root(above, (np.full(share.shape, -1.0), np.full(share.shape, 6.0)), args=(share, harm, hit))
    return RegularGridInterpolator((_SHARES, _HARMS), found.x - SCATTER * ndtri(percentile))


def _shift(percentile: float, share: Floats, harm: Floats) -> Floats:
    within = np.clip(share, 0, 1), np.clip(harm, 0, _HARMS[-1])
    return np.asarray(_shifts(percentile)(within))


@dataclass(frozen=True)
class Judged:
    """The results of the rule for each run: p, interval, and how wide that may be without strangers."""

    mean: Floats
    p: Floats
    low: Floats
    high: Floats
    far: tuple[Floats, Floats]
    apart: NDArray[np.bool_]

    def passes(self) -> NDArray[np.bool_]:
        """Return whether the gate “worse by more than 5 %” passes."""
        return np.asarray((self.far[1] <= MARGIN) & ~self.apart)

    def is_none(self) -> NDArray[np.bool_]:
        """Return whether the result is “no difference”."""
        within = np.maximum(np.abs(self.far[0]), np.abs(self.far[1])) <= MARGIN
        return np.asarray(within & ~self.apart & (self.p > limits.ALPHA))


def judged(data: Data, upward: bool = False) -> Judged:
    """Judge all runs together, with the functions that judge one. `upward`: only a rise would fail."""
    nowhere = np.zeros(data.logs.shape, dtype=bool)
    fits = statistic.fits_of(data.logs, data.clean, nowhere, data.weight, data.unit)
    low, high = statistic.span(fits)
    far = statistic.stretched(low, high, statistic.dilution(data.known, data.weight, data.percentile))
    beyond = statistic.apart(statistic.effect_of(data.logs, data.unit), None if upward else -MARGIN, MARGIN)
    return Judged(fits[0].mean, statistic.largest_p(fits), low, high, far, beyond)


EFFECTS = (1.05, 1.1, 1.3)


@dataclass(frozen=True)
class Row:
    """A cell's outcome, shares of one. `power`: decided in the right direction at each of `EFFECTS`. `none`:
    equal sides with the result “no difference”, `falsely_none`: sides that differ by 10 % with it."""

    cell: Cell
    false_alarms: float
    coverage: float
    power: tuple[float, ...]
    none: float
    falsely_none: float

    @property
    def kept(self) -> bool:
        """Return whether it is within the limits; true for cells that are only shown."""
        alarms, covers = self.false_alarms <= FALSE_ALARMS_MAX, self.coverage >= COVERAGE_MIN
        return not self.cell.held or (alarms and covers and self.falsely_none <= 0.03)

    def cells(self) -> list[str]:
        """Return its line of the table."""
        shares = (self.false_alarms, self.coverage, *self.power, self.none, self.falsely_none)
        figures = [f"{100 * one:.1f}" for one in shares]
        if not self.kept:
            figures[0] = f"**{figures[0]} MISSED**"
        name = self.cell.world.name if self.cell.held else f"({self.cell.world.name})"
        return [name, f"{self.cell.cases} × {self.cell.blocks}", *figures]


def judge(cell: Cell, runs: int, seed: int = SEED) -> Row:
    """Judge a cell without an effect, and with each of `EFFECTS`."""
    seeds = [seed, *map(ord, repr(cell))]
    nothing, *some = (
        judged(simulate(cell.world, cell.cases, cell.blocks, log(ratio), runs, seeds))
        for ratio in (1.0, *EFFECTS)
    )
    right = tuple(_share((one.p <= limits.ALPHA) & (one.mean > 0)) for one in some)
    tenth = some[EFFECTS.index(1.1)]
    covered = ((tenth.low <= log(1.1)) & (log(1.1) <= tenth.high))[~np.isnan(tenth.low)]
    alarms = _share(nothing.p <= limits.ALPHA)
    return Row(cell, alarms, _share(covered), right, _share(nothing.is_none()), _share(tenth.is_none()))


def _share(of: NDArray[np.bool_]) -> float:
    return float(np.mean(of)) if of.size else float("nan")


GATES = (
    *(QUIET, LIGHT, DEMO, HEAVY, MINUTES),
    replace(DEMO, name="the treatment suffers twice as much", suffers=2.0),
    replace(LIGHT, name="the treatment disturbs a fifth of its trials", disturbs=0.2),
    BUSY,
)
RATIOS = (1.0, 1.02, 1.05, 1.1, 1.15)
FIRST, MOST = 6, limits.GATE_MOST * 6
MARGIN_MAX = 0.04
"""Share of builds at the margin that a gate may pass: 3 % plus the error of 2,000 runs."""


def gate(
    world: World, ratio: float, runs: int, percentile: float
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return (blocks used, passes, fails) of “worse by more than 5 %”: blocks are added until half of the
    interval is 0.6 of its margin, the only criterion."""
    data = simulate(world, 1, MOST, log(ratio), runs, [SEED, 11], percentile, trial_s=5.0)
    looks = [judged(data.first(blocks), upward=True) for blocks in range(FIRST, MOST + 1)]
    narrow = np.stack([(one.high - one.low) / 2 <= limits.GATE_WIDTH * MARGIN for one in looks])
    narrow[-1] = True
    last, at = narrow.argmax(axis=0), np.arange(runs)
    passes = np.stack([one.passes() for one in looks])[last, at]
    return FIRST + last, passes, np.stack([one.low > MARGIN for one in looks])[last, at]


def gates(runs: int) -> tuple[str, bool]:
    """Return the table of gates, and whether a build at the margin hardly ever passes."""
    lines, kept = [], True
    for percentile, world in product((0.5, 0.95), GATES):
        found = {ratio: gate(world, ratio, runs, percentile) for ratio in RATIOS}
        shares = [_share(found[ratio][1 if ratio <= 1.05 else 2]) for ratio in RATIOS]
        kept &= shares[2] <= MARGIN_MAX
        figures = [f"{100 * one:.0f}" for one in shares]
        lines.append([f"p{100 * percentile:g}", world.name, f"{found[1.0][0].mean():.1f}", *figures])
    columns = "percentile|world|blocks|equal passes|1.02 passes|1.05 passes|1.1 fails|1.15 fails"
    return markdown(columns, lines), kept


def success(runs: int) -> str:
    """Return a gate's results on success, by the candidate's failed share: its margin is 0.1 points."""
    lines = []
    rng = np.random.default_rng(SEED)
    for requests in (300, 3_000, 30_000, 300_000):
        cells = []
        for share in (0.0, 0.0005, 0.001, 0.01, 0.05):
            drop = -rng.binomial(requests, share, (runs, 1, FIRST)) / requests
            effect = statistic.effect_of(drop, np.arange(FIRST), least=1 / requests)
            low, high = statistic.span((effect,))
            passes = (drop == 0).all((1, 2)) | (low >= -limits.SUCCESS_MARGIN)
            cells.append(f"{100 * _share(passes):.0f} / {100 * _share(high < -limits.SUCCESS_MARGIN):.0f}")
        lines.append([f"{requests:,}", *cells])
    return markdown("requests a trial|0 % fail|0.05 %|0.1 %|1 %|5 %", lines)


PAGE = """# Claims simulated

`python -m benches.claims`: {runs:,} runs a cell, seed {seed}; one claim, trials of 1.2 s, two cores. \
All values in %.

- False alarms: the sides are equal, but a difference is claimed.
- Coverage: the 95 % interval contains 1.1, the ratio on a quiet machine.
- Limits: false alarms ≤ {alarms:g} %, coverage ≥ {coverage:g} %, 1.1 called “no difference” \
in ≤ 3 %. They don't apply to cells in brackets.

{claims}
Gates “worse by more than 5 %”, one case, trials of 5 s, {first} to {most} blocks: a gate \
stops when half of the interval is at most
{width:g} of the margin. A build at the margin (1.05) may pass in 3 %.

{gates}
Success: no request of the baseline fails, each one of the candidate fails at random; six blocks, \
margin 0.1 points. Passes / fails.

{success}
With fewer than six bring-ups a claim covers only these bring-ups: equal builds whose bring-ups differ \
by 2 % "differ" in half of all single ones.
With one case and bursts of minutes, intervals contain the ratio on *this* machine, and less often \
the ratio on a quiet one.
"""


def main() -> int:
    """Print the tables; those of all runs are written."""
    tenth = arguments(__doc__, tenth=False).tenth
    runs = RUNS // 10 if tenth else RUNS
    rows = [judge(cell, runs) for cell in cells()]
    of_gates, kept = gates(runs // 2)
    columns = "world|cases × blocks|false alarms|coverage|1.05 decided|1.1|1.3|“no difference” of equal sides|of 1.1"
    text = PAGE.format(
        runs=runs,
        seed=SEED,
        alarms=100 * FALSE_ALARMS_MAX,
        coverage=100 * COVERAGE_MIN,
        first=FIRST,
        most=MOST,
        width=limits.GATE_WIDTH,
        claims=markdown(columns, [row.cells() for row in rows]),
        gates=of_gates,
        success=success(runs),
    )
    publish(None if tenth else page(__file__), text)
    return 0 if kept and all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The rule of claims simulated, beside the one before it: false alarms, coverage and power in
designs like those that svload runs.

    python -m benches.claims            # 2,000 runs a cell, minutes on one core; writes benches/claims.md
    python -m benches.claims --tenth    # 200 runs a cell, as tests/analysis/test_claims_simulated.py does

Data are made here; judged they are by the product's own functions alone (`svload.analysis.claims`,
`svload.analysis.inference`). Exit 1 if a cell that is held to the limits misses one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.claims.evidence import shown
from svload.analysis.claims.gathered import Gathered
from svload.analysis.claims.pairs import unit_is_bring_up
from svload.analysis.claims.statistic import effect_of, half_width, p_of
from svload.analysis.contrasts import Contrast
from svload.analysis.inference import sign_flip_p, sign_test_p, t_interval
from svload.model.study import Comparison

Floats = NDArray[np.float64]
RUNS, SEED = 2_000, 20_260_101
FALSE_ALARMS_MAX, COVERAGE_MIN = 0.07, 0.93
EFFECT = log(1.05)
TRIAL_SD = 0.03
"""Scatter of a trial's logarithm: 3 %."""
CONTRAST = Contrast("simulated", Comparison(name="simulated", factor="f", baseline="a", metric="response.p50"), "b", (), False)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A design with its noise. Shares of one; `*_sd` are of logarithms."""

    name: str
    cases: int
    blocks: int
    drift_sd: float = 0.0
    """of an AR(1) with correlation 0.95 from trial to trial, and a trend of twice that over the run"""
    block_sd: float = 0.0
    """shared by a block's trials"""
    effect_block_sd: float = 0.0
    """treatment × block: what a block adds to the effect"""
    case_sd: float = 0.0
    """unequal effects of cases, their mean the effect"""
    bring_ups: int = 0
    """0: as many as blocks, and no effect of theirs"""
    bring_up_sd: float = 0.0
    """treatment × bring-up"""
    heavy: bool = False
    """t(3) instead of normal"""
    lost: tuple[float, float] = (0.0, 0.0)
    """share of the baseline's and of the treatment's trials that is refused"""
    worst: bool = False
    """the slowest of a side are refused, instead of any"""
    held: bool = True
    """to the limits; false: shown"""


def cells() -> Iterator[Cell]:
    """The designs, one a row."""
    for cases, blocks in ((1, 6), (1, 8), (8, 4), (8, 6), (8, 8)):
        yield Cell("independent noise", cases, blocks)
        yield Cell("AR(1) drift and trend", cases, blocks, drift_sd=0.05)
        yield Cell("block noise", cases, blocks, block_sd=0.1)
        yield Cell("treatment × block", cases, blocks, effect_block_sd=0.02)
        if cases > 1:
            yield Cell("unequal case effects", cases, blocks, case_sd=0.1)
        yield Cell("heavy tails, t(3)", cases, blocks, heavy=True)
        yield Cell("20 % lost at random", cases, blocks, lost=(0.2, 0.2))
        yield Cell("20 % lost by level (5, 35)", cases, blocks, lost=(0.05, 0.35))
        mixed = 0.1 if cases > 1 else 0.0
        for lost, told in (
            ((0.0, 0.0), ""),
            ((0.2, 0.2), ", 20 % lost"),
            ((0.05, 0.35), ", 20 % lost by level"),
        ):
            yield Cell(f"all of it{told}", cases, blocks, 0.05, 0.1, 0.02, mixed, heavy=True, lost=lost)
    for bring_ups in (1, 2, 3, 5, 6, 8, 12):
        yield Cell("treatment × bring-up", 4, 12, bring_ups=bring_ups, bring_up_sd=0.02, held=bring_ups >= limits.CLAIM_BRING_UPS)  # fmt: skip
    for bring_ups in (6, 12):
        yield Cell("treatment × bring-up, all of it, 20 % lost", 4, 12, 0.05, 0.1, 0.02, 0.1, bring_ups, 0.02, True, (0.2, 0.2))  # fmt: skip
    for cases, blocks in ((1, 8), (8, 6), (8, 8)):
        yield Cell(
            "the treatment's slowest 20 % lost", cases, blocks, lost=(0.0, 0.2), worst=True, held=False
        )


@dataclass(frozen=True)
class Data:
    """Simulated runs: log ratios [run, case, block], which side's trial was lost [run, case, block], each
    case's own effect [run, case]."""

    logs: Floats
    cases: Floats
    lost: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    unit: NDArray[np.int64]


def simulate(cell: Cell, effect: float, runs: int, rng: np.random.Generator) -> Data:
    """Trials in randomised blocks, in the order that they run; pairs of those that were not lost."""
    shape = (runs, cell.blocks, 2 * cell.cases)
    place = np.argsort(rng.random(shape), axis=2)
    trial = rng.standard_t(3, shape) / sqrt(3) if cell.heavy else rng.standard_normal(shape)
    trial = TRIAL_SD * trial + cell.block_sd * rng.standard_normal((runs, cell.blocks, 1))
    trial += np.take_along_axis(_drift(cell, runs, rng), place, axis=2)
    baseline, treatment = trial[:, :, : cell.cases], trial[:, :, cell.cases :].copy()
    treatment += effect + cell.effect_block_sd * rng.standard_normal((runs, cell.blocks, 1))
    case = cell.case_sd * rng.standard_normal((runs, 1, cell.cases))
    case -= case.mean(axis=2, keepdims=True)
    treatment += case
    bring_ups = cell.bring_ups or cell.blocks
    of = np.arange(cell.blocks) * bring_ups // cell.blocks
    treatment += (cell.bring_up_sd * rng.standard_normal((runs, bring_ups)))[:, of, None]
    lost = tuple(_lost(side, share, cell.worst, rng) for side, share in zip((baseline, treatment), cell.lost, strict=True))  # fmt: skip
    logs = np.where(lost[0] | lost[1], np.nan, treatment - baseline)
    unit = of if unit_is_bring_up(bring_ups, cell.blocks) else np.arange(cell.blocks)
    turned = tuple(np.swapaxes(one, 1, 2) for one in lost)
    return Data(np.swapaxes(logs, 1, 2), case[:, 0], (turned[0], turned[1]), unit)


def _drift(cell: Cell, runs: int, rng: np.random.Generator) -> Floats:
    """By run, block and place in the order: an AR(1) and a trend."""
    length, rho = cell.blocks * 2 * cell.cases, 0.95
    steps = rng.standard_normal((runs, length)) * sqrt(1 - rho**2)
    level = np.empty((runs, length))
    level[:, 0] = rng.standard_normal(runs)
    for at in range(1, length):
        level[:, at] = rho * level[:, at - 1] + steps[:, at]
    trend = np.linspace(-1, 1, length) * rng.choice([-1.0, 1.0], (runs, 1))
    return np.asarray(cell.drift_sd * (level + trend)).reshape(runs, cell.blocks, 2 * cell.cases)


def _lost(values: Floats, share: float, worst: bool, rng: np.random.Generator) -> NDArray[np.bool_]:
    if not worst:
        return np.asarray(rng.random(values.shape) < share)
    return (
        np.asarray(values > np.quantile(values, 1 - share)) if share else np.zeros(values.shape, dtype=bool)
    )


@dataclass(frozen=True)
class Rates:
    """How often a rule claims a difference, and how often its interval holds the truth, among runs that have one."""

    claimed: float
    covered: float


def new_rule(data: Data, truth: float) -> Rates:
    """Claims by pairs. All runs at once; those whose refusals lean, and the first few as a
    cross-check, as a run is judged.

    A case with pairs in fewer than two units is dropped and named, and the claim speaks of the others: where
    cases differ, the truth is the mean over these.
    """
    kept = effect_of(data.logs, data.unit).kept
    with np.errstate(invalid="ignore"):
        left = np.nan_to_num((data.cases * kept).sum(axis=1) / kept.sum(axis=1))
    data = replace(data, logs=data.logs - left[:, None, None])
    effect = effect_of(data.logs, data.unit)
    p, half = p_of(effect), half_width(effect)
    low, high = effect.mean - half, effect.mean + half
    sides = [(here & ~there).sum(axis=(1, 2)) for here, there in (data.lost, data.lost[::-1])]
    leans = np.array([sign_test_p(int(a), int(b)) < limits.LEANING for a, b in zip(*sides, strict=True)])
    for run in {*np.flatnonzero(leans), *range(min(10, len(p)))}:
        one = shown(_gathered(data, int(run), (int(sides[0][run]), int(sides[1][run]))), blocked=True)
        if not leans[run]:
            assert one.p is None if np.isnan(p[run]) else abs((one.p or 0.0) - p[run]) < 1e-9
        p[run] = np.nan if one.p is None else one.p
        low[run], high[run] = one.interval() or (np.nan, np.nan)
    known = ~np.isnan(low)
    claimed = float(np.mean(np.where(np.isnan(p), 1.0, p) <= limits.ALPHA))
    return Rates(claimed, float(np.mean((low <= truth)[known] & (truth <= high)[known])))


def _gathered(data: Data, run: int, refused: tuple[int, int]) -> Gathered:
    logs = data.logs[run]
    nothing = np.zeros_like(logs)
    lost = np.isnan(logs)
    return Gathered(
        CONTRAST, (("a", "b"),) * len(logs), tuple((block, 0) for block in range(len(data.unit))), tuple(data.unit),
        logs=logs, below=nothing, above=nothing, refused_sides=refused,
        adverse=(np.where(lost, -np.inf, np.nan), np.where(lost, np.inf, np.nan)),
    )  # fmt: skip


def old_rule(data: Data, truth: float) -> Rates:
    """Sign flips over whole blocks: a lost trial takes its block; t over the means of those that are left."""
    claimed = covered = known = 0
    for logs in data.logs:
        whole = logs.mean(axis=0)
        whole = whole[~np.isnan(whole)]
        claimed += len(whole) > 0 and sign_flip_p(whole) <= limits.ALPHA
        interval = t_interval(whole)
        if interval is not None:
            known += 1
            covered += interval[0] <= truth <= interval[1]
    return Rates(claimed / len(data.logs), covered / max(known, 1))


@dataclass(frozen=True)
class Row:
    """A cell's outcome under both rules."""

    cell: Cell
    new: tuple[float, float, float]
    old: tuple[float, float, float]

    @property
    def kept(self) -> bool:
        """Within the limits; true for what is only shown."""
        return not self.cell.held or (self.new[0] <= FALSE_ALARMS_MAX and self.new[1] >= COVERAGE_MIN)


def judge(cell: Cell, runs: int, seed: int = SEED) -> Row:
    """False alarms without an effect; coverage and power with one of 5 %."""
    rng = np.random.default_rng([seed, *map(ord, repr(cell))])
    nothing, some = simulate(cell, 0.0, runs, rng), simulate(cell, EFFECT, runs, rng)
    rates = [(rule(nothing, 0.0).claimed, *_coverage_and_power(rule(some, EFFECT))) for rule in (new_rule, old_rule)]  # fmt: skip
    return Row(cell, rates[0], rates[1])


def _coverage_and_power(rates: Rates) -> tuple[float, float]:
    return rates.covered, rates.claimed


def table(rows: list[Row], runs: int) -> str:
    lines = [
        "# Claims simulated",
        "",
        f"`python -m benches.claims`: {runs:,} runs a cell, seed {SEED}. False alarms: share of runs without "
        f"an effect in which one is claimed (p ≤ 0.05, one claim).",
        "Coverage: share of 95 % intervals that hold the true effect; power: share of runs in which an "
        "effect of 5 % is claimed. A trial scatters by 3 %.",
        f"Limits: false alarms ≤ {100 * FALSE_ALARMS_MAX:g} %, coverage ≥ {100 * COVERAGE_MIN:g} %, in every "
        f"cell that is held to them; cells in brackets are shown.",
        "Old: sign flips over whole blocks, a lost trial takes its block, t over the blocks that are left. All in %.",
        "",
        "| design | cases × blocks | bring-ups | false alarms | coverage | power | old: false alarms | "
        "coverage | power |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cell = row.cell
        name = cell.name if cell.held else f"({cell.name})"
        figures = [f"{100 * one:.1f}" for one in (*row.new, *row.old)]
        if not row.kept:
            figures[0] = f"**{figures[0]} MISSED**"
        lines.append(
            f"| {name} | {cell.cases} × {cell.blocks} | {cell.bring_ups or '–'} | {' | '.join(figures)} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--tenth", action="store_true", help="a tenth of the runs; nothing is written")
    chosen = words.parse_args()
    runs = RUNS // 10 if chosen.tenth else RUNS
    rows = []
    for cell in cells():
        rows.append(judge(cell, runs))
        print(table(rows[-1:], runs).splitlines()[-1], flush=True)
    if not chosen.tenth:
        (Path(__file__).parent / "claims.md").write_text(table(rows, runs) + NOTES, encoding="utf-8")
    return 0 if all(row.kept for row in rows) else 1


NOTES = """
Where cases differ and one is dropped for want of pairs, the truth is the mean over the cases that count, as the claim says.

What the shown cells say: below six bring-ups a claim speaks of these bring-ups alone, since equal builds whose bring-ups differ by 2 % "differ" in
half of all single ones. Where exactly the treatment's slowest trials are refused, few refusals (fewer than five, all on one side) can't be
told from chance, and a single pair of cases then claims too often; with more of them the lean is seen, its claim must hold at the worst, and its
interval reaches over the worst on either side.
Refusals that lean by level alone, whatever the value, cost power for the same reason: nothing in the data tells the two apart.
"""

if __name__ == "__main__":
    sys.exit(main())

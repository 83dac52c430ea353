"""A claim over a percentile that single trials have too few requests for: quantiles pooled over a case's
blocks, a side at a time (docs/method.md §2).

A block holds one trial of a case on either side, and that is what has too few, so that pooling by block would
add nothing; pooled with other cases it would be a quantile of a mixture, which the slowest case makes alone.
So all blocks of a case are pooled. The mean of log p99 reads 9 % low at n = 200 and 1 % at 2,000, and unequal
n would fake a difference: both sides of each pair are thinned to equal n first, so that a block weighs as
much on either side. The jackknife leaves one unit out of both sides and pools anew, as does each flip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.claims.statistic import Effect
from svload.analysis.quantiles import Ranked

Floats = NDArray[np.float64]
MOST_FLIPPED_UNITS = 10
"""Flips pool anew, each: with more units there is no check by them."""
N_DIFFERS = 0.1
"""Relative difference of n from which a high percentile is pooled and thinned."""
HIGH = 0.9
"""Percentiles from here on read low where n is small."""


class Population(Protocol):
    """A trial's requests of one metric: ascending values with their counts, and the total with all failures on top."""

    @property
    def values(self) -> Any: ...

    @property
    def counts(self) -> Any: ...

    @property
    def total(self) -> int: ...

    def thinned(self, size: int, rng: np.random.Generator) -> Population:
        """A random sample without replacement."""
        ...


Populations = Mapping[tuple[str, str], Population]
"""(trial, full name of the metric without its statistic) → its requests in the kept window."""


@dataclass(frozen=True)
class Pair:
    """A matched pair's requests. `row`: its case; `unit`: what it is of."""

    row: int
    unit: int
    baseline: Population
    treatment: Population


def equal_n(pairs: Sequence[Pair]) -> list[Pair]:
    """Each pair with both sides thinned to the smaller one's n, by seeded draws."""
    rng = np.random.default_rng(len(pairs))
    found = []
    for pair in pairs:
        size = min(pair.baseline.total, pair.treatment.total)
        sides = (
            one if one.total == size else one.thinned(size, rng) for one in (pair.baseline, pair.treatment)
        )
        found.append(Pair(pair.row, pair.unit, *sides))
    return found


def pooled_effect(pairs: Sequence[Pair], rows: int, p: float) -> Effect | None:
    """The claim's effect by pooled quantiles of pairs of equal n; None where ten requests of three trials
    don't carry a side's quantile.

    A case with pairs in fewer than two units does not count, as elsewhere.
    """
    units = sorted({pair.unit for pair in pairs})
    kept = [
        row
        for row in range(rows)
        if len({pair.unit for pair in pairs if pair.row == row}) >= limits.CASE_UNITS
    ]
    pairs = [pair for pair in pairs if pair.row in kept]
    if not kept or not all(_carried([pair for pair in pairs if pair.row == row], p) for row in kept):
        return None
    mean = _mean(pairs, kept, p)
    without = [_mean([pair for pair in pairs if pair.unit != unit], kept, p) for unit in units]
    if mean is None or any(one is None for one in without):
        return None
    left, n = np.array(without, dtype=float), len(units)
    se = np.sqrt((n - 1) / n * np.sum((left - left.mean()) ** 2)) if n > 1 else np.nan
    mask = np.array([row in kept for row in range(rows)])
    return Effect(np.asarray(mean), np.asarray(se), np.asarray(n), mask)


def own_log_ratio(thinned: Pair, whole: Pair, p: float) -> float:
    """Of the pair's own quantiles, for lists and what is made of single pairs; of the whole pair where so few
    requests as are left put one beyond the time-out. NaN where it is beyond even there."""
    means = (_mean([pair], [pair.row], p) for pair in (thinned, whole))
    return next((mean for mean in means if mean is not None), float("nan"))


def flipped_p(pairs: Sequence[Pair], rows: int, p: float) -> float | None:
    """p of the effect among those of every exchange of sides over whole units, pooled anew for each."""
    units = sorted({pair.unit for pair in pairs})
    kept = [row for row in range(rows) if any(pair.row == row for pair in pairs)]
    observed = _mean(pairs, kept, p)
    if observed is None or not 1 < len(units) <= MOST_FLIPPED_UNITS:
        return None
    hits = count = 0
    for turned in product((False, True), repeat=len(units) - 1):
        away = {unit for unit, turn in zip(units[1:], turned, strict=True) if turn}
        mean = _mean([_turned(pair) if pair.unit in away else pair for pair in pairs], kept, p)
        count += 1
        hits += mean is None or abs(mean) >= abs(observed) * (1 - 1e-9)
    return hits / count


def _turned(pair: Pair) -> Pair:
    return Pair(pair.row, pair.unit, pair.treatment, pair.baseline)


def _mean(pairs: Sequence[Pair], rows: Sequence[int], p: float) -> float | None:
    """Mean over cases of the log ratio of pooled quantiles; None where one is beyond the time-out."""
    logs = []
    for row in rows:
        mine = [pair for pair in pairs if pair.row == row]
        sides = [_quantile([getattr(pair, side) for pair in mine], p) for side in ("baseline", "treatment")]
        if not sides[0] or not sides[1]:
            return None
        logs.append(log(sides[1] / sides[0]))
    return float(np.mean(logs)) if logs else None


def _quantile(populations: Sequence[Population], p: float) -> float | None:
    return _ranked(populations).quantile(p) if populations else None


def _ranked(populations: Sequence[Population]) -> Ranked:
    values = np.concatenate([np.asarray(one.values, dtype=float) for one in populations])
    counts = np.concatenate([np.asarray(one.counts, dtype=np.int64) for one in populations])
    order = np.argsort(values, kind="stable")
    return Ranked(values[order], np.cumsum(counts[order]), sum(one.total for one in populations))


def _carried(pairs: Sequence[Pair], p: float) -> bool:
    """Ten requests of three trials lie above the quantile on either side, none of the trials giving more than half."""
    for populations in ([pair.baseline for pair in pairs], [pair.treatment for pair in pairs]):
        value = _quantile(populations, p)
        if value is None:
            return False
        above = [
            one.total - int(np.asarray(one.counts)[np.asarray(one.values) <= value].sum())
            for one in populations
        ]
        if sum(above) < limits.STRONG_TAIL or sum(n > 0 for n in above) < limits.DESCRIBE_BLOCKS or 2 * max(above) > sum(above):  # fmt: skip
            return False
    return True

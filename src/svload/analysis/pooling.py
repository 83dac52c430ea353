"""Percentiles pooled over trials: what single trials have too few requests for (docs/method.md §2, "A
percentile that was measured is shown")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from svload.analysis import limits
from svload.analysis.measures import GroupMeasures
from svload.analysis.quantiles import NS, Floats, Ints, Ranked, bucket_middles, bucket_of
from svload.analysis.view import Window, look, steps_of
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.store import TrialData


@dataclass(frozen=True)
class Distribution:
    """A population of one trial, small and mergeable: ascending values with their counts, and the
    total with all failures on top.

    `scale` turns a value into the base unit. Where a trial has more values than `limits.EXACT_VALUES`, they
    are those of histogram buckets (error ≤ 0.4 %).
    """

    values: Floats
    counts: Ints
    total: int
    scale: float = NS

    @classmethod
    def of(cls, ranked: Ranked, scale: float = NS) -> Distribution:
        """What is ranked already."""
        values, counts = ranked.values, np.diff(ranked.at_or_below, prepend=0)
        if len(values) > limits.EXACT_VALUES:
            by_bucket = np.bincount(bucket_of(values), weights=counts).astype(np.int64)
            filled = np.flatnonzero(by_bucket)
            values, counts = bucket_middles(filled), by_bucket[filled]
        return cls(values, counts, ranked.total, scale)

    def thinned(self, size: int, rng: np.random.Generator) -> Distribution:
        """A random sample of `size` of its requests without replacement, failures among
        them; itself where it has no more."""
        if size >= self.total:
            return self
        failed = self.total - int(self.counts.sum())
        drawn = rng.multivariate_hypergeometric(np.append(self.counts, failed), size)
        return Distribution(self.values, drawn[:-1], size, self.scale)

    def above(self, value: float | None) -> int:
        """How many lie above a value, failures among them; None: the failures alone."""
        finite = int(self.counts.sum())
        if value is None:
            return self.total - finite
        return self.total - int(self.counts[self.values <= value].sum())


Distributions = Mapping[tuple[str, str], Distribution]
"""(trial, full name of the metric without its statistic) → its population in the kept window."""


def distributions_of(
    trial: TrialData, config: CaseConfig, window: Window, heads: Iterable[str]
) -> dict[tuple[str, str], Distribution]:
    """The populations of a trial behind these names (`group.metric`, `group.step.metric`); those that
    it does not record are left out."""
    wanted = set(heads)
    found = {}
    for whole in look(trial, config, window) if wanted else ():
        for group in (whole, *steps_of(trial, whole)):
            measures = GroupMeasures(group)
            for head in [head for head in wanted if head.rpartition(".")[0] == group.name]:
                population = measures.population(head.rpartition(".")[2])
                if population is not None:
                    found[trial.trial, head] = Distribution.of(population.ranked, population.scale)
    return found


def pooled(distributions: Iterable[Distribution]) -> Ranked:
    """All of them as one population."""
    found = [one for one in distributions if one.total]
    if not found:
        return Ranked(np.zeros(0), np.zeros(0, dtype=np.int64), 0)
    values = np.concatenate([one.values for one in found])
    counts = np.concatenate([one.counts for one in found])
    order = np.argsort(values, kind="stable")
    return Ranked(values[order], np.cumsum(counts[order]), sum(one.total for one in found))


def pooled_quantile(
    distributions: Sequence[Distribution],
    p: float,
    size: int | None = None,
    rng: np.random.Generator | None = None,
) -> float | None:
    """Quantile `p` over several trials in base units; None beyond the time-out or of nothing.

    `size`: all are thinned to so many requests together first, each in proportion, so that two
    sides of unequal n can be compared.
    """
    found = [one for one in distributions if one.total]
    if not found:
        return None
    total = sum(one.total for one in found)
    if size is not None and size < total:
        rng = rng or np.random.default_rng(0)
        found = [one.thinned(max(round(size * one.total / total), 1), rng) for one in found]
    value = pooled(found).quantile(p)
    return None if value is None else value * found[0].scale


def carried(distributions: Sequence[Distribution], p: float) -> bool:
    """Whether at least ten requests of three trials lie above the quantile, none of them
    giving more than half of these."""
    ranked = pooled(distributions)
    if not ranked.total:
        return False
    value = ranked.quantile(p)
    above = [one.above(value) for one in distributions]
    most = max(above, default=0)
    return (
        sum(above) >= limits.STRONG_TAIL
        and sum(count > 0 for count in above) >= limits.DESCRIBE_BLOCKS
        and 2 * most <= sum(above)
    )

"""All that the trials hold for one contrast: its pairs, what was lost, and what is judged whatever disturbed
the times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from svload.analysis.claims.numbers import Number
from svload.analysis.contrasts import Cell, Contrast
from svload.model.pairs import LostPair, PairRatio

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ToPool:
    """A pair whose requests may be pooled with others': where it stands, and its two numbers."""

    row: int
    slot: int
    numbers: tuple[Number, ...]

    @property
    def trials(self) -> tuple[str, str]:
        """(baseline's, treatment's)."""
        return self.numbers[0].trial, self.numbers[1].trial

    @property
    def is_whole(self) -> bool:
        """Its requests are those that its numbers are of: none were left out."""
        return not any(number.left_out for number in self.numbers)


@dataclass
class Gathered:
    """All that the trials hold for one contrast.

    `logs` [cell, slot]: the pairs' log ratios, NaN where lost; `adverse`: the worst log ratios that refused
    pairs may have, as (lowest, highest), NaN where nothing was refused, ±inf where nothing bounds them;
    `disturbed`: (lowest, highest) with each number with or without its disturbed moments, NaN where none were
    left out. A slot is (block, batch that made it anew, or 0). `left_out_sides`: pairs that count of which more was left out of
    the baseline's, and of the treatment's numbers; `order`: the trials' places in the order that they began.
    """

    contrast: Contrast
    cells: tuple[Cell, ...] = ()
    slots: tuple[tuple[int, int], ...] = ()
    unit: tuple[int, ...] = ()
    is_bring_up: bool = False
    bring_ups: int = 0
    order: Mapping[str, int] = field(default_factory=dict)
    evidence: list[PairRatio] = field(default_factory=list)
    neighbours: list[tuple[int, PairRatio]] = field(default_factory=list)
    lost: list[LostPair] = field(default_factory=list)
    logs: Floats = field(default_factory=lambda: np.empty((0, 0)))
    below: Floats = field(default_factory=lambda: np.empty((0, 0)))
    above: Floats = field(default_factory=lambda: np.empty((0, 0)))
    adverse: tuple[Floats, Floats] = field(default_factory=lambda: (np.empty((0, 0)), np.empty((0, 0))))
    disturbed: tuple[Floats, Floats] = field(default_factory=lambda: (np.empty((0, 0)), np.empty((0, 0))))
    sides: tuple[list[list[float]], list[list[float]]] = field(default_factory=lambda: ([], []))
    success: tuple[float | None, float | None] = (None, None)
    success_differences: Floats = field(default_factory=lambda: np.empty((0, 0)))
    refused_sides: tuple[int, int] = (0, 0)
    refused_both: int = 0
    left_out_sides: tuple[int, int] = (0, 0)
    timed_out: tuple[int, int] = (0, 0)
    timed_out_of: int = 0
    late_pairs: int = 0
    overloaded: tuple[int, int] = (0, 0)
    overloaded_of: tuple[int, int] = (0, 0)
    weak_pairs: int = 0
    to_pool: list[ToPool] = field(default_factory=list)
    needs_pool: bool = False
    pooled: bool = False
    mixed: tuple[str, ...] = ()

    @property
    def beyond(self) -> int:
        """1 where every pair has the treatment alone beyond the time-out, −1 the baseline alone, else 0."""
        early, late = self.timed_out
        whole = self.timed_out_of if self.timed_out_of == len(self.cells) * self.blocks else 0
        return 1 if whole and late == whole else -1 if whole and early == whole else 0

    @property
    def blocks(self) -> int:
        """Blocks in which any of its trials was made."""
        return sum(again == 0 for _, again in self.slots)

    @property
    def units(self) -> int:
        """Independent units of the first batch."""
        return len(set(self.unit[: self.blocks]))

    @property
    def no_number(self) -> str:
        """Why there is no pair at all, where none has a number."""
        return next((one.reason for one in self.lost), "no two of its cases were part of this run")


def cell_means(found: Gathered) -> Iterator[tuple[Cell, float]]:
    """Of each cell that has a pair: its mean log ratio."""
    for cell, row in zip(found.cells, found.logs, strict=True):
        if not np.isnan(row).all():
            yield cell, float(np.nanmean(row))

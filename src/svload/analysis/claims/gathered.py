"""Everything that the trials hold for one contrast: its pairs, what was lost, and what is judged whatever
disturbed the times."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from svload.analysis.contrasts import Cell, Contrast
from svload.model.pairs import LostPair, PairRatio

Floats = NDArray[np.float64]


def _none() -> Floats:
    return np.empty((0, 0))


@dataclass
class Gathered:
    """Everything that the trials hold for one contrast, as arrays [cell, block].

    `logs`: the pairs' log ratios, NaN where there is none; `clean`: the same without the generator's delays;
    `broken`: pairs with a lost trial; `strangers` [cell, block, side]: the share of the machine that
    strangers had beside each trial, baselines and treatments in turn, NaN where it was not read; `after`
    [cell, block, side]: ½ where the treatment's level ran just before that trial, −½ where the baseline's
    did, NaN where that is not known; `step`: the relative step between the cell's possible values, 0 where
    none shows.
    """

    contrast: Contrast
    cells: tuple[Cell, ...] = ()
    blocks: tuple[int, ...] = ()
    unit: tuple[int, ...] = ()
    percentile: float = 0.5
    is_bring_up: bool = False
    bring_ups: int = 0
    evidence: list[PairRatio] = field(default_factory=list)
    lost: list[LostPair] = field(default_factory=list)
    logs: Floats = field(default_factory=_none)
    clean: Floats = field(default_factory=_none)
    broken: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), dtype=bool))
    strangers: Floats = field(default_factory=lambda: np.empty((0, 0, 2)))
    after: Floats = field(default_factory=lambda: np.empty((0, 0, 2)))
    step: Floats = field(default_factory=lambda: np.empty(0))
    trials: tuple[list[dict[str, float]], ...] = ([], [])
    success: tuple[float | None, float | None] = (None, None)
    success_differences: Floats = field(default_factory=_none)
    requests: int = 0
    unread: bool = False
    timed_out: tuple[int, int] = (0, 0)
    timed_out_of: int = 0
    late_pairs: int = 0
    overloaded: tuple[int, int] = (0, 0)
    overloaded_of: tuple[int, int] = (0, 0)
    mixed: tuple[str, ...] = ()

    @property
    def beyond(self) -> int:
        """1 where every pair has the treatment alone beyond the time-out, −1 the baseline alone, else 0."""
        early, late = self.timed_out
        whole = self.timed_out_of if self.timed_out_of == len(self.cells) * len(self.blocks) else 0
        return 1 if whole and late == whole else -1 if whole and early == whole else 0

    @property
    def units(self) -> int:
        """Independent units with at least one of its trials."""
        return len(set(self.unit))

    @property
    def no_number(self) -> str:
        """Why there is no pair at all, where no trial has a number."""
        return next((one.reason for one in self.lost), "no two of its cases were part of this run")

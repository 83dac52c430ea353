"""Do more trials fit into a search's time? By what its trials took, from seal to seal (docs/method.md §4). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from svload.model.study import CapacitySearch
from svload.model.units import show_duration

PAUSE = 5.0
"""A gap between two seals counts as this many of the trials that were expected at most: beyond that the search was
stopped meanwhile."""
_RECENT = 6
"""The longest of the last trials stands for the next one: at more load they take longer."""


@dataclass(frozen=True)
class Budget:
    """What is left of a search's time: `left_s` of `within_s`, where a trial takes `trial_s`. Or, as an older
    svload wrote it, a number of trials. Without any there is no bound."""

    within_s: float | None = None
    left_s: float = 0.0
    trial_s: float = 0.0
    most_trials: int | None = None

    def why_over(self, made: int, wanted: int) -> str:
        """Why `wanted` more trials do not fit after `made`; "" where they do. The first one always does."""
        if self.most_trials is not None and made >= self.most_trials:
            return f"the {self.most_trials:,} trials that its time allows are made"
        if self.within_s is None or not made or wanted * self.trial_s <= self.left_s:
            return ""
        return f"its time of {show_duration(self.within_s)} is over (--for)"


UNBOUNDED = Budget()


def budget_of(
    asked: CapacitySearch, sealed_s: Sequence[float | None], begun_s: float | None = None
) -> Budget:
    """What is left after trials that were sealed at these times, in the order they ran; None: not known, and taken as
    expected. `begun_s`: when the machine was its own; None: not known."""
    if asked.within_s is None or asked.trial_s is None:
        return Budget(most_trials=asked.most_trials)
    expected_s, most_s = asked.trial_s, PAUSE * asked.trial_s
    took_s = [
        max(after - before, 0.0) if before is not None and after is not None else expected_s
        for before, after in pairwise(sealed_s)
    ]
    first_s = expected_s
    if begun_s is not None and sealed_s and sealed_s[0] is not None:
        first_s = max(sealed_s[0] - begun_s, expected_s)
    spent_s = sum(min(one, most_s) for one in took_s) + (first_s if sealed_s else 0.0)
    return Budget(
        asked.within_s, asked.within_s - spent_s, min(max(took_s[-_RECENT:], default=expected_s), most_s)
    )

"""Where a limit lies against the levels that were run: it is bracketed only if its whole interval lies
inside them (docs/method.md §4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

State = Literal["bracketed", "below", "above", "edge", "none"]
"""below, above: it lies outside the levels on that side. edge: its interval reaches beyond
them. none: there is no number.
"""


@dataclass(frozen=True)
class Limit:
    """A limit with its 95 % interval, and whether the levels bracket it. `reason`: why
    there is none, or what it rests on.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    state: State = "none"
    reason: str = ""


def placed(limit: Limit, at: Sequence[float]) -> Limit:
    """The limit with its state against the levels' values `at`."""
    if limit.value is None or not at:
        return replace(limit, state="none")
    low = limit.value if limit.low is None else limit.low
    high = limit.value if limit.high is None else limit.high
    first, last = min(at), max(at)
    state: State = "edge"
    if high < first or (high <= first and low < first):
        state = "below"
    elif low > last or (low >= last and high > last):
        state = "above"
    elif low > first and high < last:
        state = "bracketed"
    return replace(limit, state=state)

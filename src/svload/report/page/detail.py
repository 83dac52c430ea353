"""How much a page can afford to draw: METHOD asks for everything, a browser for 6 MB."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_BYTES = 6_000_000


@dataclass(frozen=True)
class Detail:
    """One level of detail. `note` is what the page says about it; empty for the whole."""

    points: int
    """Points per line over time; 0: the series stand in a CSV file beside."""
    replicates: int
    """Replicates that are drawn as lines of their own beside the median or the pooled curve."""
    curve_points: int
    """Points of a percentile curve."""
    dots: int
    """Replicates that are drawn as points."""
    sentences: int
    """Sentences of a check that are shown at once."""
    passed: bool
    """Whether checks that passed tell their sentences, and each mark its trial."""
    small: bool
    """Only the main group's curve in a case; its anatomy stands with the others alone."""
    note: str = ""


LEVELS = (
    Detail(60, 8, 60, 1000, 6, True, False),
    Detail(40, 3, 60, 200, 3, True, False, "There are many cases: over time only three replicates and the median of all are drawn."),
    Detail(24, 0, 40, 60, 2, False, False, "There are many cases: over time and in curves only the median is drawn, and of checks that passed the marks alone."),
    Detail(0, 0, 40, 40, 1, False, False, "There are too many cases to draw each over time: those series are in series.csv beside this page."),
    Detail(0, 0, 24, 24, 1, False, True, "There are very many cases: their series over time are in series.csv beside this page, and of the curves only the main group's is drawn."),
)  # fmt: skip
"""From the most to the least; the first that fits is used."""

_UP_TO = (90, 125, 180, 230)


def first_level(cases: int) -> int:
    """Where to begin trying, by the number of cases drawn: what is bound to be too large is not rendered first."""
    return sum(cases > most for most in _UP_TO)

"""How much a page can afford to draw: readers want everything, browsers can handle 6 MB."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_BYTES = 8_000_000


@dataclass(frozen=True)
class Detail:
    """One level of detail. `note` is the page's remark on it; empty for full detail."""

    points: int
    """Points per line over time; 0: no series is drawn."""
    resource_points: int
    """Points per line of the panels of every monitored resource; 0: only CPU and memory are drawn."""
    carried: bool
    """Whether the page includes the numbers of its series; else all of them are in series.csv beside it."""
    replicates: int
    """Replicates drawn as separate lines beside the median or the pooled curve."""
    curve_points: int
    """Points of a percentile curve."""
    dots: int
    """Replicates drawn as points."""
    sentences: int
    """Sentences of a check that are shown unfolded."""
    passed: bool
    """Whether checks that passed show their sentences, and each mark its trial."""
    small: bool
    """Only the main group's curve in a case; its anatomy is shown only with the others."""
    flame: float
    """Smaller functions, by share of a case's samples, are not in its flame graph; 0: it has none."""
    note: str = ""


_BESIDE = "the series of every monitored resource are in series.csv next to this page"
LEVELS = (
    Detail(60, 60, True, 8, 60, 1000, 6, True, False, 0.002),
    Detail(60, 20, True, 8, 60, 1000, 6, True, False, 0.004, "There is much to draw: of monitored resources 20 points of each series are drawn at most; their CSV has all."),
    Detail(40, 0, False, 3, 60, 200, 3, True, False, 0.008, f"There are many cases: over time CPU and memory, three replicates and the median of all are drawn; {_BESIDE}."),
    Detail(24, 0, False, 0, 40, 60, 2, False, False, 0.015, f"There are many cases: over time and in curves only the median is drawn, and of checks that passed the marks alone; {_BESIDE}."),
    Detail(0, 0, False, 0, 40, 40, 1, False, False, 0, f"There are too many cases to draw each over time: {_BESIDE}, with those of load, responses and errors."),
    Detail(0, 0, False, 0, 16, 16, 1, False, True, 0, f"There are very many cases: {_BESIDE}, with those of load, responses and errors, and of the curves only the main group's is drawn."),
)  # fmt: skip

"""Detail levels from most to least; the first that fits is used. Resources' series are dropped first."""

_UP_TO = (45, 60, 125, 180, 230)


def first_level(cases: int) -> int:
    """Return the level to try first by the number of cases, so that few pages are rendered in vain."""
    return sum(cases > most for most in _UP_TO)

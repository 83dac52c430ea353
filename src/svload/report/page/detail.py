"""How much a page can afford to draw: METHOD asks for everything, a browser for 6 MB."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_BYTES = 6_000_000


@dataclass(frozen=True)
class Detail:
    """`points` per line over time (0: the series stand in a CSV file beside), `replicates` drawn singly, sentences per check.

    `note` is what the page says about it; empty for the whole.
    """

    points: int
    replicates: int
    sentences: int
    passed_sentences: bool
    order_points: int
    note: str = ""


LEVELS = (
    Detail(60, 8, 6, True, 1000),
    Detail(
        40,
        3,
        3,
        True,
        200,
        "There are many cases: over time only three replicates and the median of all are drawn.",
    ),
    Detail(
        24,
        0,
        2,
        False,
        60,
        "There are many cases: over time and in curves only the median is drawn, and of checks that passed the marks alone.",
    ),
    Detail(
        0,
        0,
        1,
        False,
        30,
        "There are too many cases to draw each over time: those series are in series.csv beside this page.",
    ),
)
"""From the most to the least; the first that fits is used."""


def first_level(cases: int) -> int:
    """Where to begin trying, by the number of cases drawn."""
    return 0 if cases <= 60 else 1 if cases <= 120 else 2

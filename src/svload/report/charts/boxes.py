"""Responses as boxes with Tukey's fences, a row per case on one logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svload.report.charts.drawing import around, row_middle, rows_drawing, rows_span, ticked
from svload.report.told.spelling import show_value

FENCE = 1.5
"""Tukey, Exploratory Data Analysis (1977): values beyond the box by more than this many interquartile ranges
are outside."""
MOST_OUTSIDE = 100
"""Maximum number of values drawn outside the fences of a case: the extreme ones."""
_LEAST_S = 1e-9
"""A logarithmic axis has no 0."""


class Box(NamedTuple):
    """Quartiles, the last values inside the fences, and all values outside."""

    low: float
    p25: float
    p50: float
    p75: float
    high: float
    outside: tuple[float, ...]


def box_of(values: NDArray[Any]) -> Box:
    """Return the box of one or more values."""
    p25, p50, p75 = (float(one) for one in np.quantile(values, (0.25, 0.5, 0.75)))
    reach = FENCE * (p75 - p25)
    inside = (values >= p25 - reach) & (values <= p75 + reach)
    return Box(
        float(values[inside].min()),
        p25,
        p50,
        p75,
        float(values[inside].max()),
        tuple(np.sort(values[~inside]).tolist()),
    )


def boxes_chart(rows: Sequence[tuple[str, Box]], axis: str, title: str, width: float) -> str:
    """Draw a box for each name; "" without any value above 0."""
    names = [name for name, _ in rows]
    shown = [[max(value, _LEAST_S) for value in (*box[:5], *_extreme(box))] for _, box in rows]
    x = around([value for values in shown for value in values], True, *rows_span(names, width))
    if x is None:
        return ""
    drawing = rows_drawing(names, x, ticked(x, 7, "time_s"), axis, title, width)
    for row, (name, values) in enumerate(zip(names, shown, strict=True)):
        middle = row_middle(row)
        low, p25, p50, p75, high = (x(value) for value in values[:5])
        drawing.line(low, middle, high, middle, "whisker")
        tip = f"{name}: median {show_value(values[2], 'time_s')}"
        drawing.rect(p25, middle - 6, max(p75 - p25, 1.0), 12, "box", tip)
        drawing.line(p50, middle - 6, p50, middle + 6, "centre")
        for value in values[5:]:
            drawing.dot(x(value), middle, "outside", 1.4)
    return drawing.render("chart wide")


def _extreme(box: Box) -> tuple[float, ...]:
    """Return the outside values to draw."""
    above = [value for value in box.outside if value > box.p75]
    below = [value for value in box.outside if value < box.p25]
    return (*below[:MOST_OUTSIDE], *above[-MOST_OUTSIDE:])

"""Values in named rows over one logarithmic axis, or in a column of the case table: replicates as points,
also in the order of the run, and responses as boxes with Tukey's fences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svload.model.results import Estimate, Grade
from svload.model.units import show_duration
from svload.report.charts.drawing import (
    Drawing,
    Scale,
    around,
    row_middle,
    rows_drawing,
    rows_span,
    ticked,
    x_labels,
    y_axis,
)
from svload.report.wording.spelling import show_interval, show_value

STRIP_WIDTH, STRIP_HEIGHT = 200, 22
_GRADE_CSS = {"VALID": "dot", "WEAK": "dot weak", "REFUSED": "dot refused"}


@dataclass(frozen=True)
class Replicate:
    """One trial's value of a metric, None if it is no number; `place` is its position in the run's order."""

    trial: str
    place: int
    value: float | None
    grade: Grade


def strip_scale(values: Sequence[float]) -> Scale | None:
    """Return the shared logarithmic scale of a column of strips."""
    return around(values, True, 8, STRIP_WIDTH - 8)


def strip_axis(scale: Scale) -> str:
    """Draw the column's axis for its heading."""
    ends = f"{show_duration(scale.low)} to {show_duration(scale.high)}"
    drawing = Drawing(STRIP_WIDTH, 16, f"logarithmic scale from {ends}")
    x_labels(drawing, scale, 11, ticked(scale, 4, "time_s"))
    return drawing.render("strip")


def strip(replicates: Sequence[Replicate], estimate: Estimate | None, scale: Scale) -> str:
    """Draw one case's points with its interval behind them."""
    drawing = Drawing(STRIP_WIDTH, STRIP_HEIGHT, _spoken(replicates, estimate))
    drawing.lines(((scale(t), 0, scale(t), STRIP_HEIGHT) for t in scale.ticks(4, "time_s")), "grid")
    _points(drawing, replicates, estimate, scale, STRIP_HEIGHT / 2)
    return drawing.render("strip")


def strips_chart(
    rows: Sequence[tuple[str, Sequence[Replicate], Estimate | None]], title: str, width: float
) -> str:
    """Draw the strips of all cases below each other, with their names; "" without a value."""
    ends = [end for _, _, one in rows if one for end in (one.low, one.high) if end is not None]
    names = [name for name, *_ in rows]
    values = [one.value for _, found, _ in rows for one in found if one.value is not None]
    x = around([*values, *ends], True, *rows_span(names, width))
    if x is None:
        return ""
    drawing = rows_drawing(names, x, ticked(x, 7, "time_s"), "median response, logarithmic", title, width)
    for row, (_, replicates, estimate) in enumerate(rows):
        _points(drawing, replicates, estimate, x, row_middle(row))
    return drawing.render("chart wide")


def _points(
    drawing: Drawing, replicates: Sequence[Replicate], estimate: Estimate | None, scale: Scale, middle: float
) -> None:
    if estimate is not None and estimate.value is not None:
        if estimate.low is not None and estimate.high is not None:
            low, high = scale(estimate.low), scale(estimate.high)
            drawing.rect(low, middle - 5, max(high - low, 1.5), 10, "band")
        drawing.line(scale(estimate.value), middle - 8, scale(estimate.value), middle + 8, "centre")
    for one in replicates:
        if one.value is not None:
            _point(drawing, scale(one.value), middle, one, 3.2)


def _point(drawing: Drawing, x: float, y: float, one: Replicate, radius: float) -> None:
    tip = f"{one.trial}: {show_value(one.value, 'time_s')}, {one.grade}"
    shape = drawing.cross if one.grade == "REFUSED" else drawing.dot
    shape(x, y, _GRADE_CSS[one.grade], radius, tip)


def _spoken(replicates: Sequence[Replicate], estimate: Estimate | None) -> str:
    known = [one.value for one in replicates if one.value is not None]
    if not known:
        return "no number"
    spread = f"{len(known)} trials from {show_duration(min(known))} to {show_duration(max(known))}"
    if estimate is None or estimate.value is None:
        return spread
    return f"{spread}; {show_interval(estimate, 'time_s')}"


ORDER_WIDTH, ORDER_HEIGHT = 380, 240


def order_chart(replicates: Sequence[Replicate], estimate: Estimate | None, label: str) -> str:
    """Draw each trial's value in the order in which the trials ran, which shows drift."""
    known = [one for one in replicates if one.value is not None]
    bounds = [v for v in ((estimate.low, estimate.high) if estimate else ()) if v is not None]
    y = around([one.value for one in known if one.value is not None] + bounds, False, ORDER_HEIGHT - 34, 10)
    if y is None:
        return ""
    left, right = 62, ORDER_WIDTH - 10
    title = f"{label} of each trial in the order they ran; {_spoken(replicates, estimate)}"
    drawing = Drawing(ORDER_WIDTH, ORDER_HEIGHT, title)
    y_axis(drawing, y, left, right, "time_s")
    if estimate is not None and estimate.low is not None and estimate.high is not None:
        drawing.rect(left, y(estimate.high), right - left, y(estimate.low) - y(estimate.high), "band")
    if estimate is not None and estimate.value is not None:
        drawing.line(left, y(estimate.value), right, y(estimate.value), "centre")
    ordered = sorted(replicates, key=lambda one: one.place)
    for number, one in enumerate(ordered):
        x = left + (number + 0.5) / len(ordered) * (right - left)
        if len(ordered) <= 12:
            drawing.text(x, ORDER_HEIGHT - 20, str(number + 1), "", "middle")
        if one.value is not None:
            _point(drawing, x, y(one.value), one, 4)
    drawing.text((left + right) / 2, ORDER_HEIGHT - 4, "trials in the order they ran", "axis", "middle")
    return drawing.render("chart order")


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
    low, high = float(values[inside].min()), float(values[inside].max())
    return Box(low, p25, p50, p75, high, tuple(np.sort(values[~inside]).tolist()))


def boxes_chart(rows: Sequence[tuple[str, Box]], title: str, width: float) -> str:
    """Draw a box for each name; "" without any value above 0."""
    names = [name for name, _ in rows]
    shown = [[max(value, _LEAST_S) for value in (*box[:5], *_extreme(box))] for _, box in rows]
    x = around([value for values in shown for value in values], True, *rows_span(names, width))
    if x is None:
        return ""
    drawing = rows_drawing(names, x, ticked(x, 7, "time_s"), "response, logarithmic", title, width)
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
    above = [value for value in box.outside if value > box.p75]
    below = [value for value in box.outside if value < box.p25]
    return (*below[:MOST_OUTSIDE], *above[-MOST_OUTSIDE:])

"""Replicates as points: on one shared scale in the case table, and in order of the run in a case's
section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svload.model.results import Estimate, Grade
from svload.model.units import Dimension
from svload.report.charts.scales import Scale, around, own_unit_texts, tick_texts
from svload.report.charts.svg import Drawing
from svload.report.told.spelling import show_interval, show_value

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


_LETTER, _BETWEEN = 6.0, 3.0


def strip_axis(scale: Scale, dimension: Dimension) -> str:
    """Draw the column's axis for its heading."""
    drawing = Drawing(
        STRIP_WIDTH,
        16,
        f"logarithmic scale from {show_value(scale.low, dimension)} to {show_value(scale.high, dimension)}",
    )
    ticks = scale.ticks(4)
    end = -_BETWEEN
    for tick, text in zip(ticks, own_unit_texts(ticks, dimension), strict=True):
        half = _LETTER * len(text) / 2
        at = min(max(scale(tick), half), STRIP_WIDTH - half)
        if at - half >= end + _BETWEEN:  # else it would overlap the one before
            drawing.text(at, 11, text, "", "middle")
            end = at + half
    return drawing.render("strip")


def strip(
    replicates: Sequence[Replicate], estimate: Estimate | None, scale: Scale, dimension: Dimension
) -> str:
    """Draw one case's points with its interval behind them."""
    known = [one for one in replicates if one.value is not None]
    drawing = Drawing(STRIP_WIDTH, STRIP_HEIGHT, _spoken(replicates, estimate, dimension))
    middle = STRIP_HEIGHT / 2
    drawing.lines(((scale(t), 0, scale(t), STRIP_HEIGHT) for t in scale.ticks(4)), "grid")
    if estimate is not None and estimate.value is not None:
        if estimate.low is not None and estimate.high is not None:
            drawing.rect(
                scale(estimate.low),
                middle - 5,
                max(scale(estimate.high) - scale(estimate.low), 1.5),
                10,
                "band",
            )
        drawing.line(scale(estimate.value), middle - 8, scale(estimate.value), middle + 8, "centre")
    for one in known:
        assert one.value is not None
        tip = f"{one.trial}: {show_value(one.value, dimension)}, {one.grade}"
        shape = drawing.cross if one.grade == "REFUSED" else drawing.dot
        shape(scale(one.value), middle, _GRADE_CSS[one.grade], 3.2, tip)
    return drawing.render("strip")


def _spoken(replicates: Sequence[Replicate], estimate: Estimate | None, dimension: Dimension) -> str:
    known = [one.value for one in replicates if one.value is not None]
    if not known:
        return "no number"
    spread = (
        f"{len(known)} trials from {show_value(min(known), dimension)} to {show_value(max(known), dimension)}"
    )
    return (
        f"{spread}; {show_interval(estimate, dimension)}"
        if estimate and estimate.value is not None
        else spread
    )


ORDER_WIDTH, ORDER_HEIGHT = 380, 240


def order_chart(
    replicates: Sequence[Replicate], estimate: Estimate | None, dimension: Dimension, label: str
) -> str:
    """Draw each trial's value in the order in which the trials ran, which shows drift."""
    known = [one for one in replicates if one.value is not None]
    bounds = [v for v in ((estimate.low, estimate.high) if estimate else ()) if v is not None]
    y = around([one.value for one in known if one.value is not None] + bounds, False, ORDER_HEIGHT - 34, 10)
    if y is None:
        return ""
    left, right = 62, ORDER_WIDTH - 10
    drawing = Drawing(
        ORDER_WIDTH,
        ORDER_HEIGHT,
        f"{label} of each trial in the order they ran; {_spoken(replicates, estimate, dimension)}",
    )
    ticks = y.ticks(5, dimension)
    drawing.lines(((left, y(t), right, y(t)) for t in ticks), "grid")
    for tick, text in zip(ticks, tick_texts(ticks, dimension), strict=True):
        drawing.text(left - 6, y(tick) + 4, text, "", "end")
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
            tip = f"{one.trial}: {show_value(one.value, dimension)}, {one.grade}"
            shape = drawing.cross if one.grade == "REFUSED" else drawing.dot
            shape(x, y(one.value), _GRADE_CSS[one.grade], 4, tip)
    drawing.text((left + right) / 2, ORDER_HEIGHT - 4, "trials in the order they ran", "axis", "middle")
    return drawing.render("chart order")

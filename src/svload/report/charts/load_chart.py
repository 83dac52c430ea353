"""Throughput and response over the levels of a load: points with intervals, the asymptotic bounds, the
Universal Scalability Law, and the limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from svload.model.load_curve import LoadCurve, LoadLimit
from svload.model.units import Dimension
from svload.report.charts.drawing import Drawing, Scale, apart, around, x_axis, y_axis
from svload.report.told.curve_rows import axis_of, drawn_limits, limit_dimension, lines_of
from svload.report.told.spelling import show_value

WIDTH, PANEL = 860, 176.0
_LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 70, 14, 34, 34, 40
_LABEL_PX = 130.0
_CSS = {"N*": "c1", "Z*": "c1", "full rate": "c1", "N_break": "c2", "rate_break": "c2", "N_peak": "c3"}
Side = Literal["throughput", "response"]
SIDES: dict[Side, str] = {"throughput": "throughput", "response": "mean response"}


def levels_chart(
    curve: LoadCurve, title: str, sides: Sequence[Side] = tuple(SIDES), width: float = WIDTH
) -> str:
    """Return a panel for each side as SVG; "" without points. Both axes are linear from 0, so that the bounds
    are straight lines."""
    what, dimension = axis_of(curve)
    limits = drawn_limits(curve)
    at = [point.at for point in curve.points] + [
        end for one in limits for end in (one.value, one.high) if end
    ]
    last = max(point.at for point in curve.points)
    x = around([value for value in at if value <= 1.3 * last], False, _LEFT, width - _RIGHT, zero=True)
    if x is None:
        return ""
    bottom = _TOP + len(sides) * (PANEL + _GAP) - _GAP
    drawing = Drawing(width, bottom + _BOTTOM, title)
    for limit in limits:
        _band(drawing, x, limit, bottom)
    for number, side in enumerate(sides):
        top = _TOP + number * (PANEL + _GAP)
        _panel(drawing, x, (top + PANEL, top), curve, side)
    _limits(drawing, x, limits, bottom)
    x_axis(drawing, x, bottom, dimension, what if what == curve.factor else f"{what} ({curve.factor})")
    return drawing.render("chart wide")


def _panel(drawing: Drawing, x: Scale, place: tuple[float, float], curve: LoadCurve, side: Side) -> None:
    bottom, top = place
    lines, rate = lines_of(curve), side == "throughput"
    bound, law = (lines.most_rps, lines.scalability) if rate else (lines.least_s, ())
    dimension: Dimension = "rate_rps" if rate else "time_s"
    points = [
        (p, p.throughput_rps, p.throughput_low, p.throughput_high) if rate
        else (p, p.response_s, p.response_low, p.response_high)
        for p in curve.points
    ]  # fmt: skip
    runs = [(p.at, run[0 if rate else 1]) for p in curve.points for run in p.runs]
    values = [value for _, *ends in points for value in ends if value is not None]
    y = around([*values, *(value for _, value in runs)], False, bottom, top, zero=True)
    assert y is not None
    y_axis(drawing, y, x.start, x.end, dimension)
    drawing.text(x.start, top - 5, SIDES[side], "name")
    with drawing.field(x, y, axis_of(curve)[1], dimension):
        for pairs, css, name in (
            (bound, "c1 fine", "bound"),
            (law, "c3 rep main", "Universal Scalability Law"),
        ):
            drawing.path([[(x(at), y(value)) for at, value in pairs if value <= y.high]], css, name)
    drawing.path([[(x(p.at), y(value)) for p, value, *_ in points]], "c0 main")
    for at, value in runs:
        drawing.dot(x(at), y(value), "dot", 1.8)
    for p, value, low, high in points:
        if low is not None and high is not None:
            drawing.line(x(p.at), y(max(low, y.low)), x(p.at), y(high), "whisker")
        tip = f"{p.case}: {show_value(value, dimension)} at {p.level}"
        drawing.dot(x(p.at), y(value), "mark", 3.4, tip)


def _band(drawing: Drawing, x: Scale, limit: LoadLimit, bottom: float) -> None:
    """Draw the interval of N*, or of its substitute, behind everything."""
    if _CSS[limit.name] == "c1" and limit.low is not None and limit.high is not None:
        low, high = x(max(limit.low, x.low)), x(min(limit.high, x.high))
        drawing.rect(low, _TOP, high - low, bottom - _TOP, "cut", f"95 % interval of {limit.name}")


def _limits(drawing: Drawing, x: Scale, limits: Sequence[LoadLimit], bottom: float) -> None:
    """Draw a line at each limit, with its name on top."""
    at = [x(one.value or 0.0) for one in limits]
    room = min(_LABEL_PX, (x.end - x.start) / max(len(limits), 1))
    places = apart(at, room, x.start + room / 2, x.end - room / 2)
    for one, line, label in zip(limits, at, places, strict=True):
        css, weight = _CSS[one.name], "main" if one.state == "bracketed" else "fine"
        drawing.line(line, _TOP, line, bottom, f"{css} {weight}")
        text = f"{one.name} {show_value(one.value, limit_dimension(one.name))}"
        drawing.text(label, 12, text, f"name {css.replace('c', 'f')}", "middle")

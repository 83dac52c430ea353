"""Throughput and response over the levels of a load: points with intervals, the asymptotic bounds, the
Universal Scalability Law, and the limits.
"""

from __future__ import annotations

from collections.abc import Sequence

from svload.model.load_curve import LoadCurve, LoadLimit
from svload.model.units import Dimension
from svload.report.charts.scales import Scale, apart, around, tick_texts
from svload.report.charts.svg import Drawing
from svload.report.told.curve_rows import axis_of, drawn_limits, lines_of
from svload.report.told.spelling import show_value

WIDTH, HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 70, 14, 34, 34, 40
_PANEL = (HEIGHT - _TOP - _GAP - _BOTTOM) / 2
_LABEL_PX = 130.0
_CSS = {"N*": "c1", "Z*": "c1", "full rate": "c1", "N_break": "c2", "rate_break": "c2", "N_peak": "c3"}

Dots = Sequence[tuple[float, float, float | None, float | None, str]]
"""Points as (position, value, low, high, text on hovering)."""


def levels_chart(curve: LoadCurve, title: str) -> str:
    """Return both panels as SVG; "" without points. Both axes are linear from 0, so that the bounds are
    straight lines."""
    what, dimension = axis_of(curve)
    limits = drawn_limits(curve)
    at = [point.at for point in curve.points] + [
        end for one in limits for end in (one.value, one.high) if end
    ]
    last = max(point.at for point in curve.points)
    x = around([value for value in at if value <= 1.3 * last], False, _LEFT, WIDTH - _RIGHT, zero=True)
    if x is None:
        return ""
    drawing = Drawing(WIDTH, HEIGHT, title)
    for limit in limits:
        _band(drawing, x, limit)
    lines = lines_of(curve)
    throughput = [
        (
            p.at,
            p.throughput_rps,
            p.throughput_low,
            p.throughput_high,
            f"{p.case}: {show_value(p.throughput_rps, 'rate_rps')} at {p.level}",
        )
        for p in curve.points
    ]
    response = [
        (
            p.at,
            p.response_s,
            p.response_low,
            p.response_high,
            f"{p.case}: {show_value(p.response_s, 'time_s')} at {p.level}",
        )
        for p in curve.points
    ]
    runs = [[(p.at, run[place]) for p in curve.points for run in p.runs] for place in (0, 1)]
    middle = _TOP + _PANEL
    _panel(
        drawing,
        x,
        (middle, _TOP),
        "throughput",
        "rate_rps",
        throughput,
        runs[0],
        lines.most_rps,
        lines.scalability,
    )
    _panel(
        drawing,
        x,
        (HEIGHT - _BOTTOM, middle + _GAP),
        "mean response",
        "time_s",
        response,
        runs[1],
        lines.least_s,
    )
    _limits(drawing, x, limits)
    ticks = x.ticks(9, dimension)
    for tick, text in zip(ticks, tick_texts(ticks, dimension), strict=True):
        drawing.text(x(tick), HEIGHT - _BOTTOM + 15, text, "", "middle")
    drawing.text(
        (_LEFT + WIDTH - _RIGHT) / 2,
        HEIGHT - 5,
        what if what == curve.factor else f"{what} ({curve.factor})",
        "axis",
        "middle",
    )
    return drawing.render("chart wide")


def _panel(
    drawing: Drawing,
    x: Scale,
    place: tuple[float, float],
    title: str,
    dimension: Dimension,
    points: Dots,
    runs: Sequence[tuple[float, float]],
    bound: Sequence[tuple[float, float]],
    law: Sequence[tuple[float, float]] = (),
) -> None:
    bottom, top = place
    values = [value for _, *ends, _ in points for value in ends if value is not None]
    y = around([*values, *(value for _, value in runs)], False, bottom, top, zero=True)
    assert y is not None
    ticks = y.ticks(5, dimension)
    drawing.lines(((_LEFT, y(tick), WIDTH - _RIGHT, y(tick)) for tick in ticks), "grid")
    for tick, text in zip(ticks, tick_texts(ticks, dimension), strict=True):
        drawing.text(_LEFT - 6, y(tick) + 4, text, "", "end")
    drawing.text(_LEFT, top - 5, title, "name")
    inside = [(x(at), y(value)) for at, value in bound if value <= y.high]
    drawing.path([inside], "c1 fine")
    drawing.path([[(x(at), y(value)) for at, value in law if value <= y.high]], "c3 rep main")
    drawing.path([[(x(at), y(value)) for at, value, *_ in points]], "c0 main")
    for at, value in runs:
        drawing.dot(x(at), y(value), "dot", 1.8)
    for at, value, low, high, tip in points:
        if low is not None and high is not None:
            drawing.line(x(at), y(max(low, y.low)), x(at), y(high), "whisker")
        drawing.dot(x(at), y(value), "mark", 3.4, tip)


def _band(drawing: Drawing, x: Scale, limit: LoadLimit) -> None:
    """Draw the interval of N*, or of its substitute, behind everything."""
    if _CSS[limit.name] == "c1" and limit.low is not None and limit.high is not None:
        low, high = x(max(limit.low, x.low)), x(min(limit.high, x.high))
        drawing.rect(low, _TOP, high - low, HEIGHT - _BOTTOM - _TOP, "cut", f"95 % interval of {limit.name}")


def _limits(drawing: Drawing, x: Scale, limits: Sequence[LoadLimit]) -> None:
    """Draw a line at each limit, with its name on top."""
    at = [x(one.value or 0.0) for one in limits]
    places = apart(at, _LABEL_PX, _LEFT + _LABEL_PX / 2, WIDTH - _RIGHT - _LABEL_PX / 2)
    for one, line, label in zip(limits, at, places, strict=True):
        drawing.line(
            line,
            _TOP,
            line,
            HEIGHT - _BOTTOM,
            f"{_CSS[one.name]} main" if one.state == "bracketed" else f"{_CSS[one.name]} fine",
        )
        dimension: Dimension = "time_s" if one.name == "Z*" else "rate_rps" if "rate" in one.name else "count"
        drawing.text(
            label,
            12,
            f"{one.name} {show_value(one.value, dimension)}",
            f"name {_CSS[one.name].replace('c', 'f')}",
            "middle",
        )

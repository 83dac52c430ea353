"""Charts over load: throughput and response over its levels with the asymptotic bounds, the Universal
Scalability Law and the limits; the course of a search, each trial at its load in the order in which they ran,
over the known interval of the limit; and what limited each case of two factors, one coloured cell per case,
the load along the top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from svload.model.capacity import CapacityResult, CapacityTrial
from svload.model.load_curve import LoadCurve, LoadLimit
from svload.model.units import Dimension
from svload.report.charts.drawing import NARROW, Drawing, Scale, apart, around, fitting, x_axis, y_axis
from svload.report.wording.curve_rows import axis_of, drawn_limits, limit_dimension, lines_of
from svload.report.wording.spelling import show_value

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


SEARCH_WIDTH, _SEARCH_HEIGHT = 860, 300
_SEARCH_LEFT, _SEARCH_TOP, _SEARCH_BOTTOM = 70, 14, 40
_ENDS = (150, 100)
"""Room on the right for both ends of the answer, in a wide and in a narrow drawing."""
_RADIUS, _LOOK = 3.6, 2.2
_APART = 13.0
_LEAST_X = 8
"""Minimum number of places on the axis of trials."""
Piece = tuple[float, float, float, float]


def search_chart(found: CapacityResult, title: str, width: float = SEARCH_WIDTH) -> str:
    """Return the chart as SVG, loads on a logarithmic axis; "" without trials."""
    y = around([float(one.load) for one in found.trials], True, _SEARCH_HEIGHT - _SEARCH_BOTTOM, _SEARCH_TOP)
    if y is None:
        return ""
    drawing = Drawing(width, _SEARCH_HEIGHT, title)
    right = width - _ENDS[width <= NARROW]
    x = Scale(0.5, max(len(found.trials), _LEAST_X) + 0.5, _SEARCH_LEFT, right)
    for piece in _known(found, x, y):
        drawing.rect(*piece, "band")
    y_axis(drawing, y, _SEARCH_LEFT, right, "count", 7)
    drawing.text(_SEARCH_LEFT - 6, _SEARCH_HEIGHT - _SEARCH_BOTTOM + 15, found.over, "axis", "end")
    for number, one in enumerate(found.trials, 1):
        _mark(drawing, x(number), y(one.load), one)
    for number in _numbers(len(found.trials), 16 if width > NARROW else 8):
        drawing.text(x(number), _SEARCH_HEIGHT - _SEARCH_BOTTOM + 15, str(number), "", "middle")
    drawing.text(
        (_SEARCH_LEFT + right) / 2, _SEARCH_HEIGHT - 5, "trial, in the order they ran", "axis", "middle"
    )
    _answer(drawing, found, y, right)
    return drawing.render("chart wide")


def _mark(drawing: Drawing, x: float, y: float, one: CapacityTrial) -> None:
    radius = _LOOK if one.look else _RADIUS
    look = " (a first look)" if one.look else ""
    tip = f"{one.trial}: {one.outcome}{look}"
    if one.outcome == "breaks":
        drawing.cross(x, y, "mark refused", radius, tip)
    else:
        drawing.dot(x, y, "mark" if one.outcome == "holds" else "mark weak", radius, tip)


def _known(found: CapacityResult, x: Scale, y: Scale) -> Iterator[Piece]:
    """Yield the limit's interval after each trial up to the next, if it had one."""
    for number, one in enumerate(found.trials, 1):
        if one.low is not None and one.high is not None:
            top, bottom = (
                min(max(y(end), _SEARCH_TOP), _SEARCH_HEIGHT - _SEARCH_BOTTOM) for end in (one.high, one.low)
            )
            yield x(number), top, x(min(number + 1, x.high)) - x(number), max(bottom - top, 1.0)


def _answer(drawing: Drawing, found: CapacityResult, y: Scale, right: float) -> None:
    """Draw a line at each end, with its load; the two labels are kept apart."""
    ends = [(found.high, "c1", "at most"), (found.low, "c2", "at least")]
    shown = [(load, css, word) for load, css, word in ends if load is not None]
    at = [y(load) for load, _, _ in shown]
    if len(at) == 2 and at[1] - at[0] < _APART:
        middle = sum(at) / 2
        labels = [middle - _APART / 2, middle + _APART / 2]
    else:
        labels = at
    for (load, css, word), line, label in zip(shown, at, labels, strict=True):
        drawing.line(_SEARCH_LEFT, line, right, line, f"{css} fine")
        drawing.text(right + 8, label + 4, f"{load:,} {word}", f"name {css.replace('c', 'f')}")


def _numbers(count: int, most: int) -> list[int]:
    step = next((one for one in (1, 2, 5, 10, 20, 50, 100) if count / one <= most), 200)
    return list(range(step, count + 1, step)) if step > 1 else list(range(1, count + 1))


GRID_WIDTH = 860
_GRID_LEFT, _GRID_TOP, _ROW = 120, 40, 34
COLOURS: Mapping[str, int] = {
    "disk": 0,
    "storage": 0,
    "cpu": 1,
    "network": 2,
    "memory": 3,
    "workers": 4,
    "connections": 4,
    "accept queue": 4,
    "descriptors": 4,
    "lock": 5,
}
"""Resource → its colour's number; resources of one colour differ by their word."""


@dataclass(frozen=True)
class GridCell:
    """One case: the word that it shows, whether that limit was reached, and the text on hovering."""

    resource: str
    gave_way: bool
    tip: str
    refused: bool = False
    marked: bool = False
    """the first level at or above N*"""


def limit_grid(
    rows: Sequence[tuple[str, Sequence[GridCell | None]]], columns: Sequence[str], axis: str, title: str
) -> str:
    """Draw rows and columns in the study's order; None: the case was not run. "" without any cell."""
    if not rows or not columns:
        return ""
    drawing = Drawing(GRID_WIDTH, _GRID_TOP + len(rows) * _ROW + 6, title)
    width = (GRID_WIDTH - _GRID_LEFT) / len(columns)
    drawing.text(_GRID_LEFT + (GRID_WIDTH - _GRID_LEFT) / 2, 13, axis, "axis", "middle")
    for place, name in enumerate(columns):
        drawing.text(_GRID_LEFT + (place + 0.5) * width, _GRID_TOP - 8, fitting(name, width), "", "middle")
    for number, (name, cells) in enumerate(rows):
        y = _GRID_TOP + number * _ROW
        drawing.text(_GRID_LEFT - 8, y + _ROW / 2 + 4, fitting(name, _GRID_LEFT - 10), "name", "end")
        for place, cell in enumerate(cells):
            if cell is not None:
                _draw(drawing, cell, _GRID_LEFT + place * width, y, width)
    return drawing.render("chart wide")


def _draw(drawing: Drawing, cell: GridCell, x: float, y: float, width: float) -> None:
    colour = f"g{COLOURS[cell.resource]}" if cell.gave_way and cell.resource in COLOURS else "gn"
    drawing.rect(x + 1, y + 1, width - 2, _ROW - 2, colour, cell.tip)
    if cell.refused:
        drawing.hatch(x + 1, y + 1, width - 2, _ROW - 2)
    word = ("✗ " if cell.refused else "") + cell.resource + (" ◂" if cell.marked else "")
    drawing.text(x + width / 2, y + _ROW / 2 + 4, fitting(word, width - 4), "frame", "middle")

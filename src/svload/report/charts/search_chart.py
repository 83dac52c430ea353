"""The course of a search: each trial at its load, in the order in which they ran, over the known interval of
the limit."""

from __future__ import annotations

from collections.abc import Iterator

from svload.model.capacity import CapacityResult, CapacityTrial
from svload.report.charts.drawing import NARROW, Drawing, Scale, around, y_axis

WIDTH, HEIGHT = 860, 300
_LEFT, _TOP, _BOTTOM = 70, 14, 40
_ENDS = (150, 100)
"""Room on the right for both ends of the answer, in a wide and in a narrow drawing."""
_RADIUS, _LOOK = 3.6, 2.2
_APART = 13.0
_LEAST_X = 8
"""Minimum number of places on the axis of trials."""
Piece = tuple[float, float, float, float]


def search_chart(found: CapacityResult, title: str, width: float = WIDTH) -> str:
    """Return the chart as SVG, loads on a logarithmic axis; "" without trials."""
    y = around([float(one.load) for one in found.trials], True, HEIGHT - _BOTTOM, _TOP)
    if y is None:
        return ""
    drawing = Drawing(width, HEIGHT, title)
    right = width - _ENDS[width <= NARROW]
    x = Scale(0.5, max(len(found.trials), _LEAST_X) + 0.5, _LEFT, right)
    for piece in _known(found, x, y):
        drawing.rect(*piece, "band")
    y_axis(drawing, y, _LEFT, right, "count", 7)
    drawing.text(_LEFT - 6, HEIGHT - _BOTTOM + 15, found.over, "axis", "end")
    for number, one in enumerate(found.trials, 1):
        _mark(drawing, x(number), y(one.load), one)
    for number in _numbers(len(found.trials), 16 if width > NARROW else 8):
        drawing.text(x(number), HEIGHT - _BOTTOM + 15, str(number), "", "middle")
    drawing.text((_LEFT + right) / 2, HEIGHT - 5, "trial, in the order they ran", "axis", "middle")
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
            top, bottom = (min(max(y(end), _TOP), HEIGHT - _BOTTOM) for end in (one.high, one.low))
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
        drawing.line(_LEFT, line, right, line, f"{css} fine")
        drawing.text(right + 8, label + 4, f"{load:,} {word}", f"name {css.replace('c', 'f')}")


def _numbers(count: int, most: int) -> list[int]:
    """Return the places of labels on the axis of trials."""
    step = next((one for one in (1, 2, 5, 10, 20, 50, 100) if count / one <= most), 200)
    return list(range(step, count + 1, step)) if step > 1 else list(range(1, count + 1))

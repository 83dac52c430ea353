"""Percentile curves on a logarithmic tail: from p0 to where the sample ends, with the headline
percentiles and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from svload.report.charts.drawing import (
    LETTER,
    TAIL_STOPS,
    Drawing,
    Key,
    Scale,
    apart,
    around,
    draw_key,
    fitting,
    key_height,
    tail_position,
    y_axis,
)
from svload.report.data.digest import Curve
from svload.report.wording.numbers import Number

WIDTH, HEIGHT = 380, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 12, 38
_NAME_PX, _MOST_NAME_PX = 11.0, 90.0
"""Height of a name at a line's end, and the most width it may take."""
_GRID = np.unique(np.concatenate([np.linspace(0, 0.9, 19), 1 - 10.0 ** -np.linspace(1, 5, 41)]))


@dataclass(frozen=True)
class TailLine:
    """One curve: `css` its colour and weight, `name` for the pointer, `label` written at its end."""

    curve: Curve
    css: str
    name: str = ""
    label: str = ""


@dataclass(frozen=True)
class TailMark:
    """A headline percentile: its number, or why there is none."""

    p: float
    estimate: Number


def tail_chart(
    lines: Sequence[TailLine], marks: Sequence[TailMark], title: str, points: int = 60, *,
    width: float = WIDTH, height: float = HEIGHT, key: Key = (), name: str = "",
) -> str:  # fmt: skip
    """Return the chart as SVG. The area beyond the last percentile with a number is grey, if one has none."""
    shown = [(line, *curve_points(line.curve, points)) for line in lines]
    values = [value for _, _, ys in shown for value in ys] + [
        v for mark in marks for v in _numbers(mark.estimate)
    ]
    top = _TOP + key_height(key, width, name)
    bottom = top - _TOP + height - _BOTTOM
    y = around(values, True, bottom, top)
    if y is None:
        return ""
    longest = max((ps[-1] for _, ps, _ in shown if len(ps)), default=0.99)
    reach = min(max(longest, max((mark.p for mark in marks), default=0.0), 0.99), 0.99999)
    names = max((len(line.label) * LETTER + 14 for line in lines if line.label), default=0.0)
    right = width - max(_RIGHT, min(names, _MOST_NAME_PX))
    x = Scale(0.0, tail_position(reach), _LEFT, right)
    drawing = Drawing(width, bottom + _BOTTOM, title)
    draw_key(drawing, key, name, _LEFT)
    known = max((mark.p for mark in marks if mark.estimate.value is not None), default=None)
    beyond = [mark for mark in marks if mark.estimate.value is None and (known is None or mark.p > known)]
    if beyond:
        begin = x(tail_position(known)) if known is not None else _LEFT
        drawing.rect(begin, top, right - begin, bottom - top, "few")
    y_axis(drawing, y, _LEFT, right, "time_s", 6)
    _percentiles(drawing, x, y, reach)
    with drawing.field(x, y, "percentile", "time_s"):
        for line, ps, ys in shown:
            run = [(x(tail_position(p)), y(value)) for p, value in zip(ps, ys, strict=True)]
            drawing.path([run], line.css, line.name)
    _labels(
        drawing, [(line, run[1][-1], run[2][-1]) for run in shown if (line := run[0]).label and run[1]], x, y
    )
    for mark in marks:
        if mark.estimate.value is not None:
            _mark(drawing, x(tail_position(mark.p)), y, mark)
    if beyond:
        drawing.text(right - 4, top + 12, beyond[0].estimate.text, "note", "end")
    return drawing.render("chart tail")


def _numbers(estimate: Number) -> list[float]:
    return [value for value in (estimate.value, estimate.low, estimate.high) if value is not None]


def curve_points(curve: Curve, points: int) -> tuple[list[float], list[float]]:
    """Return percentiles and values by nearest rank, up to the largest that the sample supports."""
    if not curve.total or not len(curve.values_s):
        return [], []
    step = -(-len(_GRID) // points)
    grid = _GRID[1 - 1 / curve.total >= _GRID][::step] if curve.total > 1 else _GRID[:1]
    ranks = np.maximum(np.ceil(grid * curve.total - 1e-9 * curve.total), 1)
    grid, ranks = grid[ranks <= curve.at_or_below[-1]], ranks[ranks <= curve.at_or_below[-1]]
    return grid.tolist(), curve.values_s[np.searchsorted(curve.at_or_below, ranks)].tolist()


def _percentiles(drawing: Drawing, x: Scale, y: Scale, reach: float) -> None:
    stops = [(x(tail_position(p)), p) for p in TAIL_STOPS if p <= reach + 1e-9]
    drawing.lines(((at, y.end, at, y.start) for at, _ in stops), "grid")
    for at, p in stops:
        last = at > drawing.width - 2 * _RIGHT
        drawing.text(
            at + (_RIGHT if last else 0), y.start + 15, f"{100 * p:g}", "", "end" if last else "middle"
        )
    drawing.text((x.start + x.end) / 2, y.start + 32, "percentile (logarithmic tail)", "axis", "middle")


def _labels(drawing: Drawing, ends: Sequence[tuple[TailLine, float, float]], x: Scale, y: Scale) -> None:
    """Write each line's label on the right, near its end and apart from the others, with a thin line between."""
    places = apart([y(value) for *_, value in ends], _NAME_PX, y.end + 4, y.start)
    for (line, p, value), place in zip(ends, places, strict=True):
        colour = line.css.split()[0]
        drawing.path(
            [[(x(tail_position(p)), y(value)), (x.end, y(value)), (x.end + 8, place)]], f"{colour} rep"
        )
        drawing.text(
            x.end + 10, place + 4, fitting(line.label, drawing.width - x.end - 10), colour.replace("c", "f")
        )


def _mark(drawing: Drawing, x: float, scale: Scale, mark: TailMark) -> None:
    estimate = mark.estimate
    assert estimate.value is not None
    if estimate.low is not None and estimate.high is not None:
        drawing.line(x, scale(estimate.low), x, scale(estimate.high), "whisker")
    tip = f"p{100 * mark.p:g}: {estimate.whole} {estimate.mark}".rstrip()
    if estimate.refused:
        drawing.cross(x, scale(estimate.value), "mark refused", 3.5, tip)
    else:
        drawing.dot(x, scale(estimate.value), "mark weak" if estimate.weak else "mark", 3.5, tip)

"""Percentile curves on a logarithmic tail: from p0 to where the sample ends, with the headline
percentiles and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from svload.report.charts.scales import TAIL_STOPS, Scale, around, own_unit_texts, tail_position
from svload.report.charts.svg import Drawing
from svload.report.data.digest import Curve
from svload.report.told.numbers import Number

WIDTH, HEIGHT = 380, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 12, 38
_GRID = np.unique(np.concatenate([np.linspace(0, 0.9, 19), 1 - 10.0 ** -np.linspace(1, 5, 41)]))


@dataclass(frozen=True)
class TailLine:
    """One curve; `css` chooses its colour and weight."""

    curve: Curve
    css: str


@dataclass(frozen=True)
class TailMark:
    """A headline percentile: its number, or why there is none."""

    p: float
    estimate: Number


def tail_chart(lines: Sequence[TailLine], marks: Sequence[TailMark], title: str, points: int = 60) -> str:
    """Return the chart as SVG. The area beyond the first percentile without a number is hatched: too few
    requests."""
    shown = [(line.css, *curve_points(line.curve, points)) for line in lines]
    values = [value for _, _, ys in shown for value in ys] + [
        v for mark in marks for v in _numbers(mark.estimate)
    ]
    y = around(values, True, HEIGHT - _BOTTOM, _TOP)
    if y is None:
        return ""
    longest = max((ps[-1] for _, ps, _ in shown if len(ps)), default=0.99)
    reach = min(max(longest, max((mark.p for mark in marks), default=0.0), 0.99), 0.99999)
    right = tail_position(reach)

    def x(p: float) -> float:
        return _LEFT + tail_position(p) / right * (WIDTH - _LEFT - _RIGHT)

    drawing = Drawing(WIDTH, HEIGHT, title)
    known = max((mark.p for mark in marks if mark.estimate.value is not None), default=None)
    beyond = [mark for mark in marks if mark.estimate.value is None and (known is None or mark.p > known)]
    if beyond:
        begin = x(known) if known is not None else _LEFT
        drawing.rect(begin, _TOP, WIDTH - _RIGHT - begin, HEIGHT - _BOTTOM - _TOP, "few")
    _axes(drawing, x, y, reach)
    for css, ps, ys in shown:
        drawing.path([[(x(p), y(value)) for p, value in zip(ps, ys, strict=True)]], css)
    for mark in marks:
        if mark.estimate.value is not None:
            _mark(drawing, x(mark.p), y, mark)
    if beyond:
        drawing.text(
            WIDTH - _RIGHT - 4,
            _TOP + 12,
            beyond[0].estimate.text,
            "note",
            "end",
        )
    return drawing.render("chart tail")


def _numbers(estimate: Number) -> list[float]:
    return [value for value in (estimate.value, estimate.low, estimate.high) if value is not None]


def curve_points(curve: Curve, points: int) -> tuple[list[float], list[float]]:
    """Return percentiles and values by nearest rank, up to the largest that one request in the sample
    supports."""
    if not curve.total or not len(curve.values_s):
        return [], []
    step = -(-len(_GRID) // points)
    grid = _GRID[1 - 1 / curve.total >= _GRID][::step] if curve.total > 1 else _GRID[:1]
    ranks = np.maximum(np.ceil(grid * curve.total - 1e-9 * curve.total), 1)
    grid, ranks = grid[ranks <= curve.at_or_below[-1]], ranks[ranks <= curve.at_or_below[-1]]
    return grid.tolist(), curve.values_s[np.searchsorted(curve.at_or_below, ranks)].tolist()


def _axes(drawing: Drawing, at: Callable[[float], float], scale: Scale, reach: float) -> None:
    ticks = scale.ticks(6)
    drawing.lines(((_LEFT, scale(t), WIDTH - _RIGHT, scale(t)) for t in ticks), "grid")
    for tick, text in zip(ticks, own_unit_texts(ticks, "time_s"), strict=True):
        drawing.text(_LEFT - 6, scale(tick) + 4, text, "", "end")
    stops = [p for p in TAIL_STOPS if p <= reach + 1e-9]
    drawing.lines(((at(p), _TOP, at(p), HEIGHT - _BOTTOM) for p in stops), "grid")
    for p in stops:
        anchor = "end" if at(p) > WIDTH - 2 * _RIGHT else "middle"
        drawing.text(
            at(p) + (_RIGHT if anchor == "end" else 0), HEIGHT - _BOTTOM + 15, f"{100 * p:g}", "", anchor
        )
    drawing.text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 6, "percentile (logarithmic tail)", "axis", "middle")


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

"""A case over time: panels on one shared axis; thin lines for replicates, a thick one for their median; ramp
and warm-up shaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from svload.model.units import Dimension
from svload.report.charts.drawing import (
    LETTER,
    Drawing,
    Key,
    Scale,
    around,
    broken,
    draw_key,
    fitting,
    key_height,
    x_axis,
    y_axis,
)
from svload.report.data.resources import Series

WIDTH = 860
TALL, LOW = 62, 34
"""Heights in px of a main panel, and of a small one."""
_LETTER_PX = 7.2
_ABSOLUTE, _RELATIVE = 1e-8, 1e-5
"""Tolerances within which two moments are the same."""
_LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 64, 12, 18, 28, 34


@dataclass(frozen=True)
class Line:
    """One quantity over time in every replicate. `css`: its colour; `thin`: a pair's tail percentile."""

    name: str
    css: str
    replicates: Sequence[Series]
    thin: bool = False
    trials: Sequence[str] = ()
    """whose replicates they are"""


@dataclass(frozen=True)
class Panel:
    """Quantities of one unit; the axis starts from zero or fits the values. `note` follows the title."""

    title: str
    dimension: Dimension
    lines: Sequence[Line] = field(default_factory=tuple)
    note: str = ""
    zero: bool = True
    log: bool = False


@dataclass(frozen=True)
class Mark:
    """A moment drawn through all panels, such as a planned fault."""

    at_s: float
    text: str


def timeline(
    panels: Sequence[Panel], end_s: float, window_s: tuple[float, float], kept_s: tuple[float, float],
    title: str, *, points: int = 60, replicates: int = 6, panel_px: float = TALL, marks: Sequence[Mark] = (),
    width: float = WIDTH, key: Key = (),
) -> str:  # fmt: skip
    """Return all panels that have a number, as SVG; "" without any. `points` and `replicates` limit the
    drawing's size.

    The axis depends only on `end_s`, so that charts of one case line up exactly below each other.
    """
    usable = [panel for panel in panels if _numbers(panel)]
    if not usable or end_s <= 0:
        return ""
    first = _TOP + key_height(key, width)
    bottom = first + len(usable) * (panel_px + _GAP) - _GAP
    drawing = Drawing(width, bottom + _BOTTOM, title)
    draw_key(drawing, key)
    x = Scale(0.0, end_s, _LEFT, width - _RIGHT)
    _shade(drawing, x, window_s, kept_s, (first, bottom))
    for number, panel in enumerate(usable):
        top = first + number * (panel_px + _GAP)
        _panel(drawing, panel, x, (top, top + panel_px), points, replicates)
    _mark(drawing, x, marks, (first, bottom))
    x_axis(drawing, x, bottom, "time_s", "time from the load's start", 10)
    return drawing.render("chart wide time")


def _shade(
    drawing: Drawing, x: Scale, window_s: tuple[float, float], kept_s: tuple[float, float],
    place: tuple[float, float],
) -> None:  # fmt: skip
    top, bottom = place
    for begin, end, css, tip in (
        (0.0, window_s[0], "ramp", "ramp: outside the window by definition"),
        (window_s[0], kept_s[0], "cut", "warm-up cut of the case"),
    ):
        if end > begin:
            drawing.rect(x(begin), top, x(end) - x(begin), bottom - top, css, tip)


def _mark(drawing: Drawing, x: Scale, marks: Sequence[Mark], place: tuple[float, float]) -> None:
    """Draw a line for each moment, with its text as title and its number above."""
    top, bottom = place
    for number, mark in enumerate(marks):
        drawing.rect(x(mark.at_s) - 0.75, top, 1.5, bottom - top, "fault", f"{number + 1}: {mark.text}")
        drawing.text(x(mark.at_s) + 3, top - 5, str(number + 1), "fault")


def _numbers(panel: Panel) -> list[float]:
    found = [series.values for line in panel.lines for series in line.replicates if len(series.values)]
    if not found:
        return []
    values = np.concatenate(found)
    return [float(value) for value in values[np.isfinite(values) & ((values > 0) | (not panel.log))]]


def _panel(
    drawing: Drawing, panel: Panel, x: Scale, place: tuple[float, float], points: int, replicates: int
) -> None:
    top, bottom = place
    y = around(_numbers(panel), panel.log, bottom, top, zero=panel.zero)
    assert y is not None
    y_axis(drawing, y, x.start, x.end, panel.dimension, 4 if bottom - top >= TALL else 3)
    with drawing.field(x, y, "time_s", panel.dimension):
        for line in panel.lines:
            trials = line.trials or [""] * len(line.replicates)
            named = zip(trials, line.replicates, strict=True)
            known = [(f"{trial} {line.name}".strip(), one) for trial, one in named if len(one.values)]
            if len(known) > 1:
                for name, series in known[:replicates]:
                    drawing.path(_runs(series, x, y, points), f"{line.css} rep", name)
            if known:
                name = f"{line.name}, median" if len(known) > 1 else known[0][0]
                runs = _runs(median_series([series for _, series in known]), x, y, points)
                drawing.path(runs, f"{line.css} {'fine' if line.thin else 'main'}", name)
    title = fitting(panel.title, (drawing.width - x.start) * LETTER / _LETTER_PX, end=True)
    drawing.text(x.start, top - 6, title, "name")
    if panel.note:
        left = x.start + _LETTER_PX * len(title) + 10
        drawing.text(left, top - 6, fitting(panel.note, drawing.width - left))


def _runs(series: Series, x: Scale, y: Scale, points: int) -> list[list[tuple[float, float]]]:
    step = max(1, -(-len(series.at_s) // points))
    at, values = series.at_s[::step].tolist(), series.values[::step].tolist()
    return broken((x(a), y(v) if v == v else v) for a, v in zip(at, values, strict=True))


def median_series(replicates: Sequence[Series]) -> Series:
    """Return the median over the replicates that have a value, at the longest one's moments."""
    base = max(replicates, key=lambda series: len(series.at_s))
    if len(replicates) == 1:
        return base
    stacked = []
    for series in replicates:
        if _same_moments(series, base):
            stacked.append(series.values)
        elif len(series.at_s) > 1:
            stacked.append(np.interp(base.at_s, series.at_s, series.values, left=np.nan, right=np.nan))
    if not stacked:
        return base
    table = np.sort(np.array(stacked), axis=0)  # NaN last
    known = np.isfinite(table).any(axis=0)
    table = table[:, known]
    last, which = (~np.isnan(table)).sum(axis=0) - 1, np.arange(table.shape[1])
    values = np.full(len(base.at_s), np.nan)
    values[known] = (table[last // 2, which] + table[(last + 1) // 2, which]) / 2
    return Series(base.at_s, values)


def _same_moments(one: Series, base: Series) -> bool:
    """Compare finite moments as `np.allclose` does."""
    if len(one.at_s) != len(base.at_s):
        return False
    return one is base or bool(
        (np.abs(one.at_s - base.at_s) <= _ABSOLUTE + _RELATIVE * np.abs(base.at_s)).all()
    )

"""A case over time: panels on one shared axis; thin lines for replicates, a thick one for their median; ramp
and warm-up shaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from svload.model.units import Dimension
from svload.report.charts.scales import Scale, around, tick_texts
from svload.report.charts.svg import Drawing, broken
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
    """One quantity over time in every replicate. `css` is a colour class; `thin` marks
    the tail percentile of a pair."""

    name: str
    css: str
    replicates: Sequence[Series]
    thin: bool = False


@dataclass(frozen=True)
class Panel:
    """Quantities of one unit; the axis starts from zero or fits the values. `note` is a description after the
    title."""

    title: str
    dimension: Dimension
    lines: Sequence[Line] = field(default_factory=tuple)
    note: str = ""
    zero: bool = True


@dataclass(frozen=True)
class Mark:
    """A moment drawn through all panels, such as a planned fault."""

    at_s: float
    text: str


def timeline(
    panels: Sequence[Panel], end_s: float, window_s: tuple[float, float], kept_s: tuple[float, float],
    title: str, *, points: int = 60, replicates: int = 6, panel_px: int = TALL, marks: Sequence[Mark] = (),
) -> str:  # fmt: skip
    """Return all panels that have a number, as SVG; "" without any. `points` and `replicates` limit the
    drawing's size.

    The axis depends only on `end_s`, so that charts of one case line up exactly below each other.
    """
    usable = [panel for panel in panels if _numbers(panel)]
    if not usable or end_s <= 0:
        return ""
    height = _TOP + len(usable) * (panel_px + _GAP) - _GAP + _BOTTOM
    drawing = Drawing(WIDTH, height, title)
    x = Scale(0.0, end_s, _LEFT, WIDTH - _RIGHT)
    bottom = height - _BOTTOM
    _shade(drawing, x, window_s, kept_s, bottom)
    for number, panel in enumerate(usable):
        top = _TOP + number * (panel_px + _GAP)
        _panel(drawing, panel, x, (top, top + panel_px), points, replicates)
    _mark(drawing, x, marks, bottom)
    ticks = x.ticks(10, "time_s")
    for tick, text in zip(ticks, tick_texts(ticks, "time_s"), strict=True):
        anchor = "start" if not tick else "end" if x(tick) > WIDTH - 2 * _RIGHT else "middle"
        drawing.text(x(tick), bottom + 15, text, "", anchor)
    drawing.text((_LEFT + WIDTH) / 2, height - 3, "time from the load's start", "axis", "middle")
    return drawing.render("chart wide time")


def _shade(
    drawing: Drawing, x: Scale, window_s: tuple[float, float], kept_s: tuple[float, float], bottom: float
) -> None:
    if window_s[0] > 0:
        drawing.rect(
            x(0), _TOP, x(window_s[0]) - x(0), bottom - _TOP, "ramp", "ramp: outside the window by definition"
        )
    if kept_s[0] > window_s[0]:
        drawing.rect(
            x(window_s[0]),
            _TOP,
            x(kept_s[0]) - x(window_s[0]),
            bottom - _TOP,
            "cut",
            "warm-up cut of the case",
        )


def _mark(drawing: Drawing, x: Scale, marks: Sequence[Mark], bottom: float) -> None:
    """Draw a line for each moment, with its text as title and its number above."""
    for number, mark in enumerate(marks):
        drawing.rect(x(mark.at_s) - 0.75, _TOP, 1.5, bottom - _TOP, "fault", f"{number + 1}: {mark.text}")
        drawing.text(x(mark.at_s) + 3, _TOP - 5, str(number + 1), "fault")


def _numbers(panel: Panel) -> list[float]:
    found = [series.values for line in panel.lines for series in line.replicates if len(series.values)]
    if not found:
        return []
    values = np.concatenate(found)
    return [float(value) for value in values[np.isfinite(values)]]


def _panel(
    drawing: Drawing, panel: Panel, x: Scale, place: tuple[float, float], points: int, replicates: int
) -> None:
    top, bottom = place
    y = around(_numbers(panel), False, bottom, top, zero=panel.zero)
    assert y is not None
    ticks = y.ticks(4 if bottom - top >= TALL else 3, panel.dimension)
    drawing.lines(((_LEFT, y(t), WIDTH - _RIGHT, y(t)) for t in ticks), "grid")
    for tick, text in zip(ticks, tick_texts(ticks, panel.dimension), strict=True):
        drawing.text(_LEFT - 6, y(tick) + 4, text, "", "end")
    for line in panel.lines:
        known = [series for series in line.replicates if len(series.values)]
        if not known:
            continue
        if len(known) > 1:
            runs = [run for series in known[:replicates] for run in _runs(series, x, y, points)]
            drawing.path(runs, f"{line.css} rep")
        drawing.path(
            _runs(median_series(known), x, y, points), f"{line.css} {'fine' if line.thin else 'main'}"
        )
    drawing.text(_LEFT, top - 6, panel.title, "name")
    if panel.note:
        drawing.text(_LEFT + _LETTER_PX * len(panel.title) + 10, top - 6, panel.note)


def _runs(series: Series, x: Scale, y: Scale, points: int) -> list[list[tuple[float, float]]]:
    step = max(1, -(-len(series.at_s) // points))
    at, values = series.at_s[::step].tolist(), series.values[::step].tolist()
    return broken((x(a), y(v) if v == v else v) for a, v in zip(at, values, strict=True))


def median_series(replicates: Sequence[Series]) -> Series:
    """Return the median over replicates at the longest one's moments; replicates without a value there are
    left out."""
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

"""Ratios with their intervals on one logarithmic axis that always includes 1; and sides that took turns: the
number of both in every round of the run, with the machine use of other programs below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10, nan

from svload.model.pairs import PairRatio
from svload.model.results import Estimate
from svload.model.units import Dimension, show_percent
from svload.report.charts.drawing import (
    Drawing,
    Scale,
    around,
    broken,
    row_middle,
    rows_drawing,
    rows_span,
    y_axis,
)
from svload.report.wording.spelling import outcome_words, show_value

WIDTH, ROW = 280, 26
_PAD = 14


@dataclass(frozen=True)
class Ratio:
    """One row: a ratio and its `state`; it is drawn filled if that is `decided`."""

    name: str
    ratio: Estimate
    state: str


def ratio_scale(ratios: Sequence[Ratio], span: tuple[float, float] = (_PAD, WIDTH - _PAD)) -> Scale | None:
    """Return the shared scale, which always includes 1; None without any number."""
    ends = (v for one in ratios for v in (one.ratio.value, one.ratio.low, one.ratio.high))
    values = [v for v in ends if v is not None and v > 0]
    if not values:
        return None
    low, high = min(*values, 1 / 1.1), max(*values, 1.1)
    air = (high / low) ** 0.05
    return Scale(low / air, high * air, *span, True)


def _ticks(scale: Scale) -> list[float]:
    steps = (
        (1, 1.5, 2, 3, 5, 7)
        if log10(scale.high / scale.low) < 1
        else (1, 2, 5)
        if log10(scale.high / scale.low) < 3
        else (1,)
    )
    near = (0.8, 0.9, 0.95, 1.05, 1.1, 1.2) if scale.high / scale.low < 2 else ()
    found = {round(s * 10.0**e, 9) for s in steps for e in range(-6, 7)} | set(near) | {1.0}
    inside = sorted(v for v in found if scale.low <= v <= scale.high)
    kept: list[float] = []
    for value in sorted(inside, key=lambda v: (v != 1.0, abs(log10(v)))):
        if all(abs(scale(value) - scale(other)) >= 30 for other in kept):
            kept.append(value)
    return sorted(kept)


def ratio_axis(scale: Scale) -> str:
    """Draw the axis for the column's heading."""
    drawing = Drawing(WIDTH, 16, "ratio of treatment over baseline, logarithmic")
    for tick in _ticks(scale):
        drawing.text(scale(tick), 11, f"×{tick:g}", "strong" if tick == 1 else "", "middle")
    return drawing.render("strip ratio")


def ratio_row(one: Ratio, scale: Scale) -> str:
    """Draw one ratio with its interval."""
    value = one.ratio.value
    text = "no number" if value is None else f"ratio {value:.3g}"
    drawing = Drawing(WIDTH, ROW, f"{one.name}: {text}, {one.state}")
    drawing.lines(((scale(t), 0, scale(t), ROW) for t in _ticks(scale) if t != 1), "grid")
    drawing.line(scale(1), 0, scale(1), ROW, "one")
    _point(drawing, one, scale, ROW / 2)
    return drawing.render("strip ratio")


def _point(drawing: Drawing, one: Ratio, scale: Scale, middle: float) -> None:
    value, low, high = one.ratio.value, one.ratio.low, one.ratio.high
    if value is not None:
        css = "claimed" if one.state == "decided" else "unclaimed"
        if low is not None and high is not None:
            drawing.line(scale(low), middle, scale(high), middle, f"span {css}")
        drawing.dot(scale(value), middle, css, 4.5)


def ratios_chart(ratios: Sequence[Ratio], width: float) -> str:
    """Draw all ratios below each other, with their names; "" without any number."""
    names = [one.name for one in ratios]
    scale = ratio_scale(ratios, rows_span(names, width))
    if scale is None:
        return ""
    ticks = [(tick, f"×{tick:g}") for tick in _ticks(scale)]
    axis = "ratio, treatment over baseline"
    drawing = rows_drawing(names, scale, ticks, axis, "the comparisons", width)
    drawing.line(scale(1), 2, scale(1), row_middle(len(ratios)) - ROW / 2, "one")
    for row, one in enumerate(ratios):
        _point(drawing, one, scale, row_middle(row))
    return drawing.render("chart wide")


PLOT_WIDTH, PLOT_HEIGHT = 560, 66
_LINE_Y, _BOX, _CAP = 34.0, 6.0, 9.0
_LABEL_PX = 8.6
"""Width of a letter above a point."""
_PLOT_PAD = 26
_PLOT_CSS = {"decided": "decided", "no difference": "within", "open": "open", "refused": "lost"}


@dataclass(frozen=True)
class Plot(Ratio):
    """A comparison's outcome as a separate plot: `label` is shown above its point; `within` is the margin that
    it stays below; `failed`: its gate failed."""

    label: str
    within: float | None = None
    failed: bool = False


def plot_scale(plots: Sequence[Plot]) -> Scale | None:
    """Return the scale shared by all plots of a run, which always includes 1; None without any number."""
    return ratio_scale(plots, (_PLOT_PAD, PLOT_WIDTH - _PLOT_PAD))


def claim_plot(one: Plot, scale: Scale) -> str:
    """Draw a large plot with a fixed mark for each outcome: ● decided, ■ no difference (its margin shaded), ○
    undecided, ✗ nothing to compare; red if its gate failed."""
    value, low, high = one.ratio.value, one.ratio.low, one.ratio.high
    css = _PLOT_CSS[one.state] + (" failed" if one.failed else "")
    text = outcome_words(one.state) + (", gate failed" if one.failed else "")
    drawing = Drawing(PLOT_WIDTH, PLOT_HEIGHT, f"{one.name}: {one.label}, {text}")
    ticks = _ticks(scale)
    base = PLOT_HEIGHT - 16
    drawing.lines(((scale(t), 18, scale(t), base) for t in ticks if t != 1), "grid")
    if one.within is not None and one.state == "no difference":
        begin, end = scale(1 / (1 + one.within)), scale(1 + one.within)
        drawing.rect(begin, 20, end - begin, base - 20, "margin")
    drawing.line(scale(1), 16, scale(1), base, "one")
    for tick in ticks:
        drawing.text(scale(tick), PLOT_HEIGHT - 3, f"×{tick:g}", "strong" if tick == 1 else "", "middle")
    if value is None or value <= 0:
        drawing.cross(scale(1), _LINE_Y, f"lost {css}", _BOX)
        return drawing.render("plot")
    if low is not None and high is not None and low > 0:
        ends = [(scale(end), _LINE_Y - _CAP, scale(end), _LINE_Y + _CAP) for end in (low, high)]
        drawing.lines([(scale(low), _LINE_Y, scale(high), _LINE_Y), *ends], f"reach {css}")
    at = scale(value)
    if one.state == "refused":
        drawing.cross(at, _LINE_Y, f"lost {css}", _BOX)
    elif one.state == "no difference":
        drawing.rect(at - _BOX, _LINE_Y - _BOX, 2 * _BOX, 2 * _BOX, f"point {css}")
    else:
        drawing.dot(at, _LINE_Y, f"point {css}", _BOX + 1)
    half = _LABEL_PX * len(one.label) / 2
    drawing.text(min(max(at, half + 2), PLOT_WIDTH - half - 2), 14, one.label, "told", "middle")
    return drawing.render("plot")


ROUNDS_WIDTH = 860
_ROUNDS_LEFT, _ROUNDS_RIGHT, _ROUNDS_TOP = 64, 12, 10
_TALL, _LOW, _GAP, _BOTTOM = 150, 40, 12, 18
_BETWEEN = 1.5
"""Space between two blocks, in rounds."""


def rounds_chart(
    pairs: Sequence[PairRatio], dimension: Dimension, baseline: str, treatment: str, metric: str
) -> str:
    """Draw the rounds block by block, in the order in which they ran; "" if no pair took turns."""
    turned = sorted((pair for pair in pairs if pair.rounds), key=lambda pair: pair.block)
    low = _ROUNDS_TOP + _TALL
    values = [
        value for pair in turned for one in pair.rounds for value in (one.baseline, one.treatment) if value
    ]
    y = around(values, True, low, _ROUNDS_TOP)
    if y is None:
        return ""
    places = sum(len(pair.rounds) for pair in turned) + _BETWEEN * (len(turned) - 1)
    step = (ROUNDS_WIDTH - _ROUNDS_LEFT - _ROUNDS_RIGHT) / places
    floor = low + _GAP + _LOW
    title = f"{metric} of {baseline} and {treatment} in each round of {len(turned)} blocks"
    drawing = Drawing(ROUNDS_WIDTH, floor + _BOTTOM, f"{title}, and other programs' share of the machine")
    right = ROUNDS_WIDTH - _ROUNDS_RIGHT
    y_axis(drawing, y, _ROUNDS_LEFT, right, dimension)
    drawing.lines(((_ROUNDS_LEFT, at, right, at) for at in (floor, floor - _LOW)), "grid")
    drawing.text(_ROUNDS_LEFT - 6, floor - _LOW + 8, "100 %", "", "end")
    drawing.text(_ROUNDS_LEFT - 6, floor, "others 0", "", "end")
    first, every = 0.0, max(1, len(turned) // 24)
    for number, pair in enumerate(turned):
        at = [_ROUNDS_LEFT + (first + place + 0.5) * step for place in range(len(pair.rounds))]
        for x, one in zip(at, pair.rounds, strict=True):
            if one.strangers is not None:
                tip = f"other programs: {show_percent(one.strangers, 2)}"
                drawing.rect(
                    x - step / 2, floor - _LOW * one.strangers, step, _LOW * one.strangers, "f3", tip
                )
        for css, name, side in (("c0", baseline, "baseline"), ("c1", treatment, "treatment")):
            shown = [getattr(one, side) for one in pair.rounds]
            points = ((x, nan if value is None else y(value)) for x, value in zip(at, shown, strict=True))
            drawing.path(broken(points), f"main {css}")
            for place, (x, value) in enumerate(zip(at, shown, strict=True), 1):
                if value is not None:
                    tip = f"block {pair.block}, round {place}, {name}: {show_value(value, dimension)}"
                    drawing.dot(x, y(value), css.replace("c", "f"), 1.8, tip)
        if number % every == 0:
            drawing.text((at[0] + at[-1]) / 2, floor + 14, str(pair.block), "", "middle")
        first += len(pair.rounds) + _BETWEEN
    return drawing.render("chart wide")

"""Sides that took turns: the number of both in every round of the run, with the machine use of other programs
below."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from svload.model.pairs import PairRatio
from svload.model.units import Dimension, show_percent
from svload.report.charts.drawing import Drawing, around, broken, y_axis
from svload.report.told.spelling import show_value

WIDTH = 860
_LEFT, _RIGHT, _TOP = 64, 12, 10
_TALL, _LOW, _GAP, _BOTTOM = 150, 40, 12, 18
_BETWEEN = 1.5
"""Space between two blocks, in rounds."""


def rounds_chart(
    pairs: Sequence[PairRatio], dimension: Dimension, baseline: str, treatment: str, metric: str
) -> str:
    """Draw the rounds block by block, in the order in which they ran; "" if no pair took turns."""
    turned = sorted((pair for pair in pairs if pair.rounds), key=lambda pair: pair.block)
    low = _TOP + _TALL
    values = [
        value for pair in turned for one in pair.rounds for value in (one.baseline, one.treatment) if value
    ]
    y = around(values, True, low, _TOP)
    if y is None:
        return ""
    places = sum(len(pair.rounds) for pair in turned) + _BETWEEN * (len(turned) - 1)
    step = (WIDTH - _LEFT - _RIGHT) / places
    floor = low + _GAP + _LOW
    drawing = Drawing(
        WIDTH,
        floor + _BOTTOM,
        f"{metric} of {baseline} and {treatment} in each round of {len(turned)} blocks, and other programs' share of the machine",
    )
    y_axis(drawing, y, _LEFT, WIDTH - _RIGHT, dimension)
    drawing.lines(((_LEFT, at, WIDTH - _RIGHT, at) for at in (floor, floor - _LOW)), "grid")
    drawing.text(_LEFT - 6, floor - _LOW + 8, "100 %", "", "end")
    drawing.text(_LEFT - 6, floor, "others 0", "", "end")
    first, every = 0.0, max(1, len(turned) // 24)
    for number, pair in enumerate(turned):
        at = [_LEFT + (first + place + 0.5) * step for place in range(len(pair.rounds))]
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

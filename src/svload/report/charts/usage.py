"""CPU and memory of each service in each case: the paper's Fig. 5, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from svload.model.units import Dimension
from svload.report.charts.scales import around, tick_texts
from svload.report.charts.svg import Drawing
from svload.report.told.numbers import Number

WIDTH, HEIGHT = 860, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 8, 10, 46
_MOST_LABELS = 32


def usage_chart(
    cases: Sequence[str],
    bars: Sequence[tuple[str, int, Sequence[Number]]],
    dimension: Dimension,
    title: str,
) -> str:
    """Draw grouped bars: for each service (name, its colour's number, one number per case); REFUSED ones are
    hatched. "" without any number."""
    values = [v for _, _, numbers in bars for one in numbers for v in (one.shown, one.high) if v is not None]
    y = around(values, False, HEIGHT - _BOTTOM, _TOP, zero=True)
    if y is None:
        return ""
    drawing = Drawing(WIDTH, HEIGHT, title)
    ticks = y.ticks(5, dimension)
    drawing.lines(((_LEFT, y(t), WIDTH - _RIGHT, y(t)) for t in ticks), "grid")
    for tick, text in zip(ticks, tick_texts(ticks, dimension), strict=True):
        drawing.text(_LEFT - 6, y(tick) + 4, text, "", "end")
    slot = (WIDTH - _LEFT - _RIGHT) / max(len(cases), 1)
    width = slot * 0.8 / max(len(bars), 1)
    every = -(-len(cases) // _MOST_LABELS)
    for number, case in enumerate(cases):
        left = _LEFT + number * slot + slot * 0.1
        for place, (name, colour, numbers) in enumerate(bars):
            estimate = numbers[number]
            if estimate.shown is None:
                continue
            x, top = left + place * width, y(estimate.shown)
            bound = f", the true value {estimate.bound}" if estimate.bound else ""
            tip = f"{case}, {name}: {estimate.whole} {estimate.mark}".rstrip() + bound
            drawing.rect(x, top, max(width - 0.6, 0.6), y(0) - top, f"f{colour}", tip)
            if estimate.refused:
                drawing.hatch(x, top, max(width - 0.6, 0.6), y(0) - top)
                drawing.text(x + width / 2, top - 3, estimate.mark, "refused", "middle")
            if estimate.low is not None and estimate.high is not None:
                middle = x + width / 2
                drawing.line(middle, y(estimate.low), middle, y(estimate.high), "whisker")
        if number % every == 0:
            label = case if len(case) <= 8 else case[:7] + "…"
            turn = slot < 30
            at = left + slot * 0.4
            drawing.text(
                at, HEIGHT - _BOTTOM + (13 + 12 * (number // every % 2 if turn else 0)), label, "", "middle"
            )
    drawing.text((_LEFT + WIDTH) / 2, HEIGHT - 4, "case", "axis", "middle")
    return drawing.render("chart wide")

"""CPU and memory of each service in each case: the paper's Fig. 5, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from svload.model.units import Dimension
from svload.report.charts.drawing import Drawing, Key, Scale, around, draw_key, fitting, key_height, y_axis
from svload.report.told.numbers import Number

WIDTH, HEIGHT = 860, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 8, 10, 46
_LEAST_LABEL_PX = 24.0


def usage_chart(
    cases: Sequence[str],
    bars: Sequence[tuple[str, int, Sequence[Number]]],
    dimension: Dimension,
    title: str,
    *,
    width: float = WIDTH,
    key: Key = (),
    axis: str = "",
) -> str:
    """Draw grouped bars: of each service its name, its colour's number, and its number in each case; REFUSED
    ones are hatched. "" without any number."""
    values = [v for _, _, numbers in bars for one in numbers for v in (one.shown, one.high) if v is not None]
    top = _TOP + key_height(key, width, axis)
    base = top + HEIGHT - _TOP - _BOTTOM
    y = around(values, False, base, top, zero=True)
    if y is None:
        return ""
    drawing = Drawing(width, base + _BOTTOM, title)
    draw_key(drawing, key, axis, _LEFT)
    y_axis(drawing, y, _LEFT, width - _RIGHT, dimension)
    slot = (width - _LEFT - _RIGHT) / max(len(cases), 1)
    bar = slot * 0.8 / max(len(bars), 1)
    every = -int(-_LEAST_LABEL_PX // slot)
    for number, case in enumerate(cases):
        left = _LEFT + (number + 0.1) * slot
        for place, (name, colour, numbers) in enumerate(bars):
            if numbers[number].shown is not None:
                _bar(drawing, y, left + place * bar, bar, f"f{colour}", f"{case}, {name}", numbers[number])
        if number % every == 0:
            turn = 12 * (number // every % 2 if slot < 30 else 0)
            drawing.text(
                left + slot * 0.4,
                base + 13 + turn,
                fitting(case, max(slot * every, 50), end=True),
                "",
                "middle",
            )
    drawing.text((_LEFT + width) / 2, base + 42, "case", "axis", "middle")
    return drawing.render("chart wide")


def _bar(drawing: Drawing, y: Scale, x: float, width: float, css: str, whose: str, one: Number) -> None:
    assert one.shown is not None
    top, shown, middle = y(one.shown), max(width - 0.6, 0.6), x + width / 2
    bound = f", the true value {one.bound}" if one.bound else ""
    drawing.rect(x, top, shown, y(0) - top, css, f"{whose}: {one.whole} {one.mark}".rstrip() + bound)
    if one.refused:
        drawing.hatch(x, top, shown, y(0) - top)
        drawing.text(middle, top - 3, one.mark, "refused", "middle")
    if one.low is not None and one.high is not None:
        drawing.line(middle, y(one.low), middle, y(one.high), "whisker")

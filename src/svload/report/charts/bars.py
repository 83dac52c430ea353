"""Charts over all cases: CPU and memory of each service with intervals, as the paper's Fig. 5; and where a
request's time goes, each part's own time on a logarithmic axis, which shows both 0.2 ms and 1 s, and its
share of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svload.model.units import Dimension, show_percent
from svload.report.charts.drawing import (
    LETTER,
    NARROW,
    Drawing,
    Key,
    Scale,
    around,
    draw_key,
    fitting,
    key_height,
    ticked,
    x_labels,
    y_axis,
)
from svload.report.data.digest import SEGMENTS
from svload.report.wording.numbers import Number
from svload.report.wording.spelling import show_value

WIDTH, HEIGHT = 860, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 8, 10, 46
_LEAST_LABEL_PX, _LABEL_PX = 24.0, 50.0
"""Least distance of two labels, and their width from which they need two alternating lines."""


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
            turn = 12 * (number // every % 2 if slot * every < _LABEL_PX else 0)
            drawing.text(
                left + slot * 0.4,
                base + 13 + turn,
                fitting(case, max(slot * every, _LABEL_PX), end=True),
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


ANATOMY_WIDTH = 860
_ROW, _ROWS_TOP, _ROWS_BOTTOM = 26, 22, 34
_SPLIT, _GAP, _SHARES_RIGHT = 0.65, 64, 8
_LEAST_S = 1e-6
"""Parts shorter than a microsecond are not drawn: no clock here distinguishes them from zero."""
_DOT, _BAR = 5.2, 14
_NEAR, _ASIDE = 9.0, 5.5
"""Dots nearer than the first distance are moved apart by the second, one down and one up."""


def anatomy_chart(
    bars: Sequence[tuple[str, Mapping[str, float]]], title: str, left: float = 120, *,
    width: float = ANATOMY_WIDTH, key: Key = (),
) -> str:  # fmt: skip
    """Return a row per (label, seconds by part of `SEGMENTS`): one dot per part on one logarithmic axis, the
    sum as text, then the parts' shares if the drawing is wide enough."""
    spent = [value for _, parts in bars for value in parts.values() if value >= _LEAST_S]
    longest = max((sum(parts.values()) for _, parts in bars), default=0.0)
    if not spent or longest < _LEAST_S:
        return ""
    split = _SPLIT * width if width > NARROW else width - _GAP - _SHARES_RIGHT
    x = Scale(min(spent) / 1.3, longest * 1.3, left, split, True)
    share = Scale(0.0, 1.0, split + _GAP, width - _SHARES_RIGHT)
    top = _ROWS_TOP + key_height(key, width)
    base = top + _ROW * len(bars)
    drawing = Drawing(width, base + _ROWS_BOTTOM, title)
    draw_key(drawing, key)
    _axes(drawing, x, share, top, base)
    for row, (label, parts) in enumerate(bars):
        _row(drawing, x, share, top + row * _ROW, label, parts)
    return drawing.render("chart wide")


def _axes(drawing: Drawing, x: Scale, share: Scale, top: float, base: float) -> None:
    wide = share.end > share.start
    ticks = ticked(x, 7 if wide else 4, "time_s")
    drawing.lines(((x(tick), top, x(tick), base) for tick, _ in ticks), "grid")
    x_labels(drawing, x, base + 15, ticks)
    what = "mean time of each part of an ok request, logarithmic; the number is their sum"
    if len(what) * LETTER > share.start - x.start:
        what = "mean time of each part; the number: their sum"
    drawing.text(x.start, top - 9, what, "name")
    drawing.text(x.start, base + 31, "from its intended start to its last byte", "axis")
    if wide:
        for part, text, anchor in ((0.0, "0", "start"), (0.5, "50 %", "middle"), (1.0, "100 %", "end")):
            drawing.text(share(part), base + 15, text, "", anchor)
        drawing.text(share.start, top - 9, "share of the sum", "name")


def _row(drawing: Drawing, x: Scale, share: Scale, y: float, label: str, parts: Mapping[str, float]) -> None:
    middle, total = y + _ROW / 2, sum(parts.values())
    drawing.text(x.start - 8, middle + 4, fitting(label, x.start - 8, end=True), "", "end")
    known = [(number, name, parts.get(name, 0.0)) for number, name in enumerate(SEGMENTS)]
    known = [(number, name, value) for number, name, value in known if value >= _LEAST_S]
    if not known:
        return
    drawing.line(x(min(value for *_, value in known)), middle, x(total), middle, "grid")
    before, aside = -_NEAR, 0.0
    for number, name, value in sorted(known, key=lambda one: one[2]):
        aside = (-aside or _ASIDE) if x(value) - before < _NEAR else 0.0
        before = x(value)
        drawing.dot(before, middle + aside, f"part a{number}", _DOT, f"{name}: {show_value(value, 'time_s')}")
    drawing.text(x(total) + 9, middle + 4, show_value(total, "time_s"), "value")
    reached = 0.0
    for number, name, value in known if share.end > share.start else ():
        begin, end = share(reached / total), share((reached + value) / total)
        text = f"{name}: {show_percent(value / total, 2)}"
        drawing.rect(begin, middle - _BAR / 2, end - begin, _BAR, f"a{number}", text)
        reached += value

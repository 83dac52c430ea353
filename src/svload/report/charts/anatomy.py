"""Where a request's time goes: each part's own time on a logarithmic axis, which shows both 0.2 ms and 1 s,
and its share of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svload.report.charts.scales import Scale, own_unit_texts
from svload.report.charts.svg import Drawing
from svload.report.data.digest import SEGMENTS
from svload.report.told.spelling import show_value

WIDTH = 860
_ROW, _TOP, _BOTTOM = 26, 22, 34
_SPLIT, _GAP, _RIGHT = 560, 64, 8
_LETTER_PX = 6.2
_LEAST_S = 1e-6
"""Parts shorter than a microsecond are not drawn: no clock here distinguishes them from zero."""
_DOT, _BAR = 5.2, 14
_NEAR, _ASIDE = 9.0, 5.5
"""Dots nearer than the first distance are moved apart by the second, one down and one up."""


def anatomy_chart(bars: Sequence[tuple[str, Mapping[str, float]]], title: str, left: float = 120) -> str:
    """Return a row per (label, seconds by part of `SEGMENTS`): one dot per part on one logarithmic axis, the
    sum as text, then the parts' shares."""
    spent = [value for _, parts in bars for value in parts.values() if value >= _LEAST_S]
    longest = max((sum(parts.values()) for _, parts in bars), default=0.0)
    if not spent or longest < _LEAST_S:
        return ""
    x = Scale(min(spent) / 1.3, longest * 1.3, left, _SPLIT, True)
    share = Scale(0.0, 1.0, _SPLIT + _GAP, WIDTH - _RIGHT)
    height = _TOP + _ROW * len(bars) + _BOTTOM
    drawing = Drawing(WIDTH, height, title)
    _axes(drawing, x, share, height - _BOTTOM, height)
    for row, (label, parts) in enumerate(bars):
        _row(drawing, x, share, _TOP + row * _ROW, label, parts)
    return drawing.render("chart wide")


def _axes(drawing: Drawing, x: Scale, share: Scale, base: float, height: float) -> None:
    ticks = x.ticks(7)
    drawing.lines(((x(t), _TOP, x(t), base) for t in ticks), "grid")
    for tick, text in zip(ticks, own_unit_texts(ticks, "time_s"), strict=True):
        drawing.text(x(tick), base + 15, text, "", "middle")
    for part, text in ((0.0, "0"), (0.5, "50 %"), (1.0, "100 %")):
        drawing.text(
            share(part), base + 15, text, "", "end" if part == 1 else "start" if not part else "middle"
        )
    drawing.text(
        x.start, 13, "mean time of each part of an ok request, logarithmic; the number is their sum", "name"
    )
    drawing.text(share.start, 13, "share of the sum", "name")
    drawing.text(x.start, height - 3, "from its intended start to its last byte", "axis")


def _row(drawing: Drawing, x: Scale, share: Scale, y: float, label: str, parts: Mapping[str, float]) -> None:
    middle, total = y + _ROW / 2, sum(parts.values())
    room = int((x.start - 8) / _LETTER_PX)
    drawing.text(x.start - 8, middle + 4, label if len(label) <= room else label[: room - 1] + "…", "", "end")
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
    for number, name, value in known:
        begin, end = share(reached / total), share((reached + value) / total)
        told = f"{name}: {100 * value / total:.2g} %"
        drawing.rect(begin, middle - _BAR / 2, end - begin, _BAR, f"a{number}", told)
        reached += value

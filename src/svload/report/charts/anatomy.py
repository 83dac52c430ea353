"""Where a request's time goes: stacked bars of its parts, on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svload.report.charts.scales import around, tick_texts
from svload.report.charts.svg import Drawing
from svload.report.digest import SEGMENTS
from svload.report.words import show_value

WIDTH = 860
_ROW, _TOP, _BOTTOM = 24, 4, 34


def anatomy_chart(bars: Sequence[tuple[str, Mapping[str, float]]], title: str, left: float = 120) -> str:
    """A bar per (label, seconds by segment of `SEGMENTS`); labels are cut where they are long."""
    longest = max((sum(parts.values()) for _, parts in bars), default=0.0)
    x = around([longest], False, left, WIDTH - 70, zero=True)
    if x is None or longest <= 0:
        return ""
    height = _TOP + _ROW * len(bars) + _BOTTOM
    drawing = Drawing(WIDTH, height, title)
    ticks = x.ticks(7, "time_s")
    base = height - _BOTTOM
    drawing.lines(((x(t), _TOP, x(t), base) for t in ticks), "grid")
    for tick, text in zip(ticks, tick_texts(ticks, "time_s"), strict=True):
        drawing.text(x(tick), base + 15, text, "", "middle")
    for row, (label, parts) in enumerate(bars):
        y = _TOP + row * _ROW
        room = int((left - 8) / 6.2)
        drawing.text(left - 8, y + 16, label if len(label) <= room else label[: room - 1] + "…", "", "end")
        reached = 0.0
        for number, name in enumerate(SEGMENTS):
            spent = parts.get(name, 0.0)
            if spent > 0:
                begin = x(reached)
                drawing.rect(
                    begin,
                    y + 4,
                    x(reached + spent) - begin,
                    _ROW - 8,
                    f"a{number}",
                    f"{name}: {show_value(spent, 'time_s')}",
                )
                reached += spent
        drawing.text(x(reached) + 5, y + 16, show_value(reached, "time_s"), "value")
    drawing.text(
        (left + WIDTH - 70) / 2,
        height - 3,
        "mean seconds of an ok request, from its intended start to its last byte",
        "axis",
        "middle",
    )
    return drawing.render("chart wide")

"""What charts share: axes with their units at the ticks, a key, rows with names, and names that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from svload.model.units import Dimension
from svload.report.charts.scales import Scale, own_unit_texts, tick_texts
from svload.report.charts.svg import Drawing

LETTER = 6.2
"""Width of an average letter of 11 px."""
NARROW = 500.0
"""Drawings up to this width are for one column."""
ROW, KEY_ROW = 22.0, 16.0
_BETWEEN, _MARK, _AFTER = 4.0, 18.0, 14.0
_AXIS, _TICK_PX = 36.0, 60.0

Ticks = Sequence[tuple[float, str]]
"""Values on an axis, with their texts."""
Key = Sequence[tuple[str, str]]
"""The classes of lines (`c0 main`) or areas (`f0`), each with its meaning."""


def fitting(text: str, width: float, end: bool = False) -> str:
    """Return the text, or its beginning if it is wider, with its `end` if that tells it from others."""
    room = max(int(width / LETTER), 1)
    if len(text) <= room:
        return text
    kept = room // 2 if end else 0
    return text[: max(room - 1 - kept, 0)] + "…" + text[len(text) - kept :]


def ticked(scale: Scale, most: int, dimension: Dimension) -> Ticks:
    """Return the scale's ticks with their texts: on a logarithmic scale each in the unit that suits it."""
    ticks = scale.ticks(most, dimension)
    texts = own_unit_texts(ticks, dimension) if scale.log else tick_texts(ticks, dimension)
    return list(zip(ticks, texts, strict=True))


def y_axis(
    drawing: Drawing, y: Scale, left: float, right: float, dimension: Dimension, most: int = 5
) -> None:
    """Draw a line across at each tick, with its value on the left."""
    ticks = ticked(y, most, dimension)
    drawing.lines(((left, y(tick), right, y(tick)) for tick, _ in ticks), "grid")
    for tick, text in ticks:
        drawing.text(left - 6, y(tick) + 4, text, "", "end")


def x_labels(drawing: Drawing, x: Scale, at: float, ticks: Ticks) -> None:
    """Write the ticks' texts, within the drawing; those that would overlap the one before are left out."""
    end = -_BETWEEN
    for tick, text in ticks:
        half = LETTER * len(text) / 2
        middle = min(max(x(tick), half), drawing.width - half)
        if middle - half >= end + _BETWEEN:
            drawing.text(middle, at, text, "", "middle")
            end = middle + half


def x_axis(drawing: Drawing, x: Scale, base: float, dimension: Dimension, title: str, most: int = 9) -> None:
    """Write as many ticks' values below `base` as have room, and the axis's title below them."""
    x_labels(drawing, x, base + 15, ticked(x, min(most, int((x.end - x.start) / _TICK_PX)), dimension))
    drawing.text((x.start + x.end) / 2, base + 31, title, "axis", "middle")


def key_height(key: Key, width: float, name: str = "") -> float:
    """Return the height of the key, and of the axis's name below it, in a drawing of that width."""
    return (max((row + 1 for *_, row in _key_places(key, width)), default=0) + bool(name)) * KEY_ROW


def draw_key(drawing: Drawing, key: Key, name: str = "", left: float = 0) -> None:
    """Draw the key along the top: a stroke or a square, and what it stands for; below it the axis's name."""
    if name:
        drawing.text(left, key_height(key, drawing.width, name), name, "name")
    for css, text, x, row in _key_places(key, drawing.width):
        y = row * KEY_ROW + KEY_ROW / 2
        if "main" in css or "fine" in css:
            drawing.line(x, y, x + _MARK - 6, y, css)
        else:
            drawing.rect(x + 2, y - 4, 9, 9, css)
        drawing.text(x + _MARK, y + 4, text)


def _key_places(key: Key, width: float) -> Iterator[tuple[str, str, float, int]]:
    """Yield class, text, position and row of each entry, in columns as wide as the longest needs."""
    if not key:
        return
    widest = max(len(text) for _, text in key) * LETTER + _MARK + _AFTER
    columns = max(min(int(width / widest), len(key)), 1)
    room = width / columns - _MARK - 6
    for number, (css, text) in enumerate(key):
        yield css, fitting(text, room), number % columns * widest, number // columns


def rows_span(names: Sequence[str], width: float, most: float = 0.55) -> tuple[float, float]:
    """Return where the axis of `rows_drawing` starts and ends."""
    longest = max((len(name) for name in names), default=0) * LETTER + 12
    return min(longest, most * width), width - 14


def rows_drawing(
    names: Sequence[str], x: Scale, ticks: Ticks, axis: str, title: str, width: float
) -> Drawing:
    """Return a drawing with a named row for each name over one axis; `row_middle` is where to draw."""
    base = ROW * len(names) + 4
    drawing = Drawing(width, base + _AXIS, title)
    drawing.lines(((x(tick), 2, x(tick), base) for tick, _ in ticks), "grid")
    x_labels(drawing, x, base + 13, ticks)
    drawing.text((x.start + x.end) / 2, base + 30, axis, "axis", "middle")
    for row, name in enumerate(names):
        drawing.text(x.start - 8, row_middle(row) + 4, fitting(name, x.start - 8, end=True), "", "end")
    return drawing


def row_middle(row: int) -> float:
    """Return the height of a row's middle."""
    return 4 + ROW * (row + 0.5)

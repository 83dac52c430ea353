"""A chart as SVG text, escaped, with short numbers: from values to positions, the places of ticks, and what
charts share: axes with their units at the ticks, a key, rows with names, and names that fit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape as _escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from typing import Literal

from svload.model.units import Dimension
from svload.model.visible import visible
from svload.report.wording.spelling import show_value, unit_for

_HALF_DECADE = 3.0
_HATCH_STEP = 6


@dataclass(frozen=True)
class Scale:
    """[low, high] mapped onto [start, end], logarithmic or linear. Values beyond are clipped."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        at, low, high = value, self.low, self.high
        if self.log:
            at, low, high = (log10(max(v, 1e-300)) for v in (at, low, high))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, most: int = 6, dimension: Dimension = "count") -> list[float]:
        """Return values within the scale that are round in the unit in which `dimension` is shown. A
        logarithmic scale over less than half a decade has evenly spaced ones too."""
        if self.log and self.high > _HALF_DECADE * self.low:
            return log_ticks(self.low, self.high, most)
        factor = unit_for(self.high, dimension)[1]
        return [tick * factor for tick in linear_ticks(self.low / factor, self.high / factor, most)]


def apart(places: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """Move places so that neighbours are `least` apart, each as near to its original place as possible, all
    in [low, high] if they fit.

    Returned in the given order. Neighbours that are too near form a block, centred on the mean of their
    original places.
    """
    order = sorted(range(len(places)), key=lambda at: places[at])
    blocks: list[tuple[float, int]] = []  # mean place of its first, count
    for index in order:
        first, count = min(max(places[index], low), high), 1
        while blocks and first - blocks[-1][0] < blocks[-1][1] * least:
            before, earlier = blocks.pop()
            first = (before * earlier + (first - earlier * least) * count) / (earlier + count)
            count += earlier
            first = min(max(first, low), max(low, high - (count - 1) * least))
        blocks.append((first, count))
    spread = [first + step * least for first, count in blocks for step in range(count)]
    moved = [0.0] * len(places)
    for index, place in zip(order, spread, strict=True):
        moved[index] = place
    return moved


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return multiples of 1, 2 or 5 · 10ⁿ in [low, high], at most about `most`."""
    if not high > low:
        return [low]
    raw = (high - low) / max(most - 1, 1)
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = ceil(low / step - 1e-9)
    return [n * step for n in range(first, floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return powers of ten, with 2 and 5 between them if there is room."""
    found: list[float] = []
    for factors in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
        exponents = range(floor(log10(low)), ceil(log10(high)) + 1)
        found = [
            f * 10.0**e for e in exponents for f in factors if low * 0.999 <= f * 10.0**e <= high * 1.001
        ]
        if len(found) <= most:
            break
    return found


def around(values: Iterable[float], log: bool, start: float, end: float, zero: bool = False) -> Scale | None:
    """Return a scale that holds all finite values with a margin; None without any. On a log scale only values
    above 0 count."""
    usable = [value for value in values if isfinite(value) and (value > 0 or not log)]
    if not usable:
        return None
    low, high = min(usable), max(usable)
    if log:
        if high / low < 1.2:
            low, high = low / 1.2, high * 1.2
        air = (high / low) ** 0.06
        return Scale(low / air, high * air, start, end, True)
    if zero:
        return Scale(min(low, 0.0), high * 1.08 or 1.0, start, end)
    air = (high - low or abs(high) or 1.0) * 0.08
    return Scale(low - air, high + air, start, end)


def tick_texts(ticks: list[float], dimension: Dimension) -> list[str]:
    """Return texts of evenly spaced ticks in the unit of the largest, with the decimals that they need."""
    unit, factor = unit_for(max(ticks, key=abs, default=0.0), dimension)
    shown = [tick / factor for tick in ticks]
    step = min((b - a for a, b in pairwise(shown)), default=abs(shown[0]) if shown else 1.0)
    enough = (
        decimals for decimals in range(10) if all(abs(round(v, decimals) - v) <= step * 1e-6 for v in shown)
    )
    decimals = next(enough, 9)
    texts = [f"{value:,.{decimals}f}" for value in shown]
    space = "" if unit.startswith("/") else " "
    return [
        "0" if tick == 0 else text + (space + unit if unit else "")
        for tick, text in zip(ticks, texts, strict=True)
    ]


def own_unit_texts(ticks: list[float], dimension: Dimension) -> list[str]:
    """Return texts of ticks, each in the unit that suits it: `500 µs`, `1 ms`, `2 s`."""
    return [show_value(round(tick, 12), dimension) for tick in ticks]


TAIL_STOPS = (0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)


def tail_position(p: float) -> float:
    """Return the position of a percentile on a logarithmic tail, −log₁₀(1 − p), so that p90, p99, p99.9 are
    evenly spaced."""
    return -log10(max(1.0 - p, 1e-12))


Point = tuple[float, float]


def escape(text: str) -> str:
    """Escape text for an attribute or element; invisible characters are spelt out."""
    return _escape(visible(text))


def number(value: float) -> str:
    """Return a number with one decimal at most."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


class Drawing:
    """Shapes in a `width` × `height` view box; `title` is for screen readers."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width = width
        self.height = height
        self.title = title
        self._parts: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        self.lines([(x1, y1, x2, y2)], css)

    def lines(self, pieces: Iterable[tuple[float, float, float, float]], css: str) -> None:
        """Draw many straight lines as one shape."""
        d = "".join(f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}" for x1, y1, x2, y2 in pieces)
        if d:
            self._parts.append(f'<path class="{css}" d="{d}"/>')

    def path(self, runs: Iterable[Sequence[Point]], css: str, name: str = "") -> None:
        """Draw lines through points; each run is one stroke of the same shape. Relative steps keep it
        short. Within a `field`, a `name` makes each point answer to the pointer."""
        d = "".join(_steps(run) for run in runs if len(run) > 1)
        if d:
            shown = f' data-n="{escape(name)}"' if name else ""
            self._parts.append(f'<path class="{css}"{shown} d="{d}"/>')

    @contextmanager
    def field(
        self, x: Scale, y: Scale, along: Dimension | Literal["percentile"], up: Dimension
    ) -> Iterator[None]:
        """Enclose lines with their scales, by which the page's script reads values at the pointer."""
        scales = (
            f"{of} {s.low:.6g} {s.high:.6g} {number(s.start)} {number(s.end)} {s.log:d}"
            for s, of in ((x, along), (y, up))
        )
        self._parts.append('<g data-x="{}" data-y="{}">'.format(*scales))
        yield
        self._parts.append("</g>")

    def rect(self, x: float, y: float, width: float, height: float, css: str, tip: str = "") -> None:
        """Draw a rectangle, with a text that shows on hovering."""
        shape = (
            f'class="{css}" x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" '
            f'height="{number(max(height, 0))}"'
        )
        self._shape("rect", shape, tip)

    def dot(self, x: float, y: float, css: str, radius: float = 3, tip: str = "") -> None:
        """Draw a point, with a text that shows on hovering."""
        self._shape("circle", f'class="{css}" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"', tip)

    def cross(self, x: float, y: float, css: str, radius: float = 3, tip: str = "") -> None:
        """Draw a cross, for a trial that does not count."""
        a, b, c, d = (number(v) for v in (x - radius, y - radius, x + radius, y + radius))
        self._shape("path", f'class="{css}" d="M{a} {b}L{c} {d}M{a} {d}L{c} {b}"', tip)

    def _shape(self, tag: str, look: str, tip: str) -> None:
        end = f"><title>{escape(tip)}</title></{tag}>" if tip else "/>"
        self._parts.append(f"<{tag} {look}{end}")

    def hatch(self, x: float, y: float, width: float, height: float) -> None:
        """Draw slanting lines over a rectangle that does not count."""
        steps = range(_HATCH_STEP, ceil(width + height), _HATCH_STEP)
        pieces = (
            (x + max(0.0, at - height), y + min(at, height), x + min(at, width), y + max(0.0, at - width))
            for at in steps
        )
        self.lines(pieces, "hatched")

    def text(self, x: float, y: float, text: str, css: str = "", anchor: str = "start") -> None:
        """Draw text whose baseline begins (start), is centred (middle) or ends (end) there."""
        at = f' text-anchor="{anchor}"' if anchor != "start" else ""
        kind = f' class="{css}"' if css else ""
        self._parts.append(f'<text x="{number(x)}" y="{number(y)}"{kind}{at}>{escape(text)}</text>')

    def render(self, css: str = "chart") -> str:
        head = (
            f'<svg class="{css}" viewBox="0 0 {number(self.width)} {number(self.height)}" '
            f'role="img" aria-label="{escape(self.title)}">'
        )
        return head + "".join(self._parts) + "</svg>"


def _steps(points: Sequence[Point]) -> str:
    """Return `M` and relative steps in tenths, each between rounded positions, so they never drift."""
    tenths = [(round(x * 10), round(y * 10)) for x, y in points]
    x, y = tenths[0]
    parts = [f"M{number(x / 10)} {number(y / 10)}l"]
    pairs = []
    for a, b in tenths[1:]:
        dx, dy = number((a - x) / 10), number((b - y) / 10)
        pairs.append(dx + (dy if dy.startswith("-") else f" {dy}"))
        x, y = a, b
    return parts[0] + " ".join(pairs)


def broken(points: Iterable[Point]) -> list[list[Point]]:
    """Return runs of neighbouring finite points: no line is drawn over unknown values."""
    runs: list[list[Point]] = [[]]
    for x, y in points:
        if isfinite(x) and isfinite(y):
            runs[-1].append((x, y))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


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
    """Draw a line across at each tick, with its value on the left; a long one begins at the drawing's edge
    and reaches over the axis."""
    ticks = ticked(y, most, dimension)
    drawing.lines(((left, y(tick), right, y(tick)) for tick, _ in ticks), "grid")
    for tick, text in ticks:
        drawing.text(max(left - 6, LETTER * len(text)), y(tick) + 4, text, "", "end")


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

"""An SVG drawing as text, escaped, with short numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape as _escape
from math import isfinite
from typing import Literal

from svload.model.units import Dimension
from svload.model.visible import visible
from svload.report.charts.scales import Scale

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
        self._parts.append(f'<path class="{css}" d="M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"/>')

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
        """Enclose lines with their scales, from which the page's script reads the values under the
        pointer."""
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
            f'<rect class="{css}" x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" '
            f'height="{number(max(height, 0))}"'
        )
        self._parts.append(f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>")

    def dot(self, x: float, y: float, css: str, radius: float = 3, tip: str = "") -> None:
        """Draw a point, with a text that shows on hovering."""
        shape = f'<circle class="{css}" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
        self._parts.append(f"{shape}><title>{escape(tip)}</title></circle>" if tip else f"{shape}/>")

    def cross(self, x: float, y: float, css: str, radius: float = 3, tip: str = "") -> None:
        """Draw a cross, for a trial that does not count."""
        a, b, c, d = (number(v) for v in (x - radius, y - radius, x + radius, y + radius))
        shape = f'<path class="{css}" d="M{a} {b}L{c} {d}M{a} {d}L{c} {b}"'
        self._parts.append(f"{shape}><title>{escape(tip)}</title></path>" if tip else f"{shape}/>")

    def hatch(self, x: float, y: float, width: float, height: float, step: float = 6) -> None:
        """Draw slanting lines over a rectangle that does not count."""
        pieces = []
        at = step
        while at < width + height:
            pieces.append(
                (x + max(0.0, at - height), y + min(at, height), x + min(at, width), y + max(0.0, at - width))
            )
            at += step
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
    """Return `M` and relative steps in tenths that never drift: each step is taken between rounded
    positions."""
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

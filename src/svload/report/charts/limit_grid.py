"""What limited each case, by two factors: one coloured cell per case, the load along the top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from svload.report.charts.drawing import Drawing, fitting

WIDTH = 860
_LEFT, _TOP, _ROW = 120, 40, 34
COLOURS: Mapping[str, int] = {
    "disk": 0,
    "storage": 0,
    "cpu": 1,
    "network": 2,
    "memory": 3,
    "workers": 4,
    "connections": 4,
    "accept queue": 4,
    "descriptors": 4,
    "lock": 5,
}
"""Resource → its colour's number; resources of one colour differ by their word."""


@dataclass(frozen=True)
class GridCell:
    """One case: the word that it shows, whether that limit was reached, and the text on hovering."""

    resource: str
    gave_way: bool
    tip: str
    refused: bool = False
    marked: bool = False
    """the first level at or above N*"""


def limit_grid(
    rows: Sequence[tuple[str, Sequence[GridCell | None]]], columns: Sequence[str], axis: str, title: str
) -> str:
    """Draw rows and columns in the study's order; None: the case was not run. "" without any cell."""
    if not rows or not columns:
        return ""
    drawing = Drawing(WIDTH, _TOP + len(rows) * _ROW + 6, title)
    width = (WIDTH - _LEFT) / len(columns)
    drawing.text(_LEFT + (WIDTH - _LEFT) / 2, 13, axis, "axis", "middle")
    for place, name in enumerate(columns):
        drawing.text(_LEFT + (place + 0.5) * width, _TOP - 8, fitting(name, width), "", "middle")
    for number, (name, cells) in enumerate(rows):
        y = _TOP + number * _ROW
        drawing.text(_LEFT - 8, y + _ROW / 2 + 4, fitting(name, _LEFT - 10), "name", "end")
        for place, cell in enumerate(cells):
            if cell is not None:
                _draw(drawing, cell, _LEFT + place * width, y, width)
    return drawing.render("chart wide")


def _draw(drawing: Drawing, cell: GridCell, x: float, y: float, width: float) -> None:
    colour = f"g{COLOURS[cell.resource]}" if cell.gave_way and cell.resource in COLOURS else "gn"
    drawing.rect(x + 1, y + 1, width - 2, _ROW - 2, colour, cell.tip)
    if cell.refused:
        drawing.hatch(x + 1, y + 1, width - 2, _ROW - 2)
    word = ("✗ " if cell.refused else "") + cell.resource + (" ◂" if cell.marked else "")
    drawing.text(x + width / 2, y + _ROW / 2 + 4, fitting(word, width - 4), "frame", "middle")

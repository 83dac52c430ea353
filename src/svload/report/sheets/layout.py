"""How a sheet looks: headings with their unit, heights of wrapped rows, formats of odd numbers. Pure.

Heights are written, since only Excel finds them itself when it opens a file: LibreOffice
prints one line and cuts the rest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from svload.report.told.spelling import dimension_of, metric_label, name_words, split_metric

LINE_POINTS = 15.0
_BUTTON = 3
"""Characters that a heading leaves to its filter button."""
_ROOMY = 1.2
"""Characters of a sentence to one of a column's, which are as wide as a figure; fonts that stand in
for Excel's are wider than it."""
_MOST_LINES = 27
"""Excel's tallest row is 409 points."""
_PAGE_CHARACTERS = 200
"""Column widths that one landscape page still shows at a legible size."""
_UNITS = {"time_s": "s", "size_bytes": "bytes", "rate_rps": "1/s"}


def heading(key: str) -> str:
    """A full metric name as a heading with its unit: `probe.response.p50` →
    `probe: response p50, s`. Shares are shown in percent."""
    owner, name, stat = split_metric(key)
    if not name:
        return metric_label(key)
    unit = "cores" if key.endswith(".cpu.mean") else _UNITS.get(dimension_of(key), "")
    words = " ".join(part for part in (name_words(name).replace("cpu", "CPU"), stat) if part)
    return (f"{owner}: " if owner else "") + words + (f", {unit}" if unit else "")


def lines(text: str, width: float) -> int:
    """How many lines a text takes in a column so many characters wide."""
    room = max(int(width), 1)
    return sum(max(len(textwrap.wrap(part, room)), 1) if len(part) > room else 1 for part in text.split("\n"))


def height(cells: Sequence[tuple[str, float]], roomy: float = _ROOMY) -> float:
    """Points of the row that shows each (text, column width) whole."""
    most = max((lines(text, roomy * width) for text, width in cells), default=1)
    return LINE_POINTS * min(most, _MOST_LINES)


def header_height(headers: Sequence[str], widths: Sequence[float]) -> float:
    """Points of a table's header row: bold, beside filter buttons."""
    return height([(text, width - _BUTTON) for text, width in zip(headers, widths, strict=False)], 1.0)


def pages_wide(widths: Sequence[float]) -> int:
    """Over how many pages a table is printed: one, until that could not be read."""
    return max(1, round(sum(widths) / _PAGE_CHARACTERS))

"""A search while it goes on: its levels on a line, from the `batch` events alone."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from svload.report.told.search_rows import MARKS

STYLES = {"kept": "green", "broken": "red", "open": "yellow", "more": "", "looked": "dim"}
_MOST = 14


def search_line(data: dict[str, Any]) -> Text | None:
    """`users: 8 ✓  16 ✓  23 …  32 ✗   between 16 and 32`; the levels nearest to the bracket. None for a batch of no search."""
    if "over" not in data:
        return None
    line = Text(f"{data['over']}:", style="bold")
    for load, outcome in _nearest(data):
        line.append(f"  {load:,} {MARKS[outcome]}", style=STYLES[outcome])
    kept, broken = data.get("kept"), data.get("broken")
    if kept is not None and broken is not None:
        line.append(f"   between {kept:,} and {broken:,}", style="bold")
    elif kept is not None or broken is not None:
        line.append(f"   {'above' if kept is not None else 'below'} {kept or broken:,}", style="bold")
    return line


def _nearest(data: dict[str, Any]) -> list[tuple[int, str]]:
    levels = [(int(load), str(outcome)) for load, outcome in data.get("levels", ())]
    ends = [end for end in (data.get("kept"), data.get("broken")) if end is not None]
    if len(levels) <= _MOST or not ends:
        return levels[-_MOST:]
    middle = sum(ends) / len(ends)
    return sorted(sorted(levels, key=lambda one: abs(one[0] - middle))[:_MOST])

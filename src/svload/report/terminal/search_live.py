"""A search in progress: its loads on one line, from the `batch` events alone."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from svload.report.told.search_rows import MARKS

STYLES = {"holds": "green", "breaks": "red", "mixed": "yellow", "no number": "dim"}
_MOST = 10


def search_line(data: dict[str, Any]) -> Text | None:
    """Return `users: 8 ✓  16 ✓  23 ✗   about 19 (17 to 22)`, the loads nearest to the limit. None if the
    batch is not a search's."""
    if "over" not in data:
        return None
    line = Text(f"{data['over']}:", style="bold")
    for load, outcome in _nearest(data):
        line.append(f"  {load:,} {MARKS[outcome]}", style=STYLES[outcome])
    limit, low, high = (data.get(name) for name in ("limit", "low", "high"))
    if limit is not None and low is not None and high is not None:
        line.append(f"   about {limit:,.0f} ({low:,.0f} to {high:,.0f})", style="bold")
    elif low is not None and high is not None:
        line.append(f"   between {low:,} and {high:,}", style="bold")
    elif low is not None or high is not None:
        line.append(f"   {'above' if low is not None else 'below'} {low or high:,}", style="bold")
    return line


def _nearest(data: dict[str, Any]) -> list[tuple[int, str]]:
    levels = [(int(load), str(outcome)) for load, outcome in data.get("levels", ())]
    middle = data.get("limit") or data.get("high") or data.get("low")
    if len(levels) <= _MOST or middle is None:
        return levels[-_MOST:]
    return sorted(sorted(levels, key=lambda one: abs(one[0] - middle))[:_MOST])

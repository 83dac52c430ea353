"""Native charts over cells: they follow an auditor's changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from svload.report.data.gather import PALETTE
from svload.report.sheets.book import LONGEST_HEADER, Sheet, clean

CHART_ROWS = 20
"""Rows that a chart and its caption take."""
_LOG = " The axis is logarithmic."
_GRID = {"visible": True, "line": {"color": "#D9DDE3"}}
_WIDE = 20.0
"""If the largest value is this many times the smallest, a linear axis shows only the large ones."""

Series = tuple[str, str, str]
"""Name, categories, values: references."""


def wide(values: Iterable[float | None], ratio: float = _WIDE) -> bool:
    """Return whether values need a logarithmic axis, and all are possible on one."""
    known = list(values)
    if not known or any(value is None or value <= 0 for value in known):
        return False
    found = [value for value in known if value is not None]
    return max(found) >= ratio * min(found)


def column_chart(
    sheet: Sheet, title: str, axes: tuple[str, str], series: Sequence[Series], at: tuple[int, int], told: str
) -> None:
    """Draw columns from zero. `axes` are the titles of x and y, `told` is the text below."""
    chart = _columns(sheet, series)
    chart.set_x_axis({"name": axes[0]})
    chart.set_y_axis({"name": axes[1], "major_gridlines": _GRID, "num_format": "General", "min": 0})
    _insert(sheet, chart, title, at, len(series) > 1, told)


def ratio_chart(
    sheet: Sheet, title: str, axes: tuple[str, str], series: Series, at: tuple[int, int], log: bool
) -> None:
    """Draw columns from 1, which is no difference: down if treated is less, up if it is more."""
    chart = _columns(sheet, [series])
    chart.set_x_axis({"name": axes[0], "label_position": "low"})
    base = {"log_base": 10} if log else {}
    chart.set_y_axis({"name": axes[1], "major_gridlines": _GRID, "crossing": 1, **base})
    told = "Columns start at 1, no difference: down where treated is less, up where it is more."
    _insert(sheet, chart, title, at, False, told + (_LOG if log else ""))


def _columns(sheet: Sheet, series: Sequence[Series]) -> Any:
    chart = _chart(sheet, {"type": "column"})
    for colour, one in zip(PALETTE, series, strict=False):
        chart.add_series({**_series(*one), "gap": 60, "fill": {"color": colour}})
    return chart


def interval_chart(
    sheet: Sheet, title: str, axes: tuple[str, str], series: Sequence[Series], at: tuple[int, int], log: bool
) -> None:
    """Draw markers for (value, low, high), not columns: a logarithmic axis has no zero for their base."""
    chart = _chart(sheet, {"type": "line"})
    for (name, categories, values), kind in zip(series, ("diamond", "long_dash", "long_dash"), strict=True):
        colour = {"color": PALETTE[0]}
        marker = {"type": kind, "size": 7, "fill": colour, "border": colour}
        chart.add_series({**_series(name, categories, values), "line": {"none": True}, "marker": marker})
    chart.set_high_low_lines({"line": {"color": PALETTE[0], "width": 1.25}})
    chart.set_x_axis({"name": axes[0], "label_position": "low"})
    y_axis = {"name": axes[1], "major_gridlines": _GRID, "num_format": "General"}
    chart.set_y_axis({**y_axis, **({"log_base": 10, "crossing": "min"} if log else {"min": 0})})
    told = "Diamonds are medians, dashes the ends of their 95 % intervals."
    _insert(sheet, chart, title, at, True, told + (_LOG if log else ""))


def _chart(sheet: Sheet, options: dict[str, str]) -> Any:
    return cast(Any, sheet.book.workbook.add_chart(options))


def _series(name: str, categories: str, values: str) -> dict[str, Any]:
    return {"name": clean(name)[:LONGEST_HEADER], "categories": f"={categories}", "values": f"={values}"}


def _insert(sheet: Sheet, chart: Any, title: str, at: tuple[int, int], legend: bool, told: str) -> None:
    chart.set_title({"name": clean(title)[:LONGEST_HEADER], "name_font": {"size": 12}})
    chart.set_legend({"position": "bottom"} if legend else {"none": True})
    chart.set_size({"width": 880, "height": 340})
    sheet.raw.insert_chart(*at, chart, {"object_position": 2})
    sheet.text(at[0] + CHART_ROWS - 2, at[1], told, "note")  # below it: LibreOffice prints as far as cells go
    sheet.ends_at(at[0] + CHART_ROWS)

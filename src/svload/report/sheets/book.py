"""A workbook: strings stay strings, names are safe, every formula has its value, every row shows its whole
text; native charts over cells follow an auditor's changes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import xlsxwriter
from xlsxwriter.utility import xl_col_to_name
from xlsxwriter.worksheet import Worksheet

from svload.report.data.gather import PALETTE
from svload.report.wording.numbers import Number
from svload.report.wording.spelling import dimension_of, metric_label, name_words, split_metric

_LONGEST_STRING = 32_767
_MOST_PAGE_ROWS = 75
LONGEST_HEADER = 255
LINE_POINTS = 15.0
_BUTTON = 3
"""Characters of a heading's width taken by its filter button."""
_ROOMY = 1.2
"""Average characters of a sentence per unit of column width, which is that of a digit."""
_MOST_LINES = 27
"""Maximum number of lines in a row: Excel's tallest row is 409 points."""
_PAGE_CHARACTERS = 200
"""Total column width that one landscape page still shows at a legible size."""
_UNITS = {"time_s": "s", "size_bytes": "bytes", "rate_rps": "1/s"}
_FORMATS: dict[str, dict[str, Any]] = {
    "title": {"bold": True, "font_size": 16, "text_wrap": True},
    "head": {"bold": True, "bottom": 1, "text_wrap": True},
    "bold": {"bold": True},
    "wrap": {"text_wrap": True},
    "beside": {"text_wrap": True, "align": "left", "indent": 1},
    "excluded": {"font_color": "#57606B", "align": "left", "indent": 1},
    "note": {"italic": True, "font_color": "#57606B"},
    "paragraph": {"italic": True, "font_color": "#57606B", "text_wrap": True},
    "time_s": {"num_format": "0.000000"},
    # A single failure is not rounded away: 99.97 % would read 100.0%.
    "ratio": {"num_format": "[<0.0005]0.0####%;[<0.9995]0.0%;0.0####%"},
    "rate_rps": {"num_format": "#,##0.0"},
    "size_bytes": {"num_format": "#,##0"},
    "count": {"num_format": "#,##0"},
    "cores": {"num_format": "0.000"},
    "times": {"num_format": "0.000"},
    "change": {"num_format": "+0.0%;-0.0%;0.0%"},
    "p": {"num_format": "0.0000"},
    "reason": {"font_color": "#57606B", "align": "right"},
    "VALID": {"font_color": "#14713D", "bold": True, "align": "left", "indent": 1},
    "WEAK": {"font_color": "#8A5A00", "bold": True, "align": "left", "indent": 1},
    "REFUSED": {"font_color": "#B3261E", "bold": True, "align": "left", "indent": 1},
}


def form_of_key(key: str) -> str:
    """Return the number format of a metric."""
    return "cores" if key.endswith(".cpu.mean") else dimension_of(key)


def clean(text: str) -> str:
    """Return text that a cell can hold: no lone surrogates, not too long."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    return safe if len(safe) <= _LONGEST_STRING else safe[: _LONGEST_STRING - 1] + "…"


class Book:
    """The workbook under construction. Sheets are created in order first and filled later."""

    def __init__(self, path: Path, run: str = "") -> None:
        self.run = run
        plain = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
        more = {"nan_inf_to_errors": True, "in_memory": True, "default_format_properties": {"valign": "top"}}
        self.workbook = xlsxwriter.Workbook(str(path), plain | more)
        self.formats = {name: self.workbook.add_format(how) for name, how in _FORMATS.items()}
        self.names: list[str] = []
        self._tables: set[str] = set()

    def sheet(self, name: str, kind: type[Worksheet] | None = None) -> Sheet:
        """Add a sheet with that name, or the nearest free one that Excel allows."""
        safe = re.sub(r"[\[\]:*?/\\\x00-\x1f]", " ", name.encode("utf-8", "replace").decode()).strip(" '")
        safe = "History " if safe.lower() == "history" else safe or "sheet"
        found, number = _utf16_cut(safe, 31).strip(" '"), 2
        while found.lower() in map(str.lower, self.names):
            ending = f" {number}"
            found, number = _utf16_cut(safe, 31 - len(ending)).strip(" '") + ending, number + 1
        self.names.append(found)
        return Sheet(self, self.workbook.add_worksheet(found, kind), found)

    def table_name(self, sheet: str) -> str:
        """Return a name for the next table, after its sheet: `svload_probe_rows`, for formulas."""
        base = "svload_" + (re.sub(r"\W+", "_", sheet, flags=re.ASCII).strip("_") or "sheet")
        found, number = base, 2
        while found.lower() in self._tables:
            found, number = f"{base}_{number}", number + 1
        self._tables.add(found.lower())
        return found

    def close(self) -> None:
        """Write the file. Raises OSError."""
        try:
            self.workbook.close()
        except xlsxwriter.exceptions.FileCreateError as why:
            raise OSError(str(why)) from why


def _utf16_cut(text: str, most: int) -> str:
    """Cut text to at most `most` UTF-16 units, which is how Excel counts."""
    while len(text.encode("utf-16-le")) // 2 > most:
        text = text[:-1]
    return text


class Sheet:
    """One sheet: cells, formulas with values, and tables."""

    def __init__(self, book: Book, raw: Worksheet, name: str) -> None:
        self.book = book
        self.raw = raw
        self.name = name

    def range(self, row: int, column: int, last_row: int | None = None) -> str:
        """Return an absolute reference to a cell, or to a range down from it; rows, columns from 0."""
        letters = xl_col_to_name(column)
        last = "" if last_row is None else f":${letters}${last_row + 1}"
        return "'" + self.name.replace("'", "''") + f"'!${letters}${row + 1}{last}"

    def text(self, row: int, column: int, text: str, form: str = "") -> None:
        """Write a string, whatever it looks like."""
        self.raw.write_string(row, column, clean(text), self.book.formats.get(form))

    def number(
        self, row: int, column: int, value: float | int | None, form: str = "", reason: str = ""
    ) -> None:
        """Write a number, or the reason as text if there is none."""
        if value is None:
            self.text(row, column, reason or "–", "reason")
        else:
            self.raw.write_number(row, column, value, self.book.formats.get(form))

    def write_number(self, row: int, column: int, one: Number) -> None:
        """Write a number as all outputs have it; if REFUSED or missing as text, which no formula counts."""
        if one.value is None or one.refused:
            form, mark = ("REFUSED", one.mark) if one.refused else ("reason", "")
            self.text(row, column, f"{mark} {one.text}".strip(), form)
        else:
            self.number(row, column, one.value, form_of_key(one.key))

    def formula(self, row: int, column: int, formula: str, value: float | str, form: str = "") -> None:
        """Write a formula with its current value."""
        self.raw.write_formula(row, column, formula, self.book.formats.get(form), value)

    def table(
        self, row: int, headers: Sequence[str], rows: int, widths: Sequence[float], frozen: int = 1
    ) -> None:
        """Add a named table with `headers` at `row` over `rows` rows below; it and `frozen` columns stay
        visible.

        In print it is as wide as a page (a very wide one takes as few pages as are legible), with its header
        on each.
        """
        head = self.book.formats["head"]
        columns = [{"header": text, "header_format": head} for text in unique_headers(headers)]
        looks = {"style": "Table Style Light 1", "banded_rows": False}
        style = {"columns": columns, "name": self.book.table_name(self.name), **looks}
        self.raw.add_table(row, 0, row + max(rows, 1), len(headers) - 1, style)
        self.raw.set_row(row, header_height(headers, widths))
        self.raw.freeze_panes(row + 1, frozen)
        for column, width in enumerate(widths):
            self.raw.set_column(column, column, width)
        self.page(pages_wide(widths))
        self.raw.repeat_rows(row)
        self.raw.repeat_columns(0, frozen - 1)

    def page(self, wide: int = 1) -> None:
        """Print landscape on A4, this many pages wide; the footer names run, sheet and page."""
        self.raw.set_landscape()
        self.raw.set_paper(9)  # A4
        self.raw.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.7)
        self.raw.fit_to_pages(wide, 0)
        run, name = (clean(text)[:80].replace("&", "&&") for text in (self.book.run, self.name))
        self.raw.set_footer(f"&L{run}&C{name}&R&P / &N")

    def ends_at(self, row: int) -> None:
        """Record the end of the sheet's last chart: up to a page's rows, one page holds table and charts."""
        self.raw.fit_to_pages(1, 1 if row <= _MOST_PAGE_ROWS else 0)

    def lines(self, row: int, cells: Sequence[tuple[str, float]]) -> None:
        """Make the row as tall as its wrapped (text, column width) need."""
        points = height(cells)
        if points > LINE_POINTS:
            self.raw.set_row(row, points)

    def across(self, row: int, last_column: int, text: str, width: float, form: str = "wrap") -> None:
        """Write a paragraph over the columns up to `last_column`, together `width` wide."""
        self.raw.merge_range(row, 0, row, last_column, "", self.book.formats[form])
        self.text(row, 0, text, form)
        self.lines(row, [(text, width)])


def unique_headers(headers: Sequence[str]) -> list[str]:
    """Return headings as a table needs them: unique (ignoring case), not empty, not too long."""
    found: list[str] = []
    taken: set[str] = set()
    for text in headers:
        base = re.sub(r"[\x00-\x1f]", " ", clean(text))[: LONGEST_HEADER - 5] or "–"
        name, number = base, 2
        while name.lower() in taken:
            name, number = f"{base} {number}", number + 1
        taken.add(name.lower())
        found.append(name)
    return found


def heading(key: str) -> str:
    """Return a full metric name as a heading with its unit: `probe.response.p50` → `probe: response p50, s`.
    Shares are shown in percent."""
    owner, name, stat = split_metric(key)
    if not name:
        return metric_label(key)
    unit = "cores" if key.endswith(".cpu.mean") else _UNITS.get(dimension_of(key), "")
    words = " ".join(part for part in (name_words(name).replace("cpu", "CPU"), stat) if part)
    return (f"{owner}: " if owner else "") + words + (f", {unit}" if unit else "")


def lines(text: str, width: float) -> int:
    """Return the number of lines that a text takes in a column of this width in characters."""
    room = max(int(width), 1)
    return sum(max(len(textwrap.wrap(part, room)), 1) if len(part) > room else 1 for part in text.split("\n"))


def height(cells: Sequence[tuple[str, float]], roomy: float = _ROOMY) -> float:
    """Return the height in points of a row that shows each (text, column width) in full."""
    most = max((lines(text, roomy * width) for text, width in cells), default=1)
    return LINE_POINTS * min(most, _MOST_LINES)


def header_height(headers: Sequence[str], widths: Sequence[float]) -> float:
    """Return the height in points of a table's header row: bold, beside filter buttons."""
    return height([(text, width - _BUTTON) for text, width in zip(headers, widths, strict=False)], 1.0)


def pages_wide(widths: Sequence[float]) -> int:
    """Return the number of pages for a printed table: one, unless that would be illegible."""
    return max(1, round(sum(widths) / _PAGE_CHARACTERS))


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
    sheet: Sheet,
    title: str,
    axes: tuple[str, str],
    series: Sequence[Series],
    at: tuple[int, int],
    caption: str,
) -> None:
    """Draw columns from zero. `axes` are the titles of x and y, `caption` is the text below."""
    chart = _columns(sheet, series)
    chart.set_x_axis({"name": axes[0]})
    chart.set_y_axis({"name": axes[1], "major_gridlines": _GRID, "num_format": "General", "min": 0})
    _insert(sheet, chart, title, at, len(series) > 1, caption)


def ratio_chart(
    sheet: Sheet, title: str, axes: tuple[str, str], series: Series, at: tuple[int, int], log: bool
) -> None:
    """Draw columns from 1, which is no difference: down if treated is less, up if it is more."""
    chart = _columns(sheet, [series])
    chart.set_x_axis({"name": axes[0], "label_position": "low"})
    base = {"log_base": 10} if log else {}
    chart.set_y_axis({"name": axes[1], "major_gridlines": _GRID, "crossing": 1, **base})
    caption = "Columns start at 1, no difference: down where treated is less, up where it is more."
    _insert(sheet, chart, title, at, False, caption + (_LOG if log else ""))


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
    caption = "Diamonds are medians, dashes the ends of their 95 % intervals."
    _insert(sheet, chart, title, at, True, caption + (_LOG if log else ""))


def _chart(sheet: Sheet, options: dict[str, str]) -> Any:
    return cast(Any, sheet.book.workbook.add_chart(options))


def _series(name: str, categories: str, values: str) -> dict[str, Any]:
    return {"name": clean(name)[:LONGEST_HEADER], "categories": f"={categories}", "values": f"={values}"}


def _insert(sheet: Sheet, chart: Any, title: str, at: tuple[int, int], legend: bool, caption: str) -> None:
    chart.set_title({"name": clean(title)[:LONGEST_HEADER], "name_font": {"size": 12}})
    chart.set_legend({"position": "bottom"} if legend else {"none": True})
    chart.set_size({"width": 880, "height": 340})
    sheet.raw.insert_chart(*at, chart, {"object_position": 2})
    sheet.text(
        at[0] + CHART_ROWS - 2, at[1], caption, "note"
    )  # below it: LibreOffice prints as far as cells go
    sheet.ends_at(at[0] + CHART_ROWS)

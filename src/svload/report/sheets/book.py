"""A workbook with the manners an auditor expects: strings stay strings, names are safe, every formula carries its value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import xlsxwriter
from xlsxwriter.utility import xl_col_to_name
from xlsxwriter.worksheet import Worksheet

from svload.model.units import Dimension
from svload.report.palette import PALETTE

MOST_ROWS = 1_048_576
_LONGEST_STRING = 32_767
_A4 = 9
_LONGEST_HEADER = 255
_FORMATS: dict[str, dict[str, Any]] = {
    "title": {"bold": True, "font_size": 16},
    "head": {"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"},
    "bold": {"bold": True},
    "wrap": {"text_wrap": True, "valign": "top"},
    "note": {"italic": True, "font_color": "#57606B"},
    "time_s": {"num_format": "0.000000"},
    "ratio": {"num_format": "0.0%"},
    "rate_rps": {"num_format": "#,##0.0"},
    "size_bytes": {"num_format": "#,##0"},
    "count": {"num_format": "#,##0"},
    "cores": {"num_format": "0.000"},
    "times": {"num_format": "0.000"},
    "change": {"num_format": "+0.0%;-0.0%;0.0%"},
    "p": {"num_format": "0.0000"},
    "reason": {"font_color": "#57606B", "align": "right"},
    "VALID": {"font_color": "#14713D", "bold": True},
    "WEAK": {"font_color": "#8A5A00", "bold": True},
    "REFUSED": {"font_color": "#B3261E", "bold": True},
}


def clean(text: str) -> str:
    """Text that a cell can hold: no lone surrogates, not too long. Characters that look like formulas stay characters."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    return safe if len(safe) <= _LONGEST_STRING else safe[: _LONGEST_STRING - 1] + "…"


class Book:
    """The workbook under construction. Sheets are made in their order first and filled later."""

    def __init__(self, path: Path) -> None:
        self.workbook = xlsxwriter.Workbook(
            str(path),
            {
                "strings_to_formulas": False,
                "strings_to_urls": False,
                "strings_to_numbers": False,
                "nan_inf_to_errors": True,
            },
        )
        self.formats = {name: self.workbook.add_format(how) for name, how in _FORMATS.items()}
        self._sheets: set[str] = set()
        self._tables: set[str] = set()

    def sheet(self, name: str, kind: type[Worksheet] | None = None) -> Sheet:
        """A new sheet under that name, or the nearest that Excel allows and that is free."""
        safe = (
            re.sub(r"[\[\]:*?/\\\x00-\x1f]", " ", name.encode("utf-8", "replace").decode()).strip(" '")
            or "sheet"
        )
        safe = "History " if safe.lower() == "history" else safe
        found, number = _utf16_cut(safe, 31).strip(" '"), 2
        while found.lower() in self._sheets:
            ending = f" {number}"
            found, number = _utf16_cut(safe, 31 - len(ending)).strip(" '") + ending, number + 1
        self._sheets.add(found.lower())
        return Sheet(self, self.workbook.add_worksheet(found, kind), found)

    def table_name(self, sheet: str) -> str:
        """A name for the next table, after its sheet: `svload_probe_rows`. Formulas of an auditor use it."""
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
    """At most so many UTF-16 units, which is how Excel counts."""
    while len(text.encode("utf-16-le")) // 2 > most:
        text = text[:-1]
    return text


class Sheet:
    """One sheet: cells, formulas with values, and tables."""

    def __init__(self, book: Book, raw: Worksheet, name: str) -> None:
        self.book = book
        self.raw = raw
        self.name = name

    @property
    def quoted(self) -> str:
        """The name as formulas spell it."""
        return "'" + self.name.replace("'", "''") + "'"

    def range(
        self, row: int, column: int, last_row: int | None = None, last_column: int | None = None
    ) -> str:
        """An absolute reference from any sheet; rows and columns from 0."""
        first = f"${xl_col_to_name(column)}${row + 1}"
        if last_row is None and last_column is None:
            return f"{self.quoted}!{first}"
        last = f"${xl_col_to_name(column if last_column is None else last_column)}${(row if last_row is None else last_row) + 1}"
        return f"{self.quoted}!{first}:{last}"

    def text(self, row: int, column: int, text: str, form: str = "") -> None:
        """A string, whatever it looks like."""
        self.raw.write_string(row, column, clean(text), self.book.formats.get(form))

    def number(
        self, row: int, column: int, value: float | int | None, form: str = "", reason: str = ""
    ) -> None:
        """A number; where there is none, its reason as text."""
        if value is None:
            self.text(row, column, reason or "–", "reason")
        else:
            self.raw.write_number(row, column, value, self.book.formats.get(form))

    def formula(self, row: int, column: int, formula: str, value: float | str, form: str = "") -> None:
        """A formula with the value that it has now."""
        self.raw.write_formula(row, column, formula, self.book.formats.get(form), value)

    def array_formula(self, row: int, column: int, formula: str, value: float | str, form: str = "") -> None:
        """A formula over whole ranges, with its value."""
        self.raw.write_array_formula(
            row, column, row, column, f"{{{formula}}}", self.book.formats.get(form), value
        )

    def table(
        self,
        row: int,
        headers: Sequence[str],
        rows: int,
        widths: Sequence[float] = (),
        freeze: tuple[int, int] | None = None,
    ) -> None:
        """A named table with `headers` at `row` over `rows` rows below, frozen at its header. Rows are written apart.

        Printed, it is as wide as a page and bears its header on each.
        """
        columns = [
            {"header": text, "header_format": self.book.formats["head"]} for text in unique_headers(headers)
        ]
        style = {
            "columns": columns,
            "name": self.book.table_name(self.name),
            "style": "Table Style Light 1",
            "banded_rows": False,
        }
        self.raw.add_table(row, 0, row + max(rows, 1), len(headers) - 1, style)
        self.raw.freeze_panes(*(freeze or (row + 1, 1)))
        self.raw.set_landscape()
        self.raw.set_paper(_A4)
        self.raw.fit_to_pages(1, 0)
        self.raw.repeat_rows(row)
        for column, width in enumerate(widths):
            self.raw.set_column(column, column, width)

    def column_chart(
        self,
        title: str,
        axis: str,
        series: Sequence[tuple[str, str, str]],
        at: tuple[int, int],
        log: bool = False,
    ) -> None:
        """A native column chart of (name, categories, values) references."""
        chart = cast(Any, self.book.workbook.add_chart({"type": "column"}))
        for number, (name, categories, values) in enumerate(series):
            chart.add_series(
                {
                    "name": clean(name)[:_LONGEST_HEADER],
                    "categories": f"={categories}",
                    "values": f"={values}",
                    "gap": 60,
                    "fill": {"color": PALETTE[number % len(PALETTE)]},
                }
            )
        chart.set_title({"name": clean(title)[:_LONGEST_HEADER], "name_font": {"size": 12}})
        chart.set_y_axis(
            {
                "name": axis,
                "major_gridlines": {"visible": True, "line": {"color": "#D9DDE3"}},
                **({"log_base": 10} if log else {}),
            }
        )
        chart.set_legend({"position": "bottom"} if len(series) > 1 else {"none": True})
        chart.set_size({"width": 880, "height": 340})
        self.raw.insert_chart(*at, chart)


def unique_headers(headers: Sequence[str]) -> list[str]:
    """Headings as a table needs them: each once (whatever the case of its letters), none empty, none too long."""
    found: list[str] = []
    taken: set[str] = set()
    for text in headers:
        base = re.sub(r"[\x00-\x1f]", " ", clean(text))[: _LONGEST_HEADER - 5] or "–"
        name, number = base, 2
        while name.lower() in taken:
            name, number = f"{base} {number}", number + 1
        taken.add(name.lower())
        found.append(name)
    return found


def form_of(dimension: Dimension) -> str:
    """The number format of a dimension."""
    return dimension

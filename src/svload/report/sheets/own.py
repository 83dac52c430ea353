"""The study's own tables, a sheet each."""

from __future__ import annotations

from svload.model.own_tables import OwnTable
from svload.report.sheets.book import Sheet

_HEAD = 2
_NARROW, _WIDE = 10.0, 44.0


def fill_own(sheet: Sheet, table: OwnTable, note: str) -> None:
    """Its words, then its cells as text."""
    widths = [
        min(_WIDE, max(_NARROW, 1.1 * max(len(line[at]) for line in (table.head, *table.rows))))
        for at in range(len(table.head))
    ]
    sheet.text(0, 0, f"{table.title}. {table.note}".strip(), "note")
    sheet.text(1, 0, note, "note")
    sheet.table(_HEAD, table.head, len(table.rows), widths)
    for row, line in enumerate(table.rows, _HEAD + 1):
        for column, cell in enumerate(line):
            sheet.text(row, column, cell, "wrap")
        sheet.lines(row, list(zip(line, widths, strict=True)))

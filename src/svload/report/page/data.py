"""The numbers behind each chart, included in the page: CSV, compressed, unpacked on the reader's request."""

from __future__ import annotations

import base64
import csv
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO

from svload.model.visible import plain_cell


@dataclass(frozen=True)
class Table:
    """A chart's numbers in base units (seconds, bytes, ratios): a heading and rows."""

    heading: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def csv_text(table: Table) -> str:
    """Return the table as CSV, numbers with five digits; a text that a spreadsheet would take for a formula
    gets an apostrophe."""
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(table.heading)
    writer.writerows(map(_cell, row) for row in table.rows)
    return out.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.5g}"
    text = str(value)
    return text if isinstance(value, int) else plain_cell(text)


def packed(tables: Mapping[str, Table]) -> str:
    """Return `{figure's id: CSV}` as base64 of gzip of JSON, identical for identical numbers; "" without
    any."""
    texts = {name: csv_text(table) for name, table in tables.items() if table.rows}
    if not texts:
        return ""
    whole = json.dumps(texts, ensure_ascii=False).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(whole, 9, mtime=0)).decode("ascii")

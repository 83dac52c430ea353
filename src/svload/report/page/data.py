"""What the page's sections share: the numbers behind each chart, included in the page as compressed CSV that
is unpacked on the reader's request; and permanent ids, a case's own name if possible, so that
`report.html#TC7` stays valid, and `#TC7.time` for a part of it."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO

from svload.model.visible import plain_cell


@dataclass(frozen=True)
class Table:
    """A chart's numbers in base units (seconds, bytes, ratios): a heading and rows."""

    heading: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def csv_text(table: Table) -> str:
    """Return the table as CSV with five digits; what spreadsheets take for formulas has an apostrophe."""
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
    """Return `{figure's id: CSV}` as base64 of gzip of JSON, always the same; "" without any."""
    texts = {name: csv_text(table) for name, table in tables.items() if table.rows}
    if not texts:
        return ""
    whole = json.dumps(texts, ensure_ascii=False).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(whole, 9, mtime=0)).decode("ascii")


_PLAIN = re.compile(r"[^A-Za-z0-9_.\-]+")
_LONGEST = 60


class Anchors:
    """Unique ids by name, or by owner and part. The same names in the same order give the same ids."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in reserved}
        self._ids: dict[tuple[str, ...], str] = {}

    def __call__(self, *name: str) -> str:
        """Return the id of a name (owner and part are joined with a dot): itself, or its plain part with a
        hash if links would lose characters."""
        if name not in self._ids:
            self._ids[name] = self._new(".".join(name))
        return self._ids[name]

    def _new(self, name: str) -> str:
        plain = _PLAIN.sub("-", name).strip("-.")
        if plain != name or not plain[:1].isalpha() or len(plain) > _LONGEST:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            plain = f"c-{plain[: _LONGEST - 12]}-{digest}" if plain else f"c-{digest}"
        found, number = plain, 2
        while found.lower() in self._taken:
            found, number = f"{plain}-{number}", number + 1
        self._taken.add(found.lower())
        return found

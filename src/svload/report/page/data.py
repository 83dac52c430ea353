"""What the page's sections share: how much a page can afford to draw; the numbers behind each chart, included
as compressed CSV that is unpacked on the reader's request; and permanent ids, a case's own name if possible,
so that `report.html#TC7` stays valid, and `#TC7.time` for a part of it."""

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

LARGEST_BYTES = 8_000_000
"""Readers want everything, browsers can handle 6 MB."""


@dataclass(frozen=True)
class Detail:
    """One level of detail. `note` is the page's remark on it; empty for full detail."""

    points: int
    """Points per line over time; 0: no series is drawn."""
    resource_points: int
    """Points per line of the panels of every monitored resource; 0: only CPU and memory are drawn."""
    carried: bool
    """Whether the page includes the numbers of its series; else all of them are in series.csv beside it."""
    replicates: int
    """Replicates drawn as separate lines beside the median or the pooled curve."""
    curve_points: int
    """Points of a percentile curve."""
    dots: int
    """Replicates drawn as points."""
    sentences: int
    """Sentences of a check that are shown unfolded."""
    passed: bool
    """Whether checks that passed show their sentences, and each mark its trial."""
    small: bool
    """Only the main group's curve in a case; its anatomy is shown only with the others."""
    flame: float
    """Smaller functions, by share of a case's samples, are not in its flame graph; 0: it has none."""
    note: str = ""


_BESIDE = "the series of every monitored resource are in series.csv next to this page"
LEVELS = (
    Detail(60, 60, True, 8, 60, 1000, 6, True, False, 0.002),
    Detail(60, 20, True, 8, 60, 1000, 6, True, False, 0.004, "There is much to draw: of monitored resources 20 points of each series are drawn at most; their CSV has all."),
    Detail(40, 0, False, 3, 60, 200, 3, True, False, 0.008, f"There are many cases: over time CPU and memory, three replicates and the median of all are drawn; {_BESIDE}."),
    Detail(24, 0, False, 0, 40, 60, 2, False, False, 0.015, f"There are many cases: over time and in curves only the median is drawn, and of checks that passed the marks alone; {_BESIDE}."),
    Detail(0, 0, False, 0, 40, 40, 1, False, False, 0, f"There are too many cases to draw each over time: {_BESIDE}, with those of load, responses and errors."),
    Detail(0, 0, False, 0, 16, 16, 1, False, True, 0, f"There are very many cases: {_BESIDE}, with those of load, responses and errors, and of the curves only the main group's is drawn."),
)  # fmt: skip

"""Detail levels from most to least; the first that fits is used. Resources' series are dropped first."""

_UP_TO = (45, 60, 125, 180, 230)


def first_level(cases: int) -> int:
    """Return the level to try first by the number of cases, so that few pages are rendered in vain."""
    return sum(cases > most for most in _UP_TO)


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

"""inputs/: the results of set-up. Object tables as CSV with digests: a resumed run requests the same rows."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from svload.model.errors import fail
from svload.model.traffic import TableSource
from svload.store.seal import sha256_file, write_text, write_whole
from svload.study import read_file

Table = Mapping[str, Sequence[object]]


def write_table(folder: Path, name: str, table: Table) -> Path:
    """Write `table` (column name → values) as `<name>.csv`, after its SHA-256; return the path of the CSV."""
    data = csv_bytes(table)
    path = folder / f"{name}.csv"
    write_text(path.with_suffix(".sha256"), hashlib.sha256(data).hexdigest() + "\n")
    write_whole(path, data)
    return path


def csv_bytes(table: Table) -> bytes:
    """Return what `write_table` writes."""
    text = _csv_text(table)
    # Before Python 3.13 the writer leaves a lone “\\r” unquoted, and the reader ends the row there.
    return (_csv_text(table, quoted=True) if "\r" in text else text).encode()


def _csv_text(table: Table, quoted: bool = False) -> str:
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    rows.writerow(table)
    rows.writerows(zip(*table.values(), strict=True))
    return buffer.getvalue()


def own_table(source: TableSource) -> Table:
    """Return the rows that the study provides: from a CSV or Parquet file, a list or a range; every value as
    text, except sizes (`…_bytes`).

    Raise SvloadError input-unreadable.
    """
    if source.values is not None:
        return {"value": source.values}
    if source.numbers is not None:
        return {"value": range(source.numbers[0], source.numbers[1] + 1)}
    kind, file = ("parquet", source.parquet) if source.parquet is not None else ("csv", source.csv)
    try:
        return read_file(kind, Path(file or ""))
    except (OSError, ValueError) as why:
        raise fail("input-unreadable", path=file, reason=str(why)) from why


def tables_of(folder: Path, *, measured: bool = True) -> dict[str, Path]:
    """Return the tables of inputs/ by name, each checked against its digest; if the run has not `measured`
    anything yet, only the intact ones.

    Raise SvloadError run-damaged if a table that trials were measured with does not match.
    """
    found = {}
    for path in sorted(folder.glob("*.csv")):
        if _is_proved(path):
            found[path.stem] = path
        elif measured:
            raise fail("run-damaged", path=path, reason="its digest does not match")
    return found


def _is_proved(path: Path) -> bool:
    digest = path.with_suffix(".sha256")
    return digest.is_file() and sha256_file(path) == digest.read_text(errors="replace").strip()


def row_count(path: Path) -> int:
    """Return the number of rows of a table without its header: a row ends with its quotation marks closed."""
    with path.open("rb") as file:
        marks = accumulate(line.count(b'"') for line in file)
        return max(0, sum(count % 2 == 0 for count in marks) - 1)

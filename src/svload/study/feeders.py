"""Feeders with rows beside the study: their columns, mistakes in their files, and the tables they need."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

from svload.model.bounds import ROWS, TABLE_BYTES
from svload.model.traffic import Feeder, TableSource, WrittenSet
from svload.study import schema
from svload.study.beside import NO_FILE, file_beside, text_beside
from svload.study.mistakes import Mistake, bad_value, shortened
from svload.study.references import COLUMNS, refers, unescaped
from svload.study.tree import dicts_of, section_of

_SIZE = re.compile(r"[0-9]{1,18}")
VALUE = ("value",)
"""The column of a list or a range."""
_FILES = ("csv", "parquet")


def feeder_columns(
    data: Mapping[str, Any], folder: FilePath | None = None
) -> dict[str, tuple[str, ...] | None]:
    """Return the columns of every feeder of a study as written; None: of a file that cannot be read here
    (without `folder`: of any). Names with a dot are left out: no reference can mean them."""
    feeders = dicts_of(section_of(data, "feeders"))
    return {name: _columns(feeder, folder) for name, feeder in feeders if "." not in name}


def written_sets(data: Mapping[str, Any]) -> frozenset[str]:
    """Return the feeders whose rows requests write."""
    return frozenset(name for name, feeder in dicts_of(section_of(data, "feeders")) if feeder.get("written"))


def _columns(feeder: Mapping[str, Any], folder: FilePath | None) -> tuple[str, ...] | None:
    if "values" in feeder or "range" in feeder:
        return VALUE
    kind = next((kind for kind in _FILES if kind in feeder), None)
    if kind is None:
        return COLUMNS
    name = feeder[kind]
    if folder is None or not isinstance(name, str) or refers(name):
        return None
    file = file_beside(folder, name)
    try:
        return header(kind, file) if file else None
    except (OSError, ValueError, csv.Error):
        return None


def header(kind: str, file: FilePath) -> tuple[str, ...]:
    """Return the columns of a CSV or Parquet file. Raises OSError, ValueError for a file that has none."""
    if kind == "parquet":
        from pyarrow import ArrowException
        from pyarrow.parquet import read_schema

        try:
            return tuple(read_schema(file).names)
        except ArrowException as why:
            raise ValueError(str(why)) from why
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return _names(next(csv.reader(lines), []))


def read_file(kind: str, file: FilePath) -> dict[str, Sequence[object]]:
    """Return the rows of a CSV or Parquet file: column name → values. Raises OSError, and ValueError that
    states what is wrong and where."""
    if file.stat().st_size > TABLE_BYTES.most:
        raise ValueError(f"at most {TABLE_BYTES.most:,} bytes are read ({TABLE_BYTES.because})")
    table = _parquet(file) if kind == "parquet" else _csv(file)
    for name in (name for name in table if name.endswith("_bytes")):
        if not all(_SIZE.fullmatch(str(value)) for value in table[name]):
            raise ValueError(f"the column {shortened(name)} holds more than whole numbers of bytes")
    return table


def _csv(file: FilePath) -> dict[str, Sequence[object]]:
    rows = csv.reader(io.StringIO(text_beside(file, TABLE_BYTES.most), newline=""), strict=True)
    found: list[list[str]] = []
    try:
        names = _names(next(rows, []))
        for row in rows:
            if len(row) != len(names):
                raise ValueError(
                    f"line {rows.line_num} has {len(row)} values, and {len(names)} columns are named"
                )
            if any("\0" in value for value in row):
                raise ValueError(f"line {rows.line_num} holds a NUL")
            found.append(row)
            if len(found) > ROWS.most:
                raise ValueError(f"{ROWS.text}")
    except csv.Error as why:
        raise ValueError(f"line {rows.line_num}: {why}") from why
    if not found:
        raise ValueError("it has no rows")
    return dict(zip(names, zip(*found, strict=True), strict=True))


def _names(first: Sequence[str]) -> tuple[str, ...]:
    if not first or not all(first) or len(set(first)) < len(first):
        raise ValueError("its first line does not name the columns, each once")
    return tuple(first)


def _parquet(file: FilePath) -> dict[str, Sequence[object]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        found = ParquetFile(file)
        # Texts stay dictionary-encoded until their length with all repetitions is known.
        texts = [field.name for field in found.schema_arrow if _is_text(field.type)]
        found = ParquetFile(file, read_dictionary=texts)
        size = sum(found.metadata.row_group(at).total_byte_size for at in range(found.num_row_groups))
        size = max(size, found.metadata.num_rows * sum(_least_bytes(field) for field in found.schema_arrow))
        if found.metadata.num_rows <= ROWS.most and size <= TABLE_BYTES.most:
            table = found.read()
            size = sum(map(_decoded_bytes, table.columns))
        if found.metadata.num_rows > ROWS.most or size > TABLE_BYTES.most:
            raise ValueError(f"{ROWS.text}, of {TABLE_BYTES.most:,} bytes at most")
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except ArrowException as why:
        raise ValueError(" ".join(str(why).split())) from why
    if not table.num_rows or any(None in values for values in columns.values()):
        raise ValueError("it has no rows, or a row lacks a value")
    return columns


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(is_one(kind) for is_one in kinds)


def _least_bytes(field: Any) -> int:
    """Return the least size of each row of a column. Raises ValueError for several values per row."""
    from pyarrow import types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if types.is_nested(kind):
        raise ValueError(f"the column {shortened(field.name)} holds more than one value a row")
    return int(kind.byte_width) if types.is_fixed_size_binary(kind) else 0


def _decoded_bytes(column: Any) -> int:
    """Return the size of a column's values, counting those of a dictionary once per row."""
    from pyarrow import DictionaryArray, compute

    total = 0
    for chunk in column.chunks:
        if isinstance(chunk, DictionaryArray) and _is_text(chunk.dictionary.type):
            lengths = compute.binary_length(chunk.dictionary).cast("int64")
            total += compute.sum(lengths.take(chunk.indices)).as_py() or 0
        else:
            total += chunk.nbytes
    return total


def file_mistakes(data: Mapping[str, Any], folder: FilePath) -> Iterable[Mistake]:
    """Return files of feeders that are missing, lie outside the study's folder, or are no tables."""
    for name, feeder in dicts_of(section_of(data, "feeders")):
        for kind in _FILES:
            named = feeder.get(kind)
            if not isinstance(named, str) or refers(named):
                continue
            path = ("feeders", name, kind)
            file = file_beside(folder, named)
            if file is None:
                yield bad_value(path, NO_FILE[0], named, NO_FILE[1])
                continue
            found = file.stat()
            if fault := _fault(kind, file, found.st_mtime_ns, found.st_size):
                yield bad_value(path, f"expected a table ({fault})", named)


@lru_cache(maxsize=64)
def _fault(kind: str, file: FilePath, changed_ns: int, size_bytes: int) -> str:
    """Return what is wrong with a file's rows, or "". Cached, since profiles ask for the same files again."""
    try:
        read_file(kind, file)
    except (OSError, ValueError) as why:
        return str(why)
    return ""


def read_set(name: str, part: schema.FeederPart, tables: Mapping[str, str]) -> WrittenSet:
    """Return the feeder of a case whose rows requests write."""
    table = None if part.source is None else tables.get(part.source, part.source)
    return WrittenSet(name=name, digest=part.written or "md5", table=table)


def read_feeder(
    name: str, part: schema.FeederPart, tables: Mapping[str, str]
) -> tuple[Feeder, TableSource | None]:
    """Return a case's feeder, and its table if the study itself brings it. A file's path is as in the study.

    `tables`: set under data → table with its content in this case.
    """
    table = None if part.source is None else tables.get(part.source, part.source)
    source = None
    if table is None:
        numbers = part.numbers
        values = unescaped(part.values)
        key = f"{part.csv} {part.parquet} {values} {numbers}"
        table = f"{name}.{hashlib.blake2b(key.encode(), digest_size=4).hexdigest()}"
        source = TableSource(
            name=table,
            csv=part.csv,
            parquet=part.parquet,
            values=None if values is None else tuple(values),
            numbers=numbers,
        )
    feeder = Feeder(
        name=name,
        table=table,
        take=part.take,
        offset=part.offset,
        skew=part.skew,
        hot=None if part.hot is None else (part.hot.rows, part.hot.requests),
        when_exhausted=part.when_exhausted,
    )
    return feeder, source

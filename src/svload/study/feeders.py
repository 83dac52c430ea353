"""Feeders whose rows stand beside the study: their columns, what is wrong with their files, and the tables they ask for."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from svload.model.traffic import Feeder, TableSource
from svload.study import schema
from svload.study.mistakes import Mistake, bad_value
from svload.study.references import COLUMNS
from svload.study.values import holds_reference

VALUE = ("value",)
"""The column of a list or a range."""
_FILES = ("csv", "parquet")


def feeder_columns(
    data: Mapping[str, Any], folder: FilePath | None = None
) -> dict[str, tuple[str, ...] | None]:
    """The columns of every feeder of a study as written; None: of a file that cannot be read here (without `folder`: of any)."""
    raw = data.get("feeders")
    return {
        name: _columns(feeder, folder)
        for name, feeder in (raw.items() if isinstance(raw, dict) else ())
        if isinstance(feeder, dict)
    }


def _columns(feeder: Mapping[str, Any], folder: FilePath | None) -> tuple[str, ...] | None:
    if "values" in feeder or "range" in feeder:
        return VALUE
    kind = next((kind for kind in _FILES if kind in feeder), None)
    if kind is None:
        return COLUMNS
    name = feeder[kind]
    if folder is None or not isinstance(name, str) or holds_reference(name):
        return None
    file = _inside(folder, name)
    try:
        return header(kind, file) if file else None
    except (OSError, ValueError):
        return None


def _inside(folder: FilePath, name: str) -> FilePath | None:
    """The file beside the study; None where there is none, or it lies elsewhere and is not to be opened."""
    file = (folder / name).resolve()
    return file if folder.resolve() in file.parents and file.is_file() else None


def header(kind: str, file: FilePath) -> tuple[str, ...]:
    """The columns of a CSV or Parquet file. Raises OSError, ValueError for a file that has none."""
    if kind == "parquet":
        from pyarrow import ArrowException
        from pyarrow.parquet import read_schema

        try:
            return tuple(read_schema(file).names)
        except ArrowException as why:
            raise ValueError(str(why)) from why
    with file.open(encoding="utf-8-sig", newline="") as lines:
        names = tuple(next(csv.reader(lines), ()))
        if not names or not all(names) or len(set(names)) < len(names):
            raise ValueError("its first line does not name the columns, each once")
        if next(lines, None) is None:
            raise ValueError("it has no rows")
    return names


def file_mistakes(data: Mapping[str, Any], folder: FilePath) -> Iterable[Mistake]:
    """Files of feeders that are not there, lie outside the study's folder, or are no table."""
    raw = data.get("feeders")
    for name, feeder in raw.items() if isinstance(raw, dict) else ():
        for kind in _FILES:
            named = feeder.get(kind) if isinstance(feeder, dict) else None
            if not isinstance(named, str) or holds_reference(named):
                continue
            path = ("feeders", name, kind)
            file = _inside(folder, named)
            if file is None:
                yield bad_value(path, "a file inside the study's folder was expected", named)
                continue
            try:
                header(kind, file)
            except (OSError, ValueError) as why:
                yield bad_value(path, f"a table was expected ({why})", named)


def read_feeder(name: str, part: schema.FeederPart) -> tuple[Feeder, TableSource | None]:
    """The feeder of a case, and its table where the study itself brings it. A file's path is as the study writes it."""
    table = part.source
    source = None
    if table is None:
        numbers = part.numbers
        values = part.values
        told = f"{part.csv} {part.parquet} {values} {numbers}"
        table = f"{name}.{hashlib.blake2b(told.encode(), digest_size=4).hexdigest()}"
        source = TableSource(
            name=table,
            csv=part.csv,
            parquet=part.parquet,
            values=None if values is None else tuple(values),
            numbers=numbers,
        )
    feeder = Feeder(
        name=name, table=table, take=part.take, offset=part.offset, when_exhausted=part.when_exhausted
    )
    return feeder, source

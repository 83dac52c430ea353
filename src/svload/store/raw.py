"""Tables as generators and monitors write them: one file, a JSON header line, then contiguous little-endian
buffers.

Uses only the standard library: the process that makes load imports it. The controller converts such files to
Parquet (`svload.store.parquet`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svload.model.columns import WIDTH
from svload.model.errors import fail
from svload.model.outputs import output
from svload.model.parsed import parsed

FORMAT = 1
_ALIGN = 64
_LONGEST_HEADER_BYTES = 16 << 20

RawTable = dict[str, tuple[str, Any]]
"""Column name → (type code, cells): bytes for the codes of `model.columns.WIDTH`, `list[str]` for `utf8`."""


def write_tables(path: Path, tables: Mapping[str, Mapping[str, tuple[str, Any]]]) -> None:
    """Write `tables` to `path` atomically (temporary file, then rename; not fsynced).

    Raise ValueError for an unknown type code, a torn buffer or columns of different lengths; OSError.
    """
    buffers: list[memoryview] = []
    layout: dict[str, dict[str, Any]] = {}
    offset = 0
    for table_name, table in tables.items():
        lengths = {name: _length(table_name, name, code, cells) for name, (code, cells) in table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of {table_name} differ in length: {lengths}")
        columns = []
        for name, (code, cells) in table.items():
            buffer = memoryview(json.dumps(cells).encode() if code == "utf8" else cells).cast("B")
            columns.append([name, code, offset, len(buffer)])
            buffers.append(buffer)
            offset = _aligned(offset + len(buffer))
        layout[table_name] = {"rows": next(iter(lengths.values()), 0), "columns": columns}
    header = json.dumps(
        {"svload": "tables", "format": FORMAT, "bytes": offset, "tables": layout}, separators=(",", ":")
    )
    head = header.encode()
    head += b" " * (_aligned(len(head) + 1) - len(head) - 1) + b"\n"
    with output(path) as fresh, fresh.open("wb") as file:
        file.write(head)
        for buffer in buffers:
            file.write(buffer)
            file.write(b"\0" * (_aligned(len(buffer)) - len(buffer)))


def read_tables(path: Path) -> dict[str, RawTable]:
    """Return the tables of a file written by `write_tables`, with their cells as `bytes` (or `list[str]`).

    Raise SvloadError: run-damaged, format-newer; FileNotFoundError if absent.
    """
    with path.open("rb") as file:
        line = file.readline(_LONGEST_HEADER_BYTES)
        data_from = file.tell()
        data_bytes = os.fstat(file.fileno()).st_size - data_from
        header = _header(path, line)
        if header["bytes"] != data_bytes:
            raise fail(
                "run-damaged",
                path=path,
                reason=f"it has {data_bytes} bytes of data instead of {header['bytes']}",
            )
        try:
            return {
                name: {
                    column: (code, _cells(file, code, data_from + offset, length, layout["rows"]))
                    for column, code, offset, length in layout["columns"]
                }
                for name, layout in header["tables"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as why:
            raise fail("run-damaged", path=path, reason=f"its tables do not fit its header ({why})") from why


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _length(table: str, name: str, code: str, cells: Any) -> int:
    if code == "utf8":
        return len(cells)
    if code not in WIDTH:
        raise ValueError(f"{table}.{name} has the unknown type {code!r}")
    size = memoryview(cells).nbytes
    if size % WIDTH[code]:
        raise ValueError(f"{table}.{name} holds {size} bytes, which is not a whole number of {code}")
    return size // WIDTH[code]


def _header(path: Path, line: bytes) -> dict[str, Any]:
    try:
        header = parsed(line)
        found = int(header["format"])
        if header["svload"] != "tables" or not isinstance(header["tables"], dict):
            raise ValueError("the first line is of another kind")
        header["bytes"] = int(header["bytes"])
    except (ValueError, KeyError, TypeError) as why:
        raise fail("run-damaged", path=path, reason=f"it has no header of tables ({why})") from why
    if found > FORMAT:
        raise fail("format-newer", path=path, found=found, known=FORMAT)
    return dict(header)


def _cells(file: Any, code: str, offset: int, length: int, rows: int) -> Any:
    file.seek(offset)
    buffer = file.read(length)
    if len(buffer) != length:
        raise ValueError("a buffer is cut short")
    cells = parsed(buffer) if code == "utf8" else buffer
    if (len(cells) if code == "utf8" else len(cells) / WIDTH[code]) != rows:
        raise ValueError("a column has another length than its table")
    return cells

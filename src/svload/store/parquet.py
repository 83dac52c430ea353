"""Tables of a trial as Parquet (zstd), and their columns as numpy arrays that are read on first use.

Buffers are wrapped, not copied, on their way into Arrow. Import this module late: it needs pyarrow and numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from svload.model import columns
from svload.model.errors import fail
from svload.model.facts import TrialLab
from svload.model.seals import Seal
from svload.model.stacks import Stacks
from svload.model.summaries import TrialSummary, TurnRecord
from svload.store.layout import RunDir, TrialDir
from svload.store.load_time import STAMPS, Turns, monitors_in_load_time, samples_in_load_time

Arrays = dict[str, NDArray[Any]]
AnyTable = Mapping[str, "tuple[str, Any] | NDArray[Any]"]

TABLES: Mapping[str, Mapping[str, str]] = {
    "intervals": columns.INTERVALS,
    "histograms": columns.HISTOGRAMS,
    "samples": {**columns.SAMPLES, "share": "u16"},
    "rows": columns.ROWS,
    "monitors": columns.MONITORS,
}
"""The tables in a trial's folder, with their columns."""

_ARROW = {
    "u64": pa.uint64(),
    "i64": pa.int64(),
    "u32": pa.uint32(),
    "u16": pa.uint16(),
    "u8": pa.uint8(),
    "f64": pa.float64(),
}
_NUMPY = {"u64": "<u8", "i64": "<i8", "u32": "<u4", "u16": "<u2", "u8": "u1", "f64": "<f8"}
_KEYS = {
    "intervals": ("group", "step", "interval"),
    "histograms": ("group", "step", "interval", "metric", "bucket"),
    "rows": ("group", "row"),
}
_READ_WHOLE_BYTES = 1 << 20


def as_arrays(table: AnyTable) -> Arrays:
    """Return columns as numpy arrays over the same memory; `utf8` becomes an object array of str. Raise
    ValueError for a torn buffer."""
    return {name: _as_array(column) for name, column in table.items()}


def _as_array(column: Any) -> NDArray[Any]:
    if isinstance(column, np.ndarray):
        return column
    code, cells = column
    if code == "utf8":
        return np.array(cells, dtype=object)
    return np.frombuffer(cells, dtype=_NUMPY[code])


def filled(name: str, rows: int, cells: Mapping[str, Any]) -> Arrays:
    """Return one of the trial's tables (`TABLES`): columns or single values of `cells`, else 0 or an empty text."""
    return {
        column: np.broadcast_to(cells.get(column, "" if code == "utf8" else 0), rows).astype(
            _NUMPY.get(code, object)
        )
        for column, code in TABLES[name].items()
    }


def to_arrow(table: AnyTable, schema: Mapping[str, str]) -> pa.Table:
    """Return `table` with exactly the columns of `schema`, in its order and types; an absent column of an
    empty table is empty.

    Raise ValueError if a column is missing, of another type, or of another length.
    """
    arrays = []
    table = _with_absent(table, schema)
    for name, code in schema.items():
        if name not in table and len(table):
            raise ValueError(f"the column {name} is missing")
        arrays.append(_to_arrow_column(name, table.get(name, (code, [] if code == "utf8" else b"")), code))
    return pa.Table.from_arrays(arrays, names=list(schema))


def _with_absent(table: AnyTable, schema: Mapping[str, str]) -> AnyTable:
    """Return `table` with zeros for the columns that older tables lack."""
    absent = [name for name in columns.ZERO_IF_ABSENT if name in schema and name not in table]
    if not absent or not table:
        return table
    rows = len(_as_array(next(iter(table.values()))))
    return {**table, **{name: np.zeros(rows, dtype=_NUMPY[schema[name]]) for name in absent}}


def schema_of(columns_of: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of a table's columns (`TABLES`)."""
    return pa.schema(
        [(name, pa.string() if code == "utf8" else _ARROW[code]) for name, code in columns_of.items()]
    )


def _to_arrow_column(name: str, column: Any, code: str) -> pa.Array:
    if code == "utf8":
        cells = column if isinstance(column, np.ndarray) else column[1]
        return pa.array(cells, type=pa.string())
    if isinstance(column, np.ndarray):
        if column.dtype != np.dtype(_NUMPY[code]):
            raise ValueError(f"the column {name} is {column.dtype} instead of {code}")
        buffer: Any = np.ascontiguousarray(column)
    else:
        found, buffer = column
        if found != code:
            raise ValueError(f"the column {name} is {found} instead of {code}")
    wrapped = pa.py_buffer(buffer)
    if wrapped.size % columns.WIDTH[code]:
        raise ValueError(f"the column {name} is torn: {wrapped.size} bytes of {code}")
    return pa.Array.from_buffers(_ARROW[code], wrapped.size // columns.WIDTH[code], [None, wrapped])


def write_trial_tables(directory: Path, tables: Mapping[str, AnyTable]) -> None:
    """Write the trial's five tables (`TABLES`) as Parquet into `directory`; those not given become empty.

    Raise ValueError for a column that does not fit its schema, OSError (disk full).
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        write_trial_table(directory / f"{name}.parquet", name, tables.get(name, {}))


def write_trial_table(path: Path, name: str, table: AnyTable) -> None:
    """Write one of the trial's tables. Raise as `write_trial_tables` does."""
    schema = TABLES[name]
    pq.write_table(
        to_arrow(table, schema),
        path,
        compression="zstd",
        compression_level=3,
        use_dictionary=[column for column, code in schema.items() if code == "utf8"],
        column_encoding={
            c: "DELTA_BINARY_PACKED" for c, code in schema.items() if code in ("i64", "u64", "u32")
        },
        write_statistics=False,
        store_schema=False,
    )


def merge_shares(shares: Sequence[tuple[int | Sequence[int], Mapping[str, AnyTable]]]) -> dict[str, AnyTable]:
    """Return the tables of a trial from those of its shares, exactly: intervals, histograms and rows are
    summed by key; samples are concatenated with their `share` (index into `shares`) and ordered by due time.

    A share is (groups, tables): `groups` maps its group index to the case's, an int stands for a share of
    only that group. Raise ValueError for a group that is not in the mapping.
    """
    parts = [
        {
            name: _with_case_groups(as_arrays(_with_absent(table, TABLES[name])), groups)
            for name, table in tables.items()
            if name in TABLES
        }
        for groups, tables in shares
    ]
    merged: dict[str, AnyTable] = {}
    for name in _KEYS:
        merged[name] = sum_by_key(name, [part[name] for part in parts if name in part])
    merged["samples"] = _stack_samples(parts)
    return merged


def _with_case_groups(table: Arrays, groups: int | Sequence[int]) -> Arrays:
    mapping = (groups,) if isinstance(groups, int) else groups
    group = table["group"]
    if len(group) and int(group.max()) >= len(mapping):
        raise ValueError(f"a share speaks of group {int(group.max())} and has {len(mapping)}")
    return {**table, "group": np.asarray(mapping, dtype="<u2")[group] if len(group) else group}


def sum_by_key(name: str, parts: Sequence[Arrays]) -> Arrays:
    """Return `intervals`, `histograms` or `rows` of several parts as one table, adding rows of one key
    exactly."""
    if not parts:
        return {}
    keys = _KEYS[name]
    table = {column: np.concatenate([part[column] for part in parts]) for column in TABLES[name]}
    if not len(table[keys[0]]):
        return table
    order = np.lexsort([table[key] for key in reversed(keys)])
    table = {column: cells[order] for column, cells in table.items()}
    new = np.zeros(len(order), dtype=bool)
    new[0] = True
    for key in keys:
        new[1:] |= table[key][1:] != table[key][:-1]
    starts = np.flatnonzero(new)
    return {
        column: cells[starts] if column in keys else np.add.reduceat(cells, starts)
        for column, cells in table.items()
    }


def _stack_samples(parts: Sequence[Mapping[str, Arrays]]) -> Arrays:
    stacked: dict[str, list[NDArray[Any]]] = {name: [] for name in TABLES["samples"]}
    for share, part in enumerate(parts):
        table = part.get("samples", {})
        if not table:
            continue
        for name in columns.SAMPLES:
            stacked[name].append(table[name])
        stacked["share"].append(np.full(len(table["due_ns"]), share, dtype="<u2"))
    if not stacked["due_ns"]:
        return {}
    joined = {name: np.concatenate(pieces) for name, pieces in stacked.items()}
    order = np.lexsort((joined["vu"], joined["group"], joined["due_ns"]))
    return {name: column[order] for name, column in joined.items()}


class LazyTable(Mapping[str, NDArray[Any]]):
    """The columns of one Parquet file, each read on first use. Raises SvloadError (run-damaged) then."""

    def __init__(self, path: Path, schema: Mapping[str, str]) -> None:
        self._path = path
        self._schema = schema
        self._columns: Arrays = {}
        self.beside: dict[str, Any] = {}
        """results that readers made from the whole table and need again: they live as long as the table"""

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._schema:
            raise KeyError(name)
        if name not in self._columns:
            try:
                small = self._path.stat().st_size <= _READ_WHOLE_BYTES
            except OSError as why:
                raise fail(
                    "run-damaged", path=self._path, reason=f"it cannot be read ({why.strerror})"
                ) from why
            self._columns.update(read_table(self._path, None if small else [name]))
            if name not in self._columns and name in columns.ZERO_IF_ABSENT:
                rows = len(self[next(other for other in self._schema if other not in columns.ZERO_IF_ABSENT)])
                self._columns[name] = np.zeros(rows, dtype=_NUMPY[self._schema[name]])
            if name not in self._columns:
                raise fail("run-damaged", path=self._path, reason=f"it has no column {name}")
        return self._columns[name]

    def unread(self) -> LazyTable:
        """Return the same table with no column read yet."""
        return LazyTable(self._path, self._schema)

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)

    def __repr__(self) -> str:
        return f"LazyTable({self._path.name})"


def read_table(path: Path, names: Sequence[str] | None = None) -> Arrays:
    """Return columns of a Parquet file as numpy arrays (strings: objects). Raise SvloadError run-damaged."""
    try:
        with pq.ParquetFile(path, memory_map=False) as file:
            table = file.read(columns=None if names is None else list(names), use_threads=False)
    except (OSError, pa.ArrowException) as why:
        raise fail("run-damaged", path=path, reason=f"it is not a readable Parquet file ({why})") from why
    return {name: table.column(name).to_numpy() for name in table.column_names}


class LoadTimeTable(LazyTable):
    """A lazy table with offsets in load time, from a file in which they are in real time."""

    def __init__(self, path: Path, schema: Mapping[str, str], record: TurnRecord) -> None:
        super().__init__(path, schema)
        self._record = record
        self._moved: Arrays = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        of_samples = "due_ns" in self._schema
        if of_samples and name not in STAMPS:
            return super().__getitem__(name)
        if not self._moved:
            real = {
                one: super(LoadTimeTable, self).__getitem__(one) for one in (STAMPS if of_samples else self)
            }
            convert = samples_in_load_time if of_samples else monitors_in_load_time
            self._moved = convert(real, Turns.of_record(self._record))
        return self._moved[name]

    @property
    def real(self) -> LazyTable:
        """Return the table as in its file."""
        return LazyTable(self._path, self._schema)

    def unread(self) -> LoadTimeTable:
        """Return the same table with no column read yet."""
        return LoadTimeTable(self._path, self._schema, self._record)


@dataclass(frozen=True)
class TrialData:
    """One trial as analysis reads it. Tables are mappings column → numpy array (`model.columns`; samples also `share`).

    `seal` is None for an attempt or a synthetic trial that was not sealed. `thinned`: it belongs to a thin
    copy, which merged the histograms of neighbouring intervals (`store.thin`).
    """

    summary: TrialSummary
    lab: TrialLab
    seal: Seal | None
    intervals: Mapping[str, NDArray[Any]] = field(repr=False)
    histograms: Mapping[str, NDArray[Any]] = field(repr=False)
    samples: Mapping[str, NDArray[Any]] = field(repr=False)
    rows: Mapping[str, NDArray[Any]] = field(repr=False)
    monitors: Mapping[str, NDArray[Any]] = field(repr=False)
    stacks: Stacks | None = field(default=None, repr=False)
    thinned: bool = False

    @property
    def trial(self) -> str:
        """`TC7.r3`."""
        return self.summary.trial

    @property
    def case(self) -> str:
        """`TC7`."""
        return self.summary.case

    def unread(self) -> TrialData:
        """Return the same trial with separate tables: columns read from them are freed with it."""
        tables: dict[str, Any] = {name: getattr(self, name) for name in TABLES}
        lazy: Any = {name: table.unread() for name, table in tables.items() if isinstance(table, LazyTable)}
        return replace(self, **lazy)

    def group_index(self, name: str) -> int:
        """Return the number of a traffic group in the tables; raise KeyError."""
        for index, group in enumerate(self.summary.groups):
            if group.name == name:
                return index
        raise KeyError(name)


def read_trial(directory: Path | TrialDir, *, clock: Literal["load", "real"] = "load") -> TrialData:
    """Return a trial, its facts read immediately and its tables lazily; with `clock` load, all offsets of a
    trial that took turns are in load time. Raise SvloadError (run-damaged, format-newer), FileNotFoundError
    without a summary."""
    path = directory.path if isinstance(directory, TrialDir) else directory
    trial = TrialDir(path, path.name)
    summary = TrialSummary.read(trial.summary)
    tables = {name: LazyTable(trial.table(name), schema) for name, schema in TABLES.items()}
    if clock == "load" and summary.turns is not None:
        for name in ("samples", "monitors"):
            tables[name] = LoadTimeTable(trial.table(name), TABLES[name], summary.turns)
    return TrialData(
        summary=summary,
        lab=TrialLab.read(trial.lab),
        seal=Seal.read(trial.seal) if trial.seal.exists() else None,
        intervals=tables["intervals"],
        histograms=tables["histograms"],
        samples=tables["samples"],
        rows=tables["rows"],
        monitors=tables["monitors"],
        stacks=Stacks.read(trial.stacks) if trial.stacks.exists() else None,
        thinned=RunDir(path.parent.parent).thinned_path.exists(),
    )

"""The requests of a foreign file as compact columns; and how names become codes while a file is streamed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from svload.model.errors import SvloadError
from svload.store.foreign.bounds import BLOCK_BYTES, NAMES_BYTES, REQUESTS, SPAN_NS, shortened, unreadable
from svload.store.foreign.lines import csv_rows, open_bytes

Ints = NDArray[Any]
OTHERS = "others"


@dataclass(frozen=True)
class Users:
    """The number of users over time: at each of these moments (ns, ascending) the number from then on."""

    at_ns: Ints
    count: Ints


@dataclass(frozen=True)
class Requests:
    """Every finished request of a file in its order. Times are ns from `epoch_ns` (Unix); a column that the
    file lacks is None.

    `error` holds codes of `request_errors.ERRORS`; `group` and `label` are indices into `groups` and
    `labels`, `vu` a number or −1.
    """

    epoch_ns: int
    clock_ns: int
    """resolution of the file's stamps"""
    begun_ns: Ints
    spent_ns: Ints
    ok: Ints
    group: Ints
    label: Ints
    groups: tuple[str, ...]
    labels: tuple[str, ...]
    status: Ints
    error: Ints
    vu: Ints | None = None
    first_byte: Ints | None = None
    """time from the request's start, in units of `detail_ns`; 0: not known"""
    connect: Ints | None = None
    """the same for the connection; 0: none was made"""
    detail_ns: int = 1
    received_bytes: Ints | None = None
    sent_bytes: Ints | None = None
    users: Users | None = None
    users_of_group: tuple[int, ...] = ()
    """most users of each group; empty: not known"""
    notes: tuple[str, ...] = ()
    """what had to be assumed or left out, in sentences"""

    def __len__(self) -> int:
        return len(self.begun_ns)


@dataclass
class Codes:
    """Names → numbers, up to a count and a total length: any further name is `OTHERS`."""

    most: int
    names: dict[str, int] = field(default_factory=dict)
    full: bool = False
    held_bytes: int = 0

    def of(self, names: Iterable[str]) -> NDArray[np.int32]:
        """Return the numbers of these names."""
        return np.array([self._one(name) for name in names], dtype=np.int32)

    def _one(self, name: str) -> int:
        code = self.names.get(name)
        if code is None:
            if len(self.names) >= self.most or self.held_bytes + len(name) > NAMES_BYTES:
                self.full = True
                name = OTHERS
                code = self.names.get(name)
            if code is None:
                code = self.names[name] = len(self.names)
                self.held_bytes += len(name)
        return code

    def all(self) -> tuple[str, ...]:
        """Return the names in the order of their numbers."""
        return tuple(self.names)


class Columns:
    """Pieces of columns, concatenated at the end one column at a time, so at most one is in memory twice."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces: dict[str, list[Ints]] = {}
        self.rows = 0

    def add(self, rows: int, **pieces: Ints) -> None:
        """Add one block's pieces. Raise SvloadError import-unreadable above the limit of requests."""
        self.rows += rows
        if self.rows > REQUESTS:
            raise unreadable(
                self._path,
                None,
                f"it holds more than {REQUESTS:,} requests",
                "Split it by time, and import the parts as replicates of one level.",
            )
        for name, piece in pieces.items():
            self._pieces.setdefault(name, []).append(piece)

    def take(self, name: str, dtype: Any) -> Ints:
        """Return a whole column; its pieces are removed."""
        pieces = self._pieces.pop(name, [])
        whole: Ints = np.concatenate(pieces).astype(dtype, copy=False) if pieces else np.zeros(0, dtype=dtype)
        return whole

    def find(self, name: str, dtype: Any) -> Ints | None:
        """Return a whole column as `take` does; None if it has no pieces."""
        return self.take(name, dtype) if name in self._pieces else None


_NOTHING = (
    "it holds no finished request",
    "See that the load ran, and that its results were written to this file.",
)


def from_first(path: Path, begun_ns: Ints) -> tuple[int, Ints]:
    """Return (the first moment in Unix ns, offsets from it). Raise SvloadError import-unreadable if moments
    are implausible."""
    if not len(begun_ns):
        raise unreadable(path, None, *_NOTHING)
    first, last = int(begun_ns.min()), int(begun_ns.max())
    if last - first > SPAN_NS:
        raise unreadable(
            path,
            None,
            "its first and last requests are more than 90 days apart",
            "See that one run wrote it: a file that is appended to holds several.",
        )
    begun_ns -= first
    return first, begun_ns


class Faulty(Exception):
    """A block that is not as it should be; its faulty line is then searched for."""


def csv_batches(
    path: Path,
    types: Mapping[str, pa.DataType],
    delimiter: str = ",",
    names: Sequence[str] = (),
    until: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield a CSV file's columns of these types, some MiB at a time, `until` a byte where it is cut; names
    that are not given are in its first line.

    Raise ArrowException, OSError.
    """
    with open_bytes(path) as file:
        compression = None if isinstance(file, BufferedReader) else "gzip"
    with (
        pa.input_stream(str(path), compression=compression)
        if until is None
        else pa.BufferReader(pa.memory_map(str(path)).read_buffer(until)) as stream,
        pacsv.open_csv(
            stream,
            pacsv.ReadOptions(block_size=BLOCK_BYTES, column_names=names),
            pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            pacsv.ConvertOptions(
                column_types=dict(types),
                include_columns=list(types),
                strings_can_be_null=False,
                null_values=[""],
            ),
        ) as reader,
    ):
        yield from reader


def at_its_line(
    path: Path,
    why: Exception,
    fault: Callable[[dict[str, str]], str | None],
    hint: str,
    delimiter: str = ",",
    names: Sequence[str] = (),
) -> SvloadError:
    """Return the error of a CSV file's first row that is torn or that `fault` finds wrong, else of `why`."""
    rows = csv_rows(path, delimiter)
    names = list(names) or next(rows, (1, []))[1]
    line = 0
    for line, cells in rows:
        torn = f"{len(cells)} values stand under {len(names)} names" if len(cells) != len(names) else None
        if reason := torn or fault(dict(zip(names, cells, strict=True))):
            return unreadable(path, line, reason, hint)
    return unreadable(path, None, *((shortened(str(why)), hint) if line else _NOTHING))


def coded(cells: pa.Array) -> tuple[Ints, list[str]]:
    """Return each text of a column as an index into the words, and the words; a missing text is empty."""
    cells = pc.fill_null(cells, "") if cells.null_count else cells
    cells = cells if pa.types.is_dictionary(cells.type) else pc.dictionary_encode(cells)
    return cells.indices.to_numpy(zero_copy_only=False), cells.dictionary.to_pylist()


def mapped(codes: Ints, words: Sequence[str], to: Callable[[str], int], dtype: Any) -> Ints:
    """Return `to` of each cell's text, which is the word at its code."""
    table: Ints = np.array([to(word) for word in words], dtype=dtype)
    return table[codes]


def changes(at_ns: Ints, count: Ints) -> Users:
    """Return the moments at which a number changes, in their order."""
    if np.any(np.diff(at_ns) < 0):
        order = np.argsort(at_ns, kind="stable")
        at_ns, count = at_ns[order], count[order]
    new = np.concatenate([[True], count[1:] != count[:-1]])
    return Users(at_ns[new], count[new].astype(np.int64))


def summed(at_ns: Ints, count: Ints, source: Ints, sources: int) -> Users:
    """Return the sum of what several sources counted: each keeps its last number until its next one, and has
    none after its last moment."""
    if sources == 1:
        return changes(at_ns, count)
    by_source = np.argsort(source, kind="stable")
    edges = np.searchsorted(source[by_source], np.arange(sources + 1)).tolist()
    moments: list[Ints] = []
    steps: list[Ints] = []
    for first, last in itertools.pairwise(edges):
        mine = by_source[first:last]
        if len(mine):
            part = changes(at_ns[mine], count[mine])
            moments.append(np.append(part.at_ns, at_ns[mine].max() + 1))
            steps.append(np.diff(part.count, prepend=0, append=0))
    at, step = np.concatenate(moments), np.concatenate(steps)
    order = np.argsort(at, kind="stable")
    kept = order[at[order] <= at_ns.max()]
    return changes(at[kept], np.cumsum(step[kept]))

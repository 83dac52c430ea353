"""Long tables: every probe row with curl's eleven variables, and bucket tables of groups too large for rows.

Rows are written as XML text at once: through a cell object each, a real run's quarter of a
million rows would take a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xlsxwriter.utility import xl_col_to_name
from xlsxwriter.worksheet import Worksheet

from svload.analysis.view import kept_window
from svload.report.data.digest import bucket_table, error_name
from svload.report.data.gather import Gathered
from svload.report.sheets.book import MOST_ROWS, Book, Sheet, clean
from svload.store.parquet import TrialData

MOST_PROBE_ROWS = 25_000
"""Rows of whole requests in a workbook, about 100 bytes each; trials beyond it keep their
response times, and the guide says so."""
MOST_RESPONSES = 500_000
"""Response times alone in a workbook, about 16 bytes each; trials beyond it get bucket
tables, and the guide says so."""

VARIABLES = (
    "size_download", "size_header", "size_request", "speed_download", "time_appconnect", "time_connect", "time_namelookup",
    "time_pretransfer", "time_redirect", "time_starttransfer", "time_total",
)  # fmt: skip
"""Curl's variables in the paper's names and order; sizes in bytes, speed in bytes per second, times in seconds."""
ROW_HEADERS = ("case", "trial", "group", "virtual user", "sequence", "kept", "due_s", "response_s", *VARIABLES, "http_code", "error", "new connection", "TLS")  # fmt: skip
RESPONSE_HEADERS = ("trial", "group", "response_s")
BUCKET_HEADERS = ("case", "trial", "group", "from_s", "to_s", "middle_s", "ok requests", "cumulated")
_RAW = "#9AA3AD"
_RESPONSE, _MIDDLE, _COUNT, _CUMULATED = 7, 5, 6, 7
_TLS = {0: "none", 1: "full handshake", 2: "resumed"}


class LongSheet(Worksheet):  # type: ignore[misc]  # xlsxwriter has no types
    """A worksheet whose rows below the header are given as finished XML."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[str] = []

    def shared(self, text: str) -> str:
        """The rest of a string's cell after its reference (as `_number` and `_EMPTY` are)."""
        return f'" t="s"><v>{self.str_table._get_shared_string_index(clean(text))}</v></c>'

    def add_rows(self, first: int, head: Sequence[str], columns: Sequence[Iterable[str]]) -> None:
        """Rows from `first` (from 0): `head` cells are the same in each, `columns` hold one cell's rest a row.

        The row's number is put in at once by one replacement a row: with a format per cell this takes thrice
        as long. A cell without its place would halve the file, and Gnumeric would read none of them.
        """
        names = [xl_col_to_name(number) for number in range(len(head) + len(columns))]
        same = "".join(f'<c r="{name}\0{rest}' for name, rest in zip(names, head, strict=False))
        own = "".join(f'<c r="{name}\0%s' for name in names[len(head) :])
        form = '<row r="\0">' + same.replace("%", "%%") + own + "</row>"
        rows = enumerate(zip(*columns, strict=True), first + 1)
        self.chunks.append("".join((form % cells).replace("\0", str(number)) for number, cells in rows))

    def _write_rows(self) -> None:
        last: int = self.dim_rowmax  # type: ignore[has-type]
        self.dim_rowmax = 0
        super()._write_rows()
        self.dim_rowmax = last
        for chunk in self.chunks:
            self.fh.write(chunk)


@dataclass(frozen=True)
class Place:
    """Where a trial's group stands: rows [first, last] from 0 of `sheet`. `kept` are those of the kept
    window (rows of requests only)."""

    sheet: Sheet
    first: int
    last: int
    rows: bool
    column: int = _RESPONSE

    @property
    def response(self) -> str:
        """The response times of the kept window: a failed request's cell is empty."""
        return self.sheet.range(self.first, self.column, self.last)

    def quantile(self, p: float, n: str) -> str:
        """svload's median-unbiased quantile (Hyndman & Fan, 8), failures above all."""
        place = f"MIN(MAX(({n}+1/3)*{p:g}+1/3,1),{n})"
        low, high = f"INT({place})", f"MIN(INT({place})+1,{self.ok()[1:]})"
        if self.rows:
            small = f"SMALL({self.response},{{0}})".format
            return f"={_between(small(low), small(high), place)}"
        middles, cumulated = (
            self.sheet.range(self.first, column, self.last) for column in (_MIDDLE, _CUMULATED)
        )
        at = f'INDEX({middles},COUNTIF({cumulated},"<"&{{0}})+1)'.format
        return f"={_between(at(low), at(high), place)}"

    def mean(self) -> str:
        """The mean of the ok requests: all that ended, where none failed. Buckets hold it to 0.4 % alone."""
        return f"=AVERAGE({self.response})"

    def ok(self) -> str:
        """How many requests of the kept window were ok."""
        if self.rows:
            return f"=COUNT({self.response})"
        return f"=SUM({self.sheet.range(self.first, _COUNT, self.last)})"


def _between(low: str, high: str, place: str) -> str:
    """The value that lies between two ranks, as a formula."""
    return f"{low}+({place}-INT({place}))*({high}-{low})"


@dataclass
class LongTables:
    """All long sheets of a workbook; `places` finds a (trial, group) in them."""

    book: Book
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    shortened: list[str] = field(default_factory=list)
    capped: list[str] = field(default_factory=list)
    _rows: int = 0
    _responses: int = 0
    _sheets: dict[str, list[tuple[Sheet, int]]] = field(default_factory=dict)

    def add(self, gathered: Gathered) -> None:
        """Write every trial's groups: rows where they were kept, bucket tables elsewhere."""
        for result, data in gathered.read():
            for index, group in enumerate(data.summary.groups):
                key = (result.trial, group.name)
                if not self._add_rows(key, data, index, result.cut_ns, group.name == gathered.group):
                    self._add_buckets(key, data, index, result.cut_ns)
        for kind, sheets in self._sheets.items():
            headers, widths = _LAYOUT[kind]
            for sheet, used in sheets:
                sheet.table(0, headers, used - 1, widths, freeze=(1, 2))
                sheet.raw.dim_rowmax = used - 1

    def sheets(self) -> list[tuple[str, str]]:
        """(kind, name) of every long sheet."""
        return [(kind, sheet.name) for kind, sheets in self._sheets.items() for sheet, _ in sheets]

    def _add_rows(self, key: tuple[str, str], data: TrialData, index: int, cut_ns: int, chief: bool) -> bool:
        """Whether they were written. The group that the report is about first may use all
        of the room, others a quarter."""
        samples = data.samples
        which = np.flatnonzero(samples["group"] == index)
        if not len(which):
            return False
        if self._rows + len(which) > (MOST_PROBE_ROWS if chief else MOST_PROBE_ROWS // 4):
            return self._add_responses(key, data, which, cut_ns)
        self._rows += len(which)
        table = {name: samples[name][which] for name in _COLUMNS}
        kept = kept_window(data.summary, cut_ns)
        inside = (table["due_ns"] >= kept.low_ns) & (table["due_ns"] < kept.high_ns)
        sheet, first = self._room("probe rows", len(which))
        head = [sheet.raw.shared(text) for text in (data.case, *key)]
        sheet.raw.add_rows(first, head, _row_columns(sheet.raw, table, inside))
        held = np.flatnonzero(inside)
        if len(held):
            self.places[key] = Place(sheet, first + int(held[0]), first + int(held[-1]), True)
        return True

    def _add_responses(
        self, key: tuple[str, str], data: TrialData, which: NDArray[np.int64], cut_ns: int
    ) -> bool:
        """The response times of the kept window's ok requests alone: enough for every formula.
        False where there are too many."""
        table = {name: data.samples[name][which] for name in ("due_ns", "done_ns", "error")}
        kept = kept_window(data.summary, cut_ns)
        inside = (table["due_ns"] >= kept.low_ns) & (table["due_ns"] < kept.high_ns)
        times_ns = (table["done_ns"] - table["due_ns"])[
            inside & (table["error"] == 0) & (table["done_ns"] >= 0)
        ]
        if self._responses + len(times_ns) > MOST_RESPONSES:
            self.capped.append(f"{key[0]}, {key[1]}")
            return False
        self.shortened.append(f"{key[0]}, {key[1]}")
        self._responses += len(times_ns)
        if len(times_ns):
            sheet, first = self._room("response times", len(times_ns))
            sheet.raw.add_rows(
                first, [sheet.raw.shared(text) for text in key], [_seconds(times_ns, digits=9)]
            )
            last = first + len(times_ns) - 1
            self.places[key] = Place(sheet, first, last, True, len(RESPONSE_HEADERS) - 1)
        return True

    def _add_buckets(self, key: tuple[str, str], data: TrialData, index: int, cut_ns: int) -> None:
        low, high, middle, count, _ = bucket_table(data, index, cut_ns)
        if not len(low):
            return
        sheet, first = self._room("bucket tables", len(low))
        head = [sheet.raw.shared(text) for text in (data.case, *key)]
        times = [[_number(f"{value:.10g}") for value in values.tolist()] for values in (low, high, middle)]
        sheet.raw.add_rows(first, head, [*times, _whole(count), _whole(np.cumsum(count))])
        self.places[key] = Place(sheet, first, first + len(low) - 1, False)

    def _room(self, kind: str, rows: int) -> tuple[Sheet, int]:
        """(sheet, first free row): a trial stays whole, so that its range is one."""
        sheets = self._sheets.setdefault(kind, [])
        if not sheets or sheets[-1][1] + rows > MOST_ROWS:
            sheets.append((self.book.sheet(kind, LongSheet), 1))
            sheets[-1][0].raw.set_tab_color(_RAW)
        sheet, used = sheets[-1]
        sheets[-1] = (sheet, used + rows)
        return sheet, used


_COLUMNS = (
    "vu", "seq", "due_ns", "begun_ns", "first_byte_ns", "done_ns", "status", "error", "request_bytes", "header_bytes", "body_bytes", "reused",
    "tls", "lookup_ns", "connect_ns", "appconnect_ns", "pretransfer_ns", "redirect_ns",
)  # fmt: skip
_LAYOUT: dict[str, tuple[Sequence[str], Sequence[float]]] = {
    "probe rows": (
        ROW_HEADERS,
        (10, 11, 11, 10, 10, 7, 12, 13, *[len(name) + 3 for name in VARIABLES], 12, 16, 12, 14),
    ),
    "response times": (RESPONSE_HEADERS, (11, 13, 14)),
    "bucket tables": (BUCKET_HEADERS, (10, 11, 13, 14, 14, 14, 12, 12)),
}


def _row_columns(
    sheet: LongSheet, table: dict[str, NDArray[Any]], inside: NDArray[np.bool_]
) -> list[Iterable[str]]:
    """The columns of one trial's group after the head. A failed request has no response
    time: it ranks above all others."""
    done, begun = table["done_ns"], table["begun_ns"]
    ok = (table["error"] == 0) & (done >= 0)
    errors = {int(code): error_name(int(code)) or "none" for code in np.unique(table["error"])}
    return [
        _whole(table["vu"]),
        _whole(table["seq"]),
        _whole(inside.astype(int)),
        _seconds(table["due_ns"]),
        _seconds(done - table["due_ns"], ok, 9),
        *_variables(table, begun, done),
        _whole(table["status"]),
        _named(sheet, errors, table["error"]),
        _whole(1 - table["reused"].astype(int)),
        _named(sheet, _TLS, table["tls"]),
    ]


def _variables(
    table: dict[str, NDArray[Any]], begun: NDArray[Any], done: NDArray[Any]
) -> list[Iterable[str]]:
    ended, headed = (done >= 0) & (begun >= 0), (table["first_byte_ns"] >= 0) & (begun >= 0)
    total_s = np.where(ended, (done - begun) / 1e9, 0.0)
    speed = np.divide(table["body_bytes"], total_s, out=np.zeros(len(total_s)), where=total_s > 0)
    return [
        _whole(table["body_bytes"]),
        _whole(table["header_bytes"]),
        _whole(table["request_bytes"]),
        [_number(f"{value:.4g}") for value in speed.tolist()],
        _seconds(table["appconnect_ns"], table["appconnect_ns"] >= 0),
        _seconds(table["connect_ns"], table["connect_ns"] >= 0),
        _seconds(table["lookup_ns"], table["lookup_ns"] >= 0),
        _seconds(table["pretransfer_ns"], table["pretransfer_ns"] >= 0),
        _seconds(table["redirect_ns"], table["redirect_ns"] >= 0),
        _seconds(table["first_byte_ns"] - begun, headed),
        _seconds(done - begun, ended),
    ]


_EMPTY = '"/>'


def _number(text: str) -> str:
    return f'"><v>{text}</v></c>'


def _whole(values: NDArray[Any]) -> list[str]:
    return [f'"><v>{value}</v></c>' for value in values.tolist()]


def _seconds(values_ns: NDArray[Any], known: NDArray[np.bool_] | None = None, digits: int = 6) -> list[str]:
    """Seconds, rounded to that many decimals (six are curl's own); an empty cell where not known."""
    cells = [f'"><v>{round(value / 1e9, digits):.12g}</v></c>' for value in values_ns.tolist()]
    if known is None or known.all():
        return cells
    return [cell if have else _EMPTY for cell, have in zip(cells, known.tolist(), strict=True)]


def _named(sheet: LongSheet, names: dict[int, str], codes: NDArray[Any]) -> list[str]:
    cells = {code: sheet.shared(name) for code, name in names.items()}
    return [cells[code] for code in codes.tolist()]

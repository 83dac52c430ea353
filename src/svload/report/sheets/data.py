"""The sheet of data: requests of the groups that keep rows, with curl's eleven variables.

Rows are written directly as XML text, which takes a tenth of the time of one object per cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xlsxwriter.utility import xl_col_to_name
from xlsxwriter.worksheet import Worksheet

from svload.analysis.view import kept_window
from svload.report.data.digest import error_name
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Book, clean
from svload.store.load_time import responses_ns

MOST_PROBE_ROWS = 25_000
"""Requests in a workbook, about 100 bytes each; probe.parquet has all of them."""
NAME = "probe rows"

VARIABLES = (
    "size_download", "size_header", "size_request", "speed_download", "time_appconnect", "time_connect", "time_namelookup",
    "time_pretransfer", "time_redirect", "time_starttransfer", "time_total",
)  # fmt: skip
"""Curl's variables in the paper's names and order; sizes in bytes, speed in bytes per second, times in seconds."""
ROW_HEADERS = ("case", "trial", "group", "virtual user", "sequence", "kept", "due_s", "response_s", *VARIABLES, "http_code", "error", "new connection", "TLS")  # fmt: skip
_WIDTHS = (10, 11, 11, 10, 10, 7, 12, 13, *[len(name) + 3 for name in VARIABLES], 12, 16, 12, 14)
_TLS = {0: "none", 1: "full handshake", 2: "resumed"}


class LongSheet(Worksheet):  # type: ignore[misc]  # xlsxwriter has no types
    """A worksheet whose rows below the header are given as finished XML."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[str] = []

    def shared(self, text: str) -> str:
        """Return the rest of a string's cell after its reference (as `_number` and `_EMPTY` are)."""
        return f'" t="s"><v>{self.str_table._get_shared_string_index(clean(text))}</v></c>'

    def add_rows(self, first: int, head: Sequence[str], columns: Sequence[Iterable[str]]) -> None:
        """Add rows from `first` (from 0): `head` cells are the same in each, `columns` hold the rest of one
        cell per row.

        One replacement per row inserts the row's number: a format per cell takes three times as long. Cells
        without their place would halve the file, but Gnumeric would not read them.
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


def fill_data(book: Book, gathered: Gathered) -> list[str]:
    """Write the requests of every trial while there is room, and return the `trial, group` that are left out.

    The report's main group may use all of the room, others a quarter.
    """
    sheet, used, left_out = None, 1, []
    for result, data in gathered.read():
        for index, group in enumerate(data.summary.groups):
            which = np.flatnonzero(data.samples["group"] == index)
            room = MOST_PROBE_ROWS if group.name == gathered.group else MOST_PROBE_ROWS // 4
            if used - 1 + len(which) > room:
                left_out.append(f"{result.trial}, {group.name}")
            elif len(which):
                sheet = sheet or book.sheet(NAME, LongSheet)
                table = {name: data.samples[name][which] for name in _COLUMNS}
                kept = kept_window(data.summary, result.cut_ns)
                inside = (table["due_ns"] >= kept.low_ns) & (table["due_ns"] < kept.high_ns)
                head = [sheet.raw.shared(text) for text in (data.case, result.trial, group.name)]
                sheet.raw.add_rows(used, head, _row_columns(sheet.raw, table, inside))
                used += len(which)
    if sheet is not None:
        sheet.table(0, ROW_HEADERS, used - 1, _WIDTHS, frozen=2)
        sheet.raw.dim_rowmax = used - 1
    return left_out


_COLUMNS = (
    "vu", "seq", "due_ns", "begun_ns", "first_byte_ns", "done_ns", "status", "error", "request_bytes", "header_bytes", "body_bytes", "reused",
    "tls", "lookup_ns", "connect_ns", "appconnect_ns", "pretransfer_ns", "redirect_ns",
)  # fmt: skip


Table = dict[str, NDArray[Any]]


def _row_columns(sheet: LongSheet, table: Table, inside: NDArray[np.bool_]) -> list[Iterable[str]]:
    """Return the columns of one trial's group after the head. A failed request has no response time."""
    done, begun = table["done_ns"], table["begun_ns"]
    ok = (table["error"] == 0) & (done >= 0)
    errors = {int(code): error_name(int(code)) or "none" for code in np.unique(table["error"])}
    return [
        *(_whole(one) for one in (table["vu"], table["seq"], inside.astype(int))),
        _seconds(table["due_ns"]),
        _seconds(responses_ns(table), ok, 9),
        *_variables(table, begun, done),
        _whole(table["status"]),
        _named(sheet, errors, table["error"]),
        _whole(1 - table["reused"].astype(int)),
        _named(sheet, _TLS, table["tls"]),
    ]


def _variables(table: Table, begun: NDArray[Any], done: NDArray[Any]) -> list[Iterable[str]]:
    ended, headed = (done >= 0) & (begun >= 0), (table["first_byte_ns"] >= 0) & (begun >= 0)
    total_s = np.where(ended, (done - begun) / 1e9, 0.0)
    speed = np.divide(table["body_bytes"], total_s, out=np.zeros(len(total_s)), where=total_s > 0)
    return [
        *(_whole(table[f"{part}_bytes"]) for part in ("body", "header", "request")),
        [_number(f"{value:.4g}") for value in speed.tolist()],
        *(_seconds(table[f"{part}_ns"], table[f"{part}_ns"] >= 0) for part in _PHASES),
        _seconds(table["first_byte_ns"] - begun, headed),
        _seconds(done - begun, ended),
    ]


_PHASES = ("appconnect", "connect", "lookup", "pretransfer", "redirect")
_EMPTY = '"/>'


def _number(text: str) -> str:
    return f'"><v>{text}</v></c>'


def _whole(values: NDArray[Any]) -> list[str]:
    return [f'"><v>{value}</v></c>' for value in values.tolist()]


def _seconds(values_ns: NDArray[Any], known: NDArray[np.bool_] | None = None, digits: int = 6) -> list[str]:
    """Return seconds, rounded to that many decimals (six as in curl); an empty cell if unknown."""
    cells = [f'"><v>{round(value / 1e9, digits):.12g}</v></c>' for value in values_ns.tolist()]
    if known is None or known.all():
        return cells
    return [cell if have else _EMPTY for cell, have in zip(cells, known.tolist(), strict=True)]


def _named(sheet: LongSheet, names: dict[int, str], codes: NDArray[Any]) -> list[str]:
    cells = {code: sheet.shared(name) for code, name in names.items()}
    return [cells[code] for code in codes.tolist()]

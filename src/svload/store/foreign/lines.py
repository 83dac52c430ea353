"""A foreign file line by line, no line longer than a bound: the slow way, used to find faults and to read
small files."""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from svload.store.foreign.bounds import LINE_BYTES, unreadable

GZIP = b"\x1f\x8b"
PLAIN = "Export it again as plain text (UTF-8)."
CUT = "It ends within a record, as if its program had been killed: it is read up to the last whole one."


class _Gzip(gzip.GzipFile):
    """A gzip file that raises OSError for every kind of truncation or damage."""

    def read(self, size: int | None = -1) -> bytes:
        return self._sound(super().read, size)

    def readline(self, size: int | None = -1) -> bytes:
        return self._sound(super().readline, size)

    def _sound(self, read: Callable[[int | None], bytes], size: int | None) -> bytes:
        try:
            return read(size)
        except (EOFError, zlib.error) as why:
            raise gzip.BadGzipFile(str(why)) from why


def open_bytes(path: Path) -> BinaryIO:
    """Open the file's bytes, decompressed if it is gzip. Raise SvloadError import-unreadable."""
    try:
        if not path.is_file():
            raise unreadable(
                path,
                None,
                "there is no such file" if not path.exists() else "it is not a regular file",
                "Name the file itself.",
            )
        file = path.open("rb")
        if file.read(2) == GZIP:
            file.close()
            return _Gzip(path, "rb")  # type: ignore[return-value]
        file.seek(0)
    except OSError as why:
        raise unreadable(path, None, why.strerror or str(why), "Name a file that you may read.") from why
    return file


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text with its end) of each line. Raise SvloadError import-unreadable."""
    with open_bytes(path) as file:
        number = 0
        while True:
            try:
                raw = file.readline(LINE_BYTES + 1)
            except OSError as why:
                raise unreadable(path, number + 1, f"it is not a complete gzip file ({why})", PLAIN) from why
            if not raw:
                return
            number += 1
            if len(raw) > LINE_BYTES:
                raise unreadable(
                    path,
                    number,
                    f"the line is longer than {LINE_BYTES >> 20} MiB",
                    "A record is shorter: see that it is the right file.",
                )
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as why:
                raise unreadable(path, number, "it is not UTF-8 text", PLAIN) from why
            if "\0" in text:
                raise unreadable(path, number, "it holds a NUL character", PLAIN)
            yield number, text


def delimiter_of(path: Path) -> str:
    """Return the delimiter of a CSV file: the candidate most frequent in its first line outside quotes."""
    _, first = next(lines_of(path), (1, ""))
    bare = re.sub(r'"[^"]*"', "", first)
    return max((",", ";", "\t", "|"), key=bare.count)


def csv_rows(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield (line where it ends, cells) of each row that is not empty, the names first. Raise SvloadError
    import-unreadable."""
    rows = csv.reader((text for _, text in lines_of(path)), delimiter=delimiter, strict=True)
    try:
        for row in rows:
            if row:
                yield rows.line_num, row
    except csv.Error as why:
        hint = "A quoted value ends before the next delimiter; quotes in it are doubled."
        raise unreadable(path, rows.line_num, f"this is not CSV ({why})", hint) from why


def cut_at(
    path: Path,
    begins: bytes,
    names: Sequence[str],
    fault: Callable[[dict[str, str]], str | None],
    delimiter: str = ",",
) -> int | None:
    """Return where the last record of a CSV file begins if the file ends within it; else None.

    `begins` is a pattern of how a record begins, `fault` says what is wrong with one. Only a plain file
    without a last line end can be cut.
    """
    with path.open("rb") as file:
        if file.read(2) == GZIP:
            return None
        tail_at = max(file.seek(0, os.SEEK_END) - LINE_BYTES, 0)
        file.seek(tail_at)
        tail = file.read()
    starts = [found.end() for found in re.finditer(rb"\n(?=%s)" % begins, tail)]
    if tail.endswith(b"\n") or not starts:
        return None
    text = tail[starts[-1] :].decode("utf-8", "replace")
    try:
        cells = next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:  # read on, and named with its line
        return None
    if len(cells) == len(names) and fault(dict(zip(names, cells, strict=True))) is None:
        return None
    return tail_at + starts[-1]


def header_of(path: Path, needed: Sequence[str], hint: str, delimiter: str = ",") -> list[str]:
    """Return the names in a CSV file's first line. Raise SvloadError import-unreadable if a needed one is
    missing, or two are the same."""
    line, names = next(csv_rows(path, delimiter), (1, []))
    missing = [name for name in needed if name not in names]
    if missing:
        raise unreadable(path, line, f"its first line has no column {' and no '.join(missing)}", hint)
    if len(set(names)) < len(names):
        raise unreadable(path, line, "two columns have the same name", hint)
    return names

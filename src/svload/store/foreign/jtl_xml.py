"""JMeter's results as XML (JTL), read by expat element by element: no entity, no document type, no tree in memory."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

import numpy as np

from svload.store.foreign.bounds import LINE_BYTES, NAMES, THREADS, shortened, unreadable
from svload.store.foreign.jtl import (
    LARGEST_MS,
    TRANSACTION_MESSAGE,
    failure_of,
    requests_of,
    status_of,
    thread_group,
)
from svload.store.foreign.lines import open_bytes
from svload.store.foreign.nested import PLAIN, TRANSACTION, left_out
from svload.store.foreign.requests import Codes, Columns, Requests

HINT = "JMeter writes <testResults> with <httpSample> and <sample> in it; see that the file is whole."
_SAMPLES = ("httpSample", "sample")
_READ = 1 << 18
_ROWS_AT_ONCE = 50_000
_DEEPEST = 64
_WHOLE = {
    "ts": "timeStamp",
    "t": "elapsed",
    "lt": "Latency",
    "ct": "Connect",
    "by": "bytes",
    "sby": "sentBytes",
    "ng": "grpThreads",
    "na": "allThreads",
}
_NEEDED = ("ts", "t", "s")


def read_jtl_xml(path: Path) -> Requests:
    """The requests of a JTL file (XML). Raises SvloadError import-unreadable with the line of what is wrong."""
    reader = _Reader(path)
    parser = expat.ParserCreate()
    parser.buffer_text = False
    parser.StartElementHandler = lambda name, attributes: reader.start(
        name, attributes, parser.CurrentLineNumber
    )
    parser.EndElementHandler = reader.end
    parser.DefaultHandler = reader.pass_over
    parser.StartDoctypeDeclHandler = lambda *_: reader.refuse_type(parser.CurrentLineNumber)
    with open_bytes(path) as file:
        seen = since = 0
        try:
            while piece := file.read(_READ):
                parser.Parse(piece, False)
                # A tag that never ends would be kept whole.
                since = since + len(piece) if reader.events == seen else 0
                seen = reader.events
                if since > LINE_BYTES:
                    raise unreadable(
                        path, parser.CurrentLineNumber, f"a tag is longer than {LINE_BYTES >> 20} MiB", HINT
                    )
            parser.Parse(b"", True)
        except expat.ExpatError as why:
            raise unreadable(
                path, why.lineno, f"this is not XML ({expat.errors.messages[why.code]})", HINT
            ) from why
        except (OSError, EOFError) as why:
            raise unreadable(path, None, f"it is not a complete gzip file ({why})", HINT) from why
    return reader.done()


@dataclass(frozen=True)
class _Transaction:
    """An open sample of a transaction controller, and how many requests came before it."""

    attributes: dict[str, str]
    line: int
    samples_before: int


class _Reader:
    """Samples as they come. Of nested ones the outermost counts, of a transaction controller's those in it, if any."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns = Columns(path)
        self._labels, self._threads, self._groups = Codes(NAMES), Codes(THREADS), Codes(NAMES)
        self._open: list[_Transaction | Literal[True] | None] = []
        self._samples = 0
        self._counting = 0
        self._names: frozenset[str] | None = None
        self._rows: dict[str, list[int]] = {}
        self._count = 0
        self._left_out: Counter[str] = Counter()
        self._parts: Counter[str] = Counter()
        self.events = 0
        """What expat has told so far."""

    def pass_over(self, text: str) -> None:
        """Text, a comment, a declaration."""
        self.events += 1

    def refuse_type(self, line: int) -> None:
        """No results declare a type; entities, which could grow without bound, need one."""
        raise unreadable(self._path, line, "it declares a document type, which results have none of", HINT)

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        self.events += 1
        if not self._open and name != "testResults":
            raise unreadable(self._path, line, f"its first element is <{shortened(name, 40)}>", HINT)
        if len(self._open) >= _DEEPEST:
            raise unreadable(self._path, line, f"elements are nested {_DEEPEST} deep", HINT)
        if name not in _SAMPLES or self._counting:
            if name in _SAMPLES:
                self._parts[shortened(attributes.get("lb", ""), 80)] += 1
            self._open.append(None)
        elif attributes.get("rm", "").startswith(TRANSACTION_MESSAGE):
            self._open.append(_Transaction(attributes, line, self._samples))
        else:
            self._open.append(True)
            self._counting += 1
            self._sample(attributes, line)

    def end(self, name: str) -> None:
        self.events += 1
        ended = self._open.pop() if self._open else None
        if isinstance(ended, _Transaction):
            if self._samples == ended.samples_before:
                self._sample(ended.attributes, ended.line)
            else:
                self._left_out[shortened(ended.attributes.get("lb", ""), 80)] += 1
        elif ended:
            self._counting -= 1

    def _sample(self, said: dict[str, str], line: int) -> None:
        self._samples += 1
        names = frozenset(said) & {*_WHOLE, "s", "lb", "rc", "tn"}
        if self._names is None:
            missing = [name for name in _NEEDED if name not in names]
            if missing:
                raise unreadable(self._path, line, f"a sample has no {' and no '.join(missing)}", HINT)
            self._names = names
            self._rows = {name: [] for name in (*names, *(("status", "failure") if "rc" in names else ()))}
        for name in self._names:
            cell = said.get(name, "")
            if name in _WHOLE:
                self._rows[name].append(self._whole(name, cell, line))
            elif name == "s":
                if cell not in ("true", "false"):
                    raise unreadable(
                        self._path, line, f"s is neither true nor false: “{shortened(cell, 40)}”", HINT
                    )
                self._rows[name].append(cell == "true")
            elif name == "rc":
                self._rows["status"].append(status_of(cell))
                self._rows["failure"].append(failure_of(cell, said.get("rm", "")))
            elif name == "lb":
                self._rows[name].append(int(self._labels.of([cell])[0]))
            else:
                self._rows[name].append(int(self._threads.of([cell])[0]))
                self._rows.setdefault("group", []).append(int(self._groups.of([thread_group(cell)])[0]))
        self._count += 1
        if self._count >= _ROWS_AT_ONCE:
            self._keep()

    def _whole(self, name: str, cell: str, line: int) -> int:
        if (
            not re.fullmatch(r"\d{1,18}", cell)
            or (name == "t" and int(cell) > LARGEST_MS)
            or (name != "ts" and int(cell) >= 2**31)
        ):
            if cell == "" and name not in _NEEDED:
                return 0
            raise unreadable(
                self._path, line, f"{name} is not a valid whole number: “{shortened(cell, 40)}”", HINT
            )
        if int(cell) > 2**62 // 1_000_000:
            raise unreadable(self._path, line, f"{name} is beyond all sense: {cell}", HINT)
        return int(cell)

    def _keep(self) -> None:
        types: dict[str, Any] = {
            "ts": np.int64,
            "s": bool,
            "status": np.uint16,
            "failure": np.uint16,
            "lb": np.int16,
            "group": np.int16,
            "tn": np.int32,
        }
        calls = {**_WHOLE, "s": "ok", "lb": "label", "tn": "thread"}
        pieces = {
            calls.get(name, name): np.array(
                cells, dtype=types.get(name, np.int32 if name in ("ng", "na") else np.uint32)
            )
            for name, cells in self._rows.items()
            if name != "rc"
        }
        self._columns.add(self._count, **pieces)
        self._rows = {name: [] for name in self._rows}
        self._count = 0

    def done(self) -> Requests:
        """All of them. Raises SvloadError import-unreadable where there is none."""
        if self._count:
            self._keep()
        found = requests_of(self._path, self._columns, self._labels, self._groups)
        notes = left_out(self._left_out, TRANSACTION) + left_out(self._parts, PLAIN)
        return replace(found, notes=(*notes, *found.notes))


def is_xml(path: Path) -> bool:
    """Whether the file begins as XML does."""
    with open_bytes(path) as file:
        try:
            return file.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
        except (OSError, EOFError) as why:
            raise unreadable(path, None, f"it is not a complete gzip file ({why})", HINT) from why

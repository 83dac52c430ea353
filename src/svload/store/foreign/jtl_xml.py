"""JMeter's results as XML (JTL), read by expat element by element: no entity, no document type, no tree in
memory.

lxml is not used: its iterparse builds a tree, and has no event for a document type or an unclosed tag.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from xml.parsers import expat

import pyarrow as pa

from svload.store.foreign.bounds import LINE_BYTES, shortened, unreadable
from svload.store.foreign.jtl import NEEDED, TRANSACTION_MESSAGE, TYPES, Form, Samples, wrong_sample
from svload.store.foreign.lines import CUT, open_bytes
from svload.store.foreign.nested import PLAIN, TRANSACTION, left_out
from svload.store.foreign.requests import Faulty, Requests

HINT = "JMeter writes <testResults> with <httpSample> and <sample> in it; see that the file is whole."
_SAMPLES = ("httpSample", "sample")
_READ = 1 << 18
_ROWS_AT_ONCE = 50_000
_DEEPEST = 64
_CALLED = {
    "timeStamp": "ts",
    "elapsed": "t",
    "success": "s",
    "label": "lb",
    "responseCode": "rc",
    "responseMessage": "rm",
    "threadName": "tn",
    "Latency": "lt",
    "Connect": "ct",
    "bytes": "by",
    "sentBytes": "sby",
    "grpThreads": "ng",
    "allThreads": "na",
}
"""Column of a JTL in CSV → the attribute with the same content."""


def read_jtl_xml(path: Path) -> Requests:
    """Read the requests of a JTL file (XML). Raise SvloadError import-unreadable with the faulty line."""
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
            if not piece and reader.has_samples:
                return reader.done(CUT)
            raise unreadable(
                path, why.lineno, f"this is not XML ({expat.errors.messages[why.code]})", HINT
            ) from why
        except (LookupError, ValueError) as why:
            if reader.events > 1:  # the declaration is the first one, and names the encoding
                raise
            reason = f"the encoding that it declares can't be read ({why})"
            raise unreadable(path, 1, reason, "Convert it to UTF-8, and change its first line.") from why
        except OSError as why:
            raise unreadable(path, None, f"it is not a complete gzip file ({why})", HINT) from why
    return reader.done()


@dataclass(frozen=True)
class _Transaction:
    """An open sample of a transaction controller, and the number of requests before it."""

    attributes: dict[str, str]
    line: int
    samples_before: int


class _Reader:
    """Handles elements as they open and close. Samples within a request are its parts; a transaction is left
    out if it holds requests. `Samples` leaves out transactions whose samples precede them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._samples = Samples(path)
        self._open: list[_Transaction | Literal[True] | None] = []
        self._count = 0
        self._counting = 0
        self._names: list[str] = []
        self._rows: list[tuple[int, dict[str, str]]] = []
        self._left_out: Counter[str] = Counter()
        self._parts: Counter[str] = Counter()
        self.events = 0
        """Events from expat so far."""

    def pass_over(self, text: str) -> None:
        """Count text, a comment, a declaration."""
        self.events += 1

    def refuse_type(self, line: int) -> None:
        """Refuse a document type: no results declare one, and entities, which may expand, need one."""
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
            self._open.append(_Transaction(attributes, line, self._count))
        else:
            self._open.append(True)
            self._counting += 1
            self._sample(attributes, line)

    def end(self, name: str) -> None:
        self.events += 1
        ended = self._open.pop() if self._open else None
        if isinstance(ended, _Transaction):
            if self._count == ended.samples_before:
                self._sample(ended.attributes, ended.line)
            else:
                self._left_out[shortened(ended.attributes.get("lb", ""), 80)] += 1
        elif ended:
            self._counting -= 1

    def _sample(self, attributes: dict[str, str], line: int) -> None:
        if not self._names:
            self._names = [name for name, called in _CALLED.items() if called in attributes]
            missing = [_CALLED[name] for name in NEEDED if name not in self._names]
            if missing:
                raise unreadable(self._path, line, f"a sample has no {' and no '.join(missing)}", HINT)
        self._count += 1
        self._rows.append((line, {name: attributes.get(_CALLED[name], "") for name in self._names}))
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._keep()

    def _keep(self) -> None:
        try:
            columns = {}
            for name in self._names:
                texts = pa.array([row[name] or None for _, row in self._rows], pa.string())
                is_text = pa.types.is_dictionary(TYPES[name])
                columns[name] = texts.dictionary_encode() if is_text else texts.cast(TYPES[name])
            self._samples.add(pa.record_batch(columns))
        except (pa.ArrowException, Faulty) as why:
            for line, row in self._rows:
                if reason := wrong_sample(row, Form(), _CALLED):
                    raise unreadable(self._path, line, reason, HINT) from why
            raise unreadable(self._path, None, shortened(str(why)), HINT) from why
        self._rows = []

    @property
    def has_samples(self) -> bool:
        return self._count > 0

    def done(self, *notes: str) -> Requests:
        """Return all of them, with these notes. Raise SvloadError import-unreadable if there are none."""
        self._keep()
        found = self._samples.requests()
        left = left_out(self._left_out, TRANSACTION) + left_out(self._parts, PLAIN)
        return replace(found, notes=(*notes, *left, *found.notes))


def is_xml(path: Path) -> bool:
    """Return whether the file begins like XML."""
    with open_bytes(path) as file:
        try:
            return file.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
        except OSError as why:
            raise unreadable(path, None, f"it is not a complete gzip file ({why})", HINT) from why

"""JMeter's results as CSV (JTL): streamed with pyarrow, kept as compact columns. A sample becomes a request,
a thread group a traffic group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from svload.model.errors import SvloadError
from svload.model.request_errors import ERRORS
from svload.store.foreign.bounds import BLOCK_BYTES, NAMES, THREADS, shortened, unreadable
from svload.store.foreign.lines import csv_rows, first_fault, lines_of, open_bytes
from svload.store.foreign.nested import PLAIN, TRANSACTION, UNKNOWN, requests_among, whole_of
from svload.store.foreign.requests import Codes, Columns, Ints, Requests, Users, changes, from_first, mapped
from svload.store.foreign.stamps import has_fraction, is_stamp, unix_ms

MS = 1_000_000
DELIMITERS = (",", ";", "\t", "|")
NEEDED = ("timeStamp", "elapsed", "success")
HEADER = (
    "timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName", "dataType", "success", "failureMessage",
    "bytes", "sentBytes", "grpThreads", "allThreads", "URL", "Latency", "IdleTime", "Connect",
)  # fmt: skip
"""JMeter's columns in its own order."""
HINT = (
    "JMeter writes what can be imported with jmeter -n -t plan.jmx -l results.jtl (CSV with field names, "
    "times in ms)."
)
_WHOLE = ("timeStamp", "elapsed", "bytes", "sentBytes", "grpThreads", "allThreads", "Latency", "Connect")
_TEXTS = ("label", "responseCode", "responseMessage", "threadName")
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
_TYPES = {
    "URL": pa.string(),
    **dict.fromkeys(_WHOLE, pa.int64()),
    **dict.fromkeys(_TEXTS, _DICTIONARY),
    "success": pa.bool_(),
}
TRANSACTION_MESSAGE = "Number of samples in transaction"
"""How the message of a transaction controller's sample begins, which holds the time of samples that stand there too."""
OWN_ERROR = "Non HTTP response code: svload."
"""How the code of a request without an answer begins in what svload exports; its error's name follows."""
_THREAD = re.compile(r"(?P<group>.*?)[ _-]*\d+-\d+$", re.DOTALL)
_EXCEPTIONS = (
    ("ConnectTimeoutException", "connect_timeout"),
    ("SocketTimeoutException", "timeout_first_byte"),
    ("HttpHostConnectException", "connect_refused"),
    ("ConnectException", "connect_refused"),
    ("NoRouteToHost", "connect_unreachable"),
    ("UnknownHost", "lookup"),
    ("BindException", "eaddrnotavail"),
    ("SSLPeerUnverified", "tls_certificate"),
    ("SSL", "tls_handshake"),
    ("NoHttpResponse", "empty_answer"),
    ("SocketException", "read_reset"),
    ("MalformedURL", "other"),
)
_CONNECTING_LATE = {"connect_refused": "timed out", "timeout_first_byte": "connect timed out"}
"""What the message says, in small letters, where one of these errors is a connection that took too long."""
LARGEST_MS = 90 * 86_400 * 1000


class _Faulty(Exception):
    """A block that can't be what it should be; the line is sought then."""


def read_jtl(path: Path) -> Requests:
    """The requests of a JTL file (CSV). Raises SvloadError import-unreadable with the line of what is wrong."""
    form = _form_of(path)
    columns = Columns(path)
    labels, threads = Codes(NAMES), Codes(THREADS)
    groups = Codes(NAMES)
    group_of: dict[int, int] = {}
    try:
        for batch in _batches(path, form):
            _add(batch, columns, labels, threads, groups, group_of)
    except (pa.ArrowException, OSError, _Faulty) as why:
        raise _at_its_line(path, form, why) from why
    return requests_of(path, columns, labels, groups, form)


@dataclass(frozen=True)
class Form:
    """How a file's rows are written."""

    delimiter: str = ","
    names: tuple[str, ...] = HEADER
    headed: bool = True
    """whether its first line holds the names"""
    written: bool = False
    """whether its stamps are dates and times of day"""
    clock_ns: int = MS


def is_headless(path: Path) -> bool:
    """Whether the first line is a row under JMeter's default columns, whose names were not written
    (`print_field_names=false`)."""
    return _headless(path) is not None


def _headless(path: Path) -> Form | None:
    for delimiter in DELIMITERS:
        _, cells = next(csv_rows(path, delimiter), (1, []))
        row = dict(zip(HEADER, cells, strict=False))
        if (
            len(cells) == len(HEADER)
            and (row["timeStamp"].isdecimal() or is_stamp(row["timeStamp"]))
            and row["success"].lower() in ("true", "false")
            and all(row[name].isdecimal() for name in ("elapsed", "bytes", "allThreads"))
        ):
            return Form(delimiter, headed=False)
    return None


def _form_of(path: Path) -> Form:
    form = _headed(path)
    rows = csv_rows(path, form.delimiter)
    _, cells = next(rows, (1, []))
    if form.headed:
        _, cells = next(rows, (1, []))
    stamp = dict(zip(form.names, cells, strict=False)).get("timeStamp", "")
    if not is_stamp(stamp):
        return form
    return replace(form, written=True, clock_ns=MS if has_fraction(stamp) else 1000 * MS)


def _headed(path: Path) -> Form:
    """By its first line. Raises SvloadError import-unreadable."""
    _, first = next(lines_of(path), (1, ""))
    delimiter = next(
        (sign for sign in DELIMITERS if f"timeStamp{sign}" in first or f"{sign}timeStamp" in first),
        ",",
    )
    _, names = next(csv_rows(path, delimiter), (1, []))
    if "timeStamp" not in names and (headless := _headless(path)):
        return headless
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise unreadable(path, 1, f"its first line has no column {' and no '.join(missing)}", HINT)
    if len(set(names)) < len(names):
        raise unreadable(path, 1, "two columns have one name", HINT)
    return Form(delimiter, tuple(names))


def _batches(path: Path, form: Form) -> Iterator[pa.RecordBatch]:
    wanted = [name for name in form.names if name in _TYPES]
    types = {name: _TYPES[name] for name in wanted} | ({"timeStamp": _DICTIONARY} if form.written else {})
    names = None if form.headed else list(form.names)
    open_bytes(path).close()
    with pa.input_stream(str(path), compression=_compression(path)) as stream:
        reader = pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(block_size=BLOCK_BYTES, use_threads=True, column_names=names),
            parse_options=pacsv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                include_columns=wanted,
                strings_can_be_null=False,
                null_values=[""],
            ),
        )
        with reader:
            yield from reader


def _compression(path: Path) -> str | None:
    with path.open("rb") as file:
        return "gzip" if file.read(2) == b"\x1f\x8b" else None


def _add(
    batch: pa.RecordBatch,
    columns: Columns,
    labels: Codes,
    threads: Codes,
    groups: Codes,
    group_of: dict[int, int],
) -> None:
    """Add a block's samples."""
    names = set(batch.schema.names)

    def column(name: str) -> Ints:
        cells = batch.column(batch.schema.get_field_index(name))
        if cells.null_count and name in (*NEEDED, "timeStamp"):
            raise _Faulty(f"a value of {name} is missing")
        if cells.null_count:
            cells = pc.fill_null(cells, 0)
        found: Ints = cells.to_numpy(zero_copy_only=False)
        return found

    elapsed = column("elapsed")
    rows = len(elapsed)
    if not rows:
        return
    if int(elapsed.min()) < 0 or int(elapsed.max()) > LARGEST_MS:
        raise _Faulty("elapsed is no time in ms")
    stamps = (
        _stamps(batch)
        if pa.types.is_dictionary(batch.schema.field("timeStamp").type)
        else column("timeStamp")
    )
    if int(stamps.min()) < 0 or int(stamps.max()) > 2**62 // MS:
        raise _Faulty("timeStamp is not a Unix time in ms")
    pieces: dict[str, Ints] = {
        "timeStamp": stamps,
        "elapsed": elapsed.astype(np.uint32),
        "ok": column("success").astype(bool),
    }
    for name, dtype in (
        ("bytes", np.uint32),
        ("sentBytes", np.uint32),
        ("grpThreads", np.int32),
        ("allThreads", np.int32),
        ("Latency", np.uint32),
        ("Connect", np.uint32),
    ):
        if name in names:
            cells = column(name)
            if int(cells.min()) < 0 or int(cells.max()) > np.iinfo(dtype).max:
                raise _Faulty(f"{name} is not a valid number")
            pieces[name] = cells.astype(dtype)
    if "responseCode" in names:
        codes, words = _coded(batch, "responseCode")
        pieces["status"] = mapped(codes, words, status_of, np.uint16)
        pieces["failure"] = mapped(codes, words, failure_of, np.uint16)
        if "responseMessage" in names:
            _tell_late(pieces["failure"], *_coded(batch, "responseMessage"))
    if "label" in names:
        codes, words = _coded(batch, "label")
        pieces["label"] = labels.of(words)[codes].astype(np.int16)
    if "threadName" in names:
        codes, words = _coded(batch, "threadName")
        known = threads.of(words)
        for code, word in zip(known.tolist(), words, strict=True):
            if code not in group_of:
                group_of[code] = int(groups.of([thread_group(word)])[0])
        pieces["thread"] = known[codes]
        pieces["group"] = np.array([group_of[code] for code in known.tolist()], dtype=np.int16)[codes]
        pieces["kind"] = _kinds(batch, names)
    columns.add(rows, **pieces)


def _stamps(batch: pa.RecordBatch) -> Ints:
    codes, words = _coded(batch, "timeStamp")
    try:
        return np.array(unix_ms(words), dtype=np.int64)[codes]
    except ValueError as why:
        raise _Faulty(str(why)) from why


def _kinds(batch: pa.RecordBatch, names: set[str]) -> Ints:
    """What each row is to the samples that lie within it (`nested`)."""
    kinds = np.full(len(batch), UNKNOWN if not names & {"responseMessage", "URL"} else PLAIN, dtype=np.uint8)
    if "responseMessage" in names:
        codes, words = _coded(batch, "responseMessage")
        kinds[mapped(codes, words, lambda text: int(text.startswith(TRANSACTION_MESSAGE)), bool)] = (
            TRANSACTION
        )
    if "URL" in names:
        urls = batch.column(batch.schema.get_field_index("URL"))
        without = pc.is_in(pc.fill_null(urls, ""), value_set=pa.array(["", "null"]))
        kinds[without.to_numpy(zero_copy_only=False)] = TRANSACTION
    return kinds


def _coded(batch: pa.RecordBatch, name: str) -> tuple[Ints, list[str]]:
    """(place in the words, the words) of a column of texts; a missing one is the empty text."""
    cells = batch.column(batch.schema.get_field_index(name))
    words: list[str] = cells.dictionary.to_pylist()
    if cells.null_count:
        words = [*words, ""]
    codes: Ints = pc.fill_null(cells.indices, len(words) - 1).to_numpy(zero_copy_only=False)
    return codes, words


def thread_group(thread: str) -> str:
    """`Thread Group` of `Thread Group 1-5`."""
    match = _THREAD.fullmatch(thread)
    return match["group"].strip() if match else thread.strip()


def status_of(code: str) -> int:
    """The HTTP status that a response code is; 0: none."""
    return int(code) if len(code) == 3 and code.isascii() and code.isdigit() else 0


def _tell_late(failure: Ints, codes: Ints, messages: list[str]) -> None:
    """Correct the errors whose message says that connecting took too long."""
    for error, sign in _CONNECTING_LATE.items():
        late = np.array([sign in message.lower() for message in messages], dtype=bool)[codes]
        failure[(failure == ERRORS.index(error)) & late] = ERRORS.index("connect_timeout")


def failure_of(code: str, message: str = "") -> int:
    """The error that a sample of this code and message has if it failed."""
    status = status_of(code)
    if code.startswith(OWN_ERROR) and code.removeprefix(OWN_ERROR) in ERRORS:
        return ERRORS.index(code.removeprefix(OWN_ERROR))
    if status:
        return ERRORS.index("status" if status >= 400 else "check")
    error = next((error for sign, error in _EXCEPTIONS if sign in code), "other")
    late = _CONNECTING_LATE.get(error)
    return ERRORS.index("connect_timeout" if late and late in message.lower() else error)


def requests_of(path: Path, columns: Columns, labels: Codes, groups: Codes, form: Form = Form()) -> Requests:
    """What JMeter's columns say, CSV's or XML's."""
    notes: list[str] = []
    if labels.full or groups.full:
        notes.append(f"It has more than {NAMES:,} labels or thread groups; the rest are called “others”.")
    spent = columns.take("elapsed", np.int64)
    spent *= MS
    begun = columns.take("timeStamp", np.int64)
    begun *= MS
    thread = columns.take("thread", np.int32) if columns.has("thread") else None
    label = columns.take("label", np.int16) if columns.has("label") else np.zeros(len(begun), dtype=np.int16)
    kind = columns.take("kind", np.uint8) if columns.has("kind") else None
    if form.clock_ns > MS:  # all samples of a second seem to begin at once
        kind = None
        notes.append(
            "Its time stamps are whole seconds: parts of samples and transactions can't be told from requests."
        )
    elif _stamped_at_end(begun, spent, thread, _alone(label, kind, labels)):
        begun -= spent
        notes.append(
            "Its time stamps are those of the samples' ends (sampleresult.timestamp.start=false): so they "
            "ascend, and no thread overlaps itself."
        )
    kept = None
    if thread is not None and kind is not None:
        kept, left_out = requests_among(begun, spent, thread, label, kind, labels.all() or ("request",))
        notes += left_out

    def of_requests(cells: Ints) -> Ints:
        return cells if kept is None else cells[kept]

    def column(name: str, dtype: Any) -> Ints | None:
        return of_requests(columns.take(name, dtype)) if columns.has(name) else None

    spent, begun, label = of_requests(spent), of_requests(begun), of_requests(label)
    thread = of_requests(thread) if thread is not None else None
    rows = len(begun)
    epoch, begun = from_first(path, begun)
    group = column("group", np.int16)
    group = np.zeros(rows, dtype=np.int16) if group is None else group
    names = groups.all() or ("load",)
    ok = of_requests(columns.take("ok", bool))
    failure = column("failure", np.uint16)
    failure = np.full(rows, ERRORS.index("other"), dtype=np.uint16) if failure is None else failure
    failure[ok] = 0
    everybody, in_group = column("allThreads", np.int32), column("grpThreads", np.int32)
    users, of_group = _users(everybody, in_group, begun, spent, group, names)
    if not of_group:
        notes.append(
            "It does not say how many threads there were at each moment (allThreads, grpThreads): its ramps are "
            "found by the requests that began in each second."
        )
    if thread is not None and not of_group:
        of_group = tuple(len(np.unique(thread[group == place])) for place in range(len(names)))
    status = column("status", np.uint16)
    return Requests(
        epoch_ns=epoch,
        clock_ns=form.clock_ns,
        begun_ns=begun,
        spent_ns=spent,
        ok=ok,
        group=group,
        label=label,
        groups=names,
        labels=labels.all() or ("request",),
        status=np.zeros(rows, dtype=np.uint16) if status is None else status,
        error=failure,
        vu=thread,
        first_byte=column("Latency", np.uint32),
        detail_ns=MS,
        connect=column("Connect", np.uint32),
        received_bytes=column("bytes", np.uint32),
        sent_bytes=column("sentBytes", np.uint32),
        users=users,
        users_of_group=of_group,
        notes=tuple(notes),
    )


_LOOKED_AT = 100_000


def _alone(label: Ints, kind: Ints | None, labels: Codes) -> NDArray[np.bool_]:
    """Which of the first rows seem to be neither a transaction nor a part of another sample."""
    names = labels.all() or ("request",)
    alone = whole_of(names)[label[:_LOOKED_AT]] < 0
    return alone if kind is None else alone & (kind[:_LOOKED_AT] != TRANSACTION)


def _stamped_at_end(begun: Ints, spent: Ints, thread: Ints | None, alone: NDArray[np.bool_]) -> bool:
    """Whether stamps are of the ends: JMeter writes a sample as it ends, so that the ends ascend, and a
    thread's samples never overlap, `alone` being those that can't lie within another."""
    at, took = begun[:_LOOKED_AT][alone], spent[:_LOOKED_AT][alone]
    ends_fall = int(np.count_nonzero(np.diff(at + took) < -MS))
    stamps_fall = int(np.count_nonzero(np.diff(at) < -MS))
    by_begin, by_end = _overlaps(at, took, thread[:_LOOKED_AT][alone]) if thread is not None else (0, 0)
    if by_begin or by_end:
        return by_begin > 10 * by_end
    return ends_fall > max(10 * stamps_fall, 10)


def _overlaps(at: Ints, took: Ints, whose: Ints) -> tuple[int, int]:
    """How many of a thread's samples overlap the one before, if stamps are of the
    begins, and if they are of the ends."""
    order = np.lexsort((at, whose))
    same = whose[order][1:] == whose[order][:-1]
    at, took = at[order], took[order]
    by_begin = int(np.count_nonzero(same & (at[:-1] + took[:-1] > at[1:] + MS)))
    by_end = int(np.count_nonzero(same & (at[:-1] > at[1:] - took[1:] + MS)))
    return by_begin, by_end


def _users(
    everybody: Ints | None,
    of_group: Ints | None,
    begun: Ints,
    spent: Ints,
    group: Ints,
    names: tuple[str, ...],
) -> tuple[Users | None, tuple[int, ...]]:
    """The threads over time (JMeter notes them as a sample ends), and the most of each group."""
    if everybody is None and of_group is None:
        return None, ()
    if everybody is None:
        everybody = of_group
    if of_group is None:
        of_group = everybody
    assert everybody is not None
    assert of_group is not None
    most = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(most, group, of_group)
    if len(names) == 1:
        everybody = of_group
    return changes(begun + spent, everybody), tuple(max(count, 1) for count in most.tolist())


def _at_its_line(path: Path, form: Form, why: Exception) -> SvloadError:
    """The first row that is no sample of JMeter's."""

    def fault(row: dict[str, str]) -> str | None:
        for name in _WHOLE:
            if name not in row or (row[name] == "" and name not in NEEDED):
                continue
            cell = row[name].strip()
            if name == "timeStamp" and form.written:
                if not is_stamp(cell):
                    return f"timeStamp is no time: “{shortened(cell, 40)}”"
                continue
            if not re.fullmatch(r"-?\d{1,18}", cell):
                return f"{name} is not a whole number: “{shortened(cell, 40)}”"
            if int(cell) < 0 or (name == "elapsed" and int(cell) > LARGEST_MS):
                return f"{name} is beyond all sense: {shortened(cell, 40)}"
            if (
                name in ("bytes", "sentBytes", "Latency", "Connect", "grpThreads", "allThreads")
                and int(cell) >= 2**31
            ):
                return f"{name} is beyond all sense: {shortened(cell, 40)}"
        if row["success"].strip().lower() not in ("true", "false"):
            return f"success is neither true nor false: “{shortened(row['success'], 40)}”"
        return None

    found = first_fault(path, form.delimiter, fault, () if form.headed else form.names)
    if found is None:
        return unreadable(path, None, shortened(str(why)), HINT)
    return unreadable(path, found[0], found[1], HINT)

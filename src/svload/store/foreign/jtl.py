"""JMeter's results as CSV (JTL): streamed with pyarrow, kept as compact columns. A sample becomes a request,
a thread group a traffic group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from svload.model.bounds import VUS
from svload.model.errors import SvloadError
from svload.model.request_errors import ERRORS
from svload.store.foreign.bounds import NAMES, THREADS, shortened
from svload.store.foreign.lines import CUT, csv_rows, cut_at, header_of, lines_of
from svload.store.foreign.nested import PLAIN, TRANSACTION, UNKNOWN, requests_among, whole_of
from svload.store.foreign.requests import (
    Codes,
    Columns,
    Faulty,
    Ints,
    Requests,
    Users,
    at_its_line,
    changes,
    coded,
    csv_batches,
    from_first,
    mapped,
    summed,
)
from svload.store.foreign.stamps import (
    closer_day_first,
    dates_of,
    day_first,
    has_fraction,
    has_zone,
    is_stamp,
    unix_ms,
)

MS = 1_000_000
DELIMITERS = (",", ";", "\t", "|")
NEEDED = ("timeStamp", "elapsed", "success")
HEADER = (
    "timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName", "dataType", "success", "failureMessage",
    "bytes", "sentBytes", "grpThreads", "allThreads", "URL", "Latency", "IdleTime", "Connect",
)  # fmt: skip
"""JMeter's columns in JMeter's order."""
HINT = (
    "JMeter writes what can be imported with jmeter -n -t plan.jmx -l results.jtl (CSV with field names, "
    "times in ms)."
)
_WHOLE: Mapping[str, tuple[Any, int]] = {
    "timeStamp": (np.int64, 2**62 // MS),
    "elapsed": (np.uint32, 2**32 - 1),
    **dict.fromkeys(("bytes", "sentBytes", "Latency", "Connect"), (np.uint32, 2**31 - 1)),
    **dict.fromkeys(("grpThreads", "allThreads"), (np.int32, VUS.most)),
}
"""Columns of integers: how they are stored, and the largest plausible value (elapsed: 49 days)."""
_TEXT = pa.dictionary(pa.int32(), pa.string())
TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(_WHOLE, pa.int64()),
    **dict.fromkeys(("label", "responseCode", "responseMessage", "threadName"), _TEXT),
    "success": pa.bool_(),
    "URL": pa.string(),
}
"""The columns that are read."""
_DETAILS = {
    "first_byte": "Latency",
    "connect": "Connect",
    "received_bytes": "bytes",
    "sent_bytes": "sentBytes",
}
TRANSACTION_MESSAGE = "Number of samples in transaction"
"""The start of the message of a transaction controller's sample, which contains the time of samples that are
also in the file."""
OWN_ERROR = "Non HTTP response code: svload."
"""The start of the code that svload exports for a request without an answer; the error's name follows."""
_NUMBER = re.compile(r"(?<!\d)\d+-\d+\Z")
"""A thread's number at the end of its name. It is searched from the start of each number only: names may be long."""
_OF_ADDRESS = re.compile(r"[.:]")
_BEGINS = rb'"?[\d./:-]{8,30}[ T,;\t|]|"?[\d./:-]{1,30}\Z'
"""How a record begins: with its stamp, which is the first column unless somebody moved it."""
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
_HOUR_NS = 3_600 * 10**9
_JUMP_OFF_NS = 60 * 10**9
"""How far a jump of the clock may seem to be off: the time between two rows."""
_JUMPS = {
    -1: "back by an hour, as clocks do when summer time ends: if so, requests of two hours lie in one, and "
    "rates in it are too high.",
    1: "forward by an hour, as clocks do when summer time begins: if so, nothing paused, and rates over the "
    "whole time are too low.",
}
"""What a note says of a jump of local time."""
_CONNECTING_LATE = {"connect_refused": "timed out", "timeout_first_byte": "connect timed out"}
"""Lower-case text in the message if one of these errors is a connection that took too long."""


@dataclass(frozen=True)
class Form:
    """The format of a file's rows."""

    delimiter: str = ","
    names: tuple[str, ...] = HEADER
    headed: bool = True
    """whether its first line has the names"""
    written: bool = False
    """whether its stamps are dates and times of day"""
    local: bool = False
    """whether these name no time zone: they jump where summer time begins or ends"""
    clock_ns: int = MS
    day_first: bool | None = None
    """whether the day comes before the month in them; None: it can't be told"""


def read_jtl(path: Path) -> Requests:
    """Read the requests of a JTL file (CSV). Raise SvloadError import-unreadable with the faulty line."""
    form = _form_of(path)
    types = {name: TYPES[name] for name in form.names if name in TYPES}
    if form.written:
        types["timeStamp"] = _TEXT
    names = () if form.headed else form.names

    def fault(row: dict[str, str]) -> str | None:
        return wrong_sample(row, form)

    until = cut_at(path, _BEGINS, form.names, fault, form.delimiter)
    try:
        if form.written:
            form = replace(form, day_first=_day_first(path, form, names, until))
        samples = Samples(path, form)
        for batch in csv_batches(path, types, form.delimiter, names, until):
            samples.add(batch)
    except (pa.ArrowException, OSError, Faulty) as why:
        raise at_its_line(path, why, fault, HINT, form.delimiter, names) from why
    found = samples.requests()
    return found if until is None else replace(found, notes=(CUT, *found.notes))


def _day_first(path: Path, form: Form, names: Sequence[str], until: int | None) -> bool | None:
    """Return whether the day comes before the month in the whole file: its blocks are read one way.

    If no number shows it, a run that goes on past midnight has taken a day, not a month.
    """
    dates: set[str] = set()
    for batch in csv_batches(path, {"timeStamp": _TEXT}, form.delimiter, names, until):
        words = coded(batch.column("timeStamp"))[1]
        if (found := day_first(words)) is not None:
            return found
        dates |= dates_of(words)
    return closer_day_first(sorted(dates))


def wrong_sample(cells: Mapping[str, str], form: Form, called: Mapping[str, str] | None = None) -> str | None:
    """Return what is wrong with a sample; `called` are its columns' names in the file, if they differ."""
    for name, (_, most) in _WHOLE.items():
        cell = cells.get(name, "").strip()
        shown = (called or {}).get(name, name)
        if name not in cells or (not cell and name not in NEEDED):
            continue
        if name == "timeStamp" and form.written:
            if not is_stamp(cell, form.day_first):
                return f"timeStamp is no time: “{shortened(cell, 40)}”"
        elif not re.fullmatch(r"-?\d{1,18}", cell, re.ASCII):
            return f"{shown} is not a whole number: “{shortened(cell, 40)}”"
        elif not 0 <= int(cell) <= most:
            return f"{shown} is beyond all sense: {shortened(cell, 40)}"
    if cells["success"].lower() not in ("true", "false"):
        shown = (called or {}).get("success", "success")
        return f"{shown} is neither true nor false: “{cells['success'][:40]}”"
    return None


def headless(path: Path) -> Form | None:
    """Return the form of a file that starts with a row under JMeter's default columns, without their names
    (`print_field_names=false`); else None."""
    for delimiter in DELIMITERS:
        try:
            _, cells = next(csv_rows(path, delimiter), (1, []))
        except SvloadError:  # with quotes, by another delimiter
            continue
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
    """Return the form of a file, from its first two rows. Raise SvloadError import-unreadable."""
    _, first = next(lines_of(path), (1, ""))
    first = first.replace('"', "")
    delimiter = next(
        (sign for sign in DELIMITERS if f"timeStamp{sign}" in first or f"{sign}timeStamp" in first), ","
    )
    form = None if "timeStamp" in first else headless(path)
    if form is None:
        form = Form(delimiter, tuple(header_of(path, NEEDED, HINT, delimiter)))
    rows = csv_rows(path, form.delimiter)
    _, cells = next(rows, (1, []))
    if form.headed:
        _, cells = next(rows, (1, []))
    stamp = dict(zip(form.names, cells, strict=False)).get("timeStamp", "")
    if not is_stamp(stamp):
        return form
    clock_ns = MS if has_fraction(stamp) else 1000 * MS
    return replace(form, written=True, local=not has_zone(stamp), clock_ns=clock_ns)


class Samples:
    """JMeter's samples as they are read, from CSV or XML."""

    def __init__(self, path: Path, form: Form = Form()) -> None:
        self._path, self._form = path, form
        self._columns = Columns(path)
        self._labels, self._threads, self._groups = Codes(NAMES), Codes(THREADS), Codes(NAMES)
        self._group_of: dict[int, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a block's samples, in columns of `TYPES`. Raise Faulty, SvloadError for too many."""
        names = set(batch.schema.names)
        if not len(batch):
            return
        pieces: dict[str, Ints] = {}
        for name, (dtype, most) in _WHOLE.items():
            if name not in names:
                continue
            cells = (
                _stamps(batch, self._form.day_first)
                if name == "timeStamp" and self._form.written
                else _whole(batch, name)
            )
            if int(cells.min()) < 0 or int(cells.max()) > most:
                raise Faulty(f"{name} is beyond all sense")
            pieces[name] = cells.astype(dtype)
        pieces["ok"] = _whole(batch, "success").astype(bool)
        if "responseCode" in names:
            codes, words = coded(batch.column("responseCode"))
            pieces["status"] = mapped(codes, words, status_of, np.uint16)
            pieces["failure"] = mapped(codes, words, failure_of, np.uint16)
            if "responseMessage" in names:
                _report_late(pieces["failure"], *coded(batch.column("responseMessage")))
        if "label" in names:
            codes, words = coded(batch.column("label"))
            pieces["label"] = self._labels.of(words)[codes].astype(np.int16)
        if "threadName" in names:
            codes, words = coded(batch.column("threadName"))
            known = self._threads.of(words)
            for code, word in zip(known.tolist(), words, strict=True):
                if code not in self._group_of:
                    self._group_of[code] = int(self._groups.of([thread_group(word)])[0])
            pieces["thread"] = known[codes]
            groups = np.array([self._group_of[code] for code in known.tolist()], dtype=np.int16)
            pieces["group"] = groups[codes]
            pieces["kind"] = _kinds(batch, names)
        self._columns.add(len(batch), **pieces)

    def requests(self) -> Requests:
        """Return all of them. Raise SvloadError import-unreadable if there are none."""
        notes: list[str] = []
        if self._labels.full or self._groups.full:
            notes.append(
                f"It has more than {NAMES:,} labels or thread groups, or too long ones; the rest are called "
                "“others”."
            )
        columns, labels = self._columns, self._labels.all() or ("request",)
        spent = columns.take("elapsed", np.int64)
        spent *= MS
        begun = columns.take("timeStamp", np.int64)
        begun *= MS
        thread, kind = columns.find("thread", np.int32), columns.find("kind", np.uint8)
        label = columns.find("label", np.int16)
        label = np.zeros(len(begun), dtype=np.int16) if label is None else label
        if self._form.clock_ns > MS:  # all samples of a second seem to begin at once
            kind = None
            notes.append(
                "Its time stamps are whole seconds: parts of samples and transactions can't be distinguished from requests."
            )
        elif _stamped_at_end(begun, spent, thread, _alone(label, kind, labels)):
            begun -= spent
            notes.append(
                "Its time stamps are those of the samples' ends (sampleresult.timestamp.start=false): so they "
                "ascend, and no thread overlaps itself."
            )
        if self._form.local:
            notes += _jumps(begun + spent)
        kept = None
        if thread is not None and kind is not None:
            kept, left_out = requests_among(begun, spent, thread, label, kind, labels)
            notes += left_out

        def column(name: str, dtype: Any) -> Ints | None:
            cells = columns.find(name, dtype)
            return cells if cells is None or kept is None else cells[kept]

        def filled(name: str, dtype: Any, default: int = 0) -> Ints:
            cells = column(name, dtype)
            return np.full(len(begun), default, dtype=dtype) if cells is None else cells

        if kept is not None:
            spent, begun, label = spent[kept], begun[kept], label[kept]
            thread = None if thread is None else thread[kept]
        epoch, begun = from_first(self._path, begun)
        group, names = filled("group", np.int16), self._groups.all() or ("load",)
        ok = filled("ok", bool)
        failure = filled("failure", np.uint16, ERRORS.index("other"))
        failure[ok] = 0
        everybody, in_group = column("allThreads", np.int32), column("grpThreads", np.int32)
        users, of_group = _users(everybody, in_group, begun, spent, group, names)
        if users is None:
            notes.append(
                "It does not say how many threads there were at each moment (allThreads, grpThreads): its ramps are "
                "found by the requests that began in each second."
            )
        if thread is not None and not of_group:
            of_group = tuple(len(np.unique(thread[group == place])) for place in range(len(names)))
        details: dict[str, Any] = {field: column(name, np.uint32) for field, name in _DETAILS.items()}
        return Requests(
            epoch_ns=epoch,
            clock_ns=self._form.clock_ns,
            begun_ns=begun,
            spent_ns=spent,
            ok=ok,
            group=group,
            label=label,
            groups=names,
            labels=labels,
            status=filled("status", np.uint16),
            error=failure,
            vu=thread,
            detail_ns=MS,
            users=users,
            users_of_group=of_group,
            notes=tuple(notes),
            **details,
        )


def _whole(batch: pa.RecordBatch, name: str) -> Ints:
    cells = batch.column(name)
    if cells.null_count and name in NEEDED:
        raise Faulty(f"a value of {name} is missing")
    found: Ints = (pc.fill_null(cells, 0) if cells.null_count else cells).to_numpy(zero_copy_only=False)
    return found


def _stamps(batch: pa.RecordBatch, day_first: bool | None) -> Ints:
    codes, words = coded(batch.column("timeStamp"))
    try:
        return np.array(unix_ms(words, day_first), dtype=np.int64)[codes]
    except ValueError as why:
        raise Faulty(str(why)) from why


def _kinds(batch: pa.RecordBatch, names: set[str]) -> Ints:
    """Return each row's role for the samples that lie within it (`nested`)."""
    kinds = np.full(len(batch), UNKNOWN if not names & {"responseMessage", "URL"} else PLAIN, dtype=np.uint8)
    if "responseMessage" in names:
        codes, words = coded(batch.column("responseMessage"))
        starts = np.array([word.startswith(TRANSACTION_MESSAGE) for word in words])
        kinds[starts[codes]] = TRANSACTION
    if "URL" in names:
        without = pc.is_in(pc.fill_null(batch.column("URL"), ""), value_set=pa.array(["", "null"]))
        kinds[without.to_numpy(zero_copy_only=False)] = TRANSACTION
    return kinds


def thread_group(thread: str) -> str:
    """Return `Thread Group` for `Thread Group 1-5`."""
    number = _NUMBER.search(thread)
    return (thread[: number.start()].rstrip(" _-") if number else thread).strip()


def status_of(code: str) -> int:
    """Return the HTTP status of a response code; 0 if it is not a number of three digits."""
    return int(code) if len(code) == 3 and code.isascii() and code.isdigit() else 0


def _report_late(failure: Ints, codes: Ints, messages: list[str]) -> None:
    """Correct the errors whose message says that connecting took too long."""
    for error, sign in _CONNECTING_LATE.items():
        late = np.array([sign in message.lower() for message in messages], dtype=bool)[codes]
        failure[(failure == ERRORS.index(error)) & late] = ERRORS.index("connect_timeout")


def failure_of(code: str) -> int:
    """Return the error that a sample of this code has if it failed."""
    status = status_of(code)
    if code.startswith(OWN_ERROR) and code.removeprefix(OWN_ERROR) in ERRORS:
        return ERRORS.index(code.removeprefix(OWN_ERROR))
    if status:
        return ERRORS.index("status" if status >= 400 else "check")
    return ERRORS.index(next((error for sign, error in _EXCEPTIONS if sign in code), "other"))


_LOOKED_AT = 100_000


def _alone(label: Ints, kind: Ints | None, labels: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which of the first rows seem to be neither a transaction nor a part of another sample."""
    alone = whole_of(labels)[label[:_LOOKED_AT]] < 0
    return alone if kind is None else alone & (kind[:_LOOKED_AT] != TRANSACTION)


def _stamped_at_end(begun: Ints, spent: Ints, thread: Ints | None, alone: NDArray[np.bool_]) -> bool:
    """Return whether stamps mark the ends: JMeter writes a sample when it ends, so ends ascend, and a
    thread's samples never overlap; `alone` marks those that cannot lie within another."""
    at, took = begun[:_LOOKED_AT][alone], spent[:_LOOKED_AT][alone]
    ends_fall = int(np.count_nonzero(np.diff(at + took) < -MS))
    stamps_fall = int(np.count_nonzero(np.diff(at) < -MS))
    by_begin, by_end = _overlaps(at, took, thread[:_LOOKED_AT][alone]) if thread is not None else (0, 0)
    if by_begin or by_end:
        return by_begin > 10 * by_end
    return ends_fall > max(10 * stamps_fall, 10)


def _jumps(ended: Ints) -> list[str]:
    """Return a note if local time jumps by an hour between two rows, which JMeter writes as samples end.

    Rows of several generators alternate between both times for a while: what counts is one jump in total.
    """
    steps = np.diff(ended)
    jumps = np.flatnonzero(np.abs(np.abs(steps) - _HOUR_NS) <= _JUMP_OFF_NS)
    direction = int(np.sign(steps[jumps]).sum())
    if direction not in _JUMPS:
        return []
    after_s = int(ended[jumps[0]] - ended[0]) / 1e9
    return [
        f"After {after_s:,.0f} s its time stamps, which name no zone, jump {_JUMPS[direction]} Times in ms "
        "name their moment in any zone (jmeter.save.saveservice.timestamp_format=ms)."
    ]


def _overlaps(at: Ints, took: Ints, whose: Ints) -> tuple[int, int]:
    """Return how many of a thread's samples overlap the previous one, for stamps of starts, and of ends."""
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
    """Return the threads over time (JMeter records them when a sample ends), and the most of each group; empty
    if the file only counts those of all groups together."""
    if everybody is None and of_group is None:
        return None, ()
    ended = begun + spent
    if of_group is None:
        assert everybody is not None
        if len(names) > 1:
            return changes(ended, everybody), ()
        of_group = everybody
    most = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(most, group, of_group)
    if everybody is None or len(names) == 1:
        users = summed(ended, of_group, group, len(names))
    else:
        engines = _engines(names, most, everybody, group)
        users = summed(ended, everybody, engines[group], int(engines.max()) + 1)
    return users, tuple(max(count, 1) for count in most.tolist())


def _engines(names: tuple[str, ...], most: Ints, everybody: Ints, group: Ints) -> Ints:
    """Return each group's machine: in a distributed test each counts its own threads as all (allThreads).

    JMeter then writes the host before each group's name, and the groups of all machines are the same. On one
    machine, groups with such names at the same time count each other's threads, too.
    """
    hosts = [_host_of(name) for name in names]
    plans: dict[str, set[str]] = {}
    for host, name in zip(hosts, names, strict=True):
        plans.setdefault(host, set()).add(name.removeprefix(host))
    numbers = {host: number for number, host in enumerate(plans)}
    engines = np.array([numbers[host] for host in hosts])
    own = np.bincount(engines, weights=most)
    counted = np.zeros(len(own))
    np.maximum.at(counted, engines[group], everybody)
    apart = "" not in plans and len(set(map(frozenset, plans.values()))) == 1 and (counted <= own).all()
    return engines if apart else np.zeros_like(engines)


def _host_of(group: str) -> str:
    """Return `10.0.0.1:1099` for `10.0.0.1:1099-Thread Group`; empty if there is no such word before it."""
    word = group.partition(" ")[0]
    sign = _OF_ADDRESS.search(word)
    return word[: max(word.find("-", sign.start() if sign else 0), 0)]

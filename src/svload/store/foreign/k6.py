"""k6's results as JSON lines (--out json=FILE) or CSV (--out csv=FILE), streamed with pyarrow: each request
is several points, combined here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from svload.model.bounds import VUS
from svload.model.errors import SvloadError
from svload.model.parsed import parsed
from svload.model.request_errors import ERRORS
from svload.store.foreign.bounds import BLOCK_BYTES, LINE_BYTES, NAMES, shortened, unreadable
from svload.store.foreign.lines import CUT, cut_at, header_of, lines_of, open_bytes
from svload.store.foreign.requests import (
    Codes,
    Columns,
    Faulty,
    Ints,
    Requests,
    at_its_line,
    changes,
    coded,
    csv_batches,
    from_first,
    mapped,
)

JSON_HINT = "k6 writes what can be imported with k6 run --out json=results.json script.js."
CSV_HINT = (
    "k6 writes what can be imported with K6_CSV_TIME_FORMAT=unix_nano k6 run --out csv=results.csv script.js."
)
DURATION, BLOCKED, WAITING, CONNECTING, USERS = (
    "http_req_duration",
    "http_req_blocked",
    "http_req_waiting",
    "http_req_connecting",
    "vus",
)
DROPPED = "dropped_iterations"
_READ = (DURATION, BLOCKED, WAITING, CONNECTING, USERS, DROPPED)
_TAGS = ("name", "scenario", "status", "expected_response", "error_code")
_TEXTS = dict.fromkeys(_TAGS, pa.string())
_DATA = pa.struct({"time": pa.string(), "value": pa.float64(), "tags": pa.struct(_TEXTS)})
_SCHEMA = pa.schema({"type": pa.string(), "metric": pa.string(), "data": _DATA})
_CSV = {"metric_name": pa.string(), "timestamp": pa.int64(), "metric_value": pa.float64(), **_TEXTS}
_ERROR_CODES = {
    1101: "lookup",
    1211: "connect_timeout",
    1212: "connect_refused",
    1213: "other",
    1220: "read_reset",
    1050: "timeout_first_byte",
}
_MS_MOST = 90 * 86_400 * 1000.0


def is_k6_json(first: str) -> bool:
    """Return whether a file with this first line holds k6's points."""
    return first.lstrip().startswith("{") and '"metric"' in first


def is_k6_csv(first: str) -> bool:
    """Return whether a file with this first line holds k6's points as CSV."""
    return first.replace('"', "").startswith("metric_name,timestamp,metric_value")


def read_k6_json(path: Path) -> Requests:
    """Read the requests of k6's JSON lines. Raise SvloadError import-unreadable with the faulty line."""
    points = _Points(path)
    try:
        with open_bytes(path) as file:
            for block in _blocks(file, points.notes):
                table = pajson.read_json(
                    pa.BufferReader(block),
                    read_options=pajson.ReadOptions(block_size=max(len(block), 1)),
                    parse_options=pajson.ParseOptions(
                        explicit_schema=_SCHEMA, unexpected_field_behavior="ignore"
                    ),
                )
                points.add(_of_json(table))
    except (pa.ArrowException, OSError, Faulty) as why:
        raise _json_fault(path, why) from why
    return points.requests(clock_ns=1)


def read_k6_csv(path: Path) -> Requests:
    """Read the requests of k6's CSV. Raise SvloadError import-unreadable with the faulty line."""
    names = header_of(path, ("metric_name", "timestamp", "metric_value"), CSV_HINT)
    points = _Points(path)
    unit_ns = 1
    types = {name: kind for name, kind in _CSV.items() if name in names}
    if (until := cut_at(path, rb"\w+,\d|\w+,?\Z", names, _wrong_row)) is not None:
        points.notes.append(CUT)
    try:
        for batch in csv_batches(path, types, until=until):
            table = pa.Table.from_batches([batch])
            stamps = table.column("timestamp")
            if stamps.null_count:
                raise Faulty("a timestamp is missing")
            if len(stamps):
                if int(pc.min(stamps).as_py()) < 0:
                    raise Faulty("a timestamp is negative")
                unit_ns = _unit_of(int(pc.max(stamps).as_py()))
            points.add(_of_csv(table, unit_ns))
    except (pa.ArrowException, OSError, Faulty) as why:
        raise at_its_line(path, why, _wrong_row, CSV_HINT) from why
    if unit_ns == 10**9:
        points.notes.append(
            "Its time stamps are whole seconds (K6_CSV_TIME_FORMAT=unix): response times are exact, moments are not."
        )
    return points.requests(clock_ns=unit_ns)


def _blocks(file: BinaryIO, notes: list[str]) -> Iterator[bytes]:
    """Yield whole lines, some MiB at a time; a last one that was cut is left out, and noted. Raise Faulty for
    a line that is longer than any record."""
    rest = b""
    while piece := file.read(BLOCK_BYTES):
        block, _, rest = (rest + piece).rpartition(b"\n")
        if len(rest) > LINE_BYTES:
            raise Faulty("a line is longer than any record")
        if block.strip():
            yield block
    if rest.startswith(b"{") and not _is_json(rest):
        notes.append(CUT)
    elif rest.strip():
        yield rest


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(parsed(line), dict)
    except ValueError:
        return False


def _most(metric: str) -> float:
    """Return the largest plausible value of a metric: of users, else ms."""
    return VUS.most if metric == USERS else _MS_MOST


def _unit_of(stamp: int) -> int:
    """Return ns per unit of a Unix time: s, ms, µs or ns."""
    return next(
        (unit for unit, most in ((10**9, 10**11), (10**6, 10**14), (10**3, 10**17)) if stamp < most), 1
    )


def _of_json(table: pa.Table) -> pa.Table:
    """Return the points that are needed, as flat columns: metric, at_ns, value and tags."""
    wanted = pc.and_(
        pc.equal(table.column("type"), "Point"), pc.is_in(table.column("metric"), pa.array(_READ))
    )
    table = table.filter(pc.fill_null(wanted, False)).combine_chunks()
    data = table.column("data")
    tags = pc.struct_field(data, "tags")
    try:
        moments = pc.cast(pc.struct_field(data, "time"), pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid as why:
        raise Faulty(str(why)) from why
    stamps, values = pc.cast(moments, pa.int64()), pc.struct_field(data, "value")
    columns = {"metric": table.column("metric"), "at_ns": stamps, "value": values}
    return pa.table(columns | {name: pc.struct_field(tags, name) for name in _TAGS})


def _of_csv(table: pa.Table, unit_ns: int) -> pa.Table:
    table = table.filter(pc.is_in(table.column("metric_name"), pa.array(_READ)))
    stamps = pc.multiply_checked(table.column("timestamp"), unit_ns)
    columns = {"metric": table.column("metric_name"), "at_ns": stamps, "value": table.column("metric_value")}
    for name in _TAGS:
        there = name in table.column_names
        columns[name] = table.column(name) if there else pa.nulls(len(table), pa.string())
    return pa.table(columns)


class _Points:
    """Points by metric as they are read: k6 writes a request's points in sequence, each metric once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns = Columns(path)
        self._labels, self._groups = Codes(NAMES), Codes(NAMES)
        self._counts = dict.fromkeys(_READ, 0)
        self._last: list[str] = []
        """metrics of the last points, at least those of one request"""
        self._judged = False
        """whether any request says that it succeeded or failed"""
        self.notes: list[str] = []

    def add(self, table: pa.Table) -> None:
        if table.column("at_ns").null_count or table.column("value").null_count:
            raise Faulty("a point has no time or no value")
        values = table.column("value").to_numpy()
        if len(values) and not np.isfinite(values).all():
            raise Faulty("a value is no number")
        metric = table.column("metric")
        self._last = (self._last + metric.slice(max(len(metric) - len(_READ), 0)).to_pylist())[-len(_READ) :]
        for name in _READ:
            mine = table.filter(pc.equal(metric, name))
            if not len(mine):
                continue
            self._counts[name] += len(mine)
            cells = mine.column("value").to_numpy()
            if float(cells.min()) < 0 or float(cells.max()) > _most(name):
                raise Faulty(f"a value of {name} is negative, or beyond all sense")
            pieces: dict[str, Ints] = {f"{name}.value": cells}
            if name in (DURATION, USERS):
                pieces[f"{name}.at"] = mine.column("at_ns").to_numpy()
            if name == DURATION:
                pieces |= self._tags(mine)
            self._columns.add(len(mine) if name == DURATION else 0, **pieces)

    def _tags(self, table: pa.Table) -> dict[str, Ints]:
        tags = {name: coded(table.column(name).combine_chunks()) for name in _TAGS}
        (codes, words), (codes_of_group, groups) = tags["name"], tags["scenario"]
        label = self._labels.of(words)[codes].astype(np.int16)
        group = self._groups.of(groups)[codes_of_group].astype(np.int16)
        status = mapped(*tags["status"], _status, np.uint16)
        expected = mapped(
            *tags["expected_response"], lambda text: {"true": 1, "false": 0}.get(text, 2), np.uint8
        )
        error = mapped(*tags["error_code"], _error, np.uint16)
        self._judged |= any(tags["status"][1]) or bool((expected < 2).any())
        ok = np.where(expected == 2, (status >= 200) & (status < 400), expected == 1)
        return {
            "label": label,
            "group": group,
            "status": status,
            "error": np.where(ok, 0, error).astype(np.uint16),
            "ok": ok,
        }

    def _is_cut(self) -> bool:
        """Return whether only the last request lacks a point: k6 was killed while it wrote them."""
        rows, after = self._counts[DURATION], " ".join(self._last).rpartition(DURATION)[2].split()
        return rows > 1 and any(
            self._counts[name] == rows - 1 and name not in after for name in (BLOCKED, WAITING, CONNECTING)
        )

    def requests(self, clock_ns: int) -> Requests:
        """Return all of them: a request ends when its points are stamped; its start is that minus its blocked
        time and its duration."""
        columns, notes = self._columns, self.notes
        if self._counts[DROPPED]:
            notes.append(
                "k6 dropped iterations, so its arrivals came at a rate: response is counted from the begin, "
                "since no file says when a request was due."
            )
        rows = all_rows = self._counts[DURATION]
        if rows and not self._judged:
            notes.append(
                "No request says whether it succeeded (tags status, expected_response): all count as failed."
            )
        if self._is_cut():
            rows -= 1
            notes += [] if CUT in notes else [CUT]

        def own(name: str, dtype: Any) -> Ints:
            return columns.take(name, dtype)[:rows]

        def paired(name: str) -> Ints | None:
            """Return the times of a metric that every request has."""
            cells = columns.find(f"{name}.value", np.float64)
            return cells[:rows] if cells is not None and len(cells) in (rows, all_rows) else None

        spent = own(f"{DURATION}.value", np.float64)

        blocked, waiting, connecting = map(paired, (BLOCKED, WAITING, CONNECTING))
        if blocked is not None:
            spent += blocked
        else:
            notes.append(
                "Not every request says how long it was blocked: times are k6's http_req_duration, without connecting."
            )
        spent_ns = _ns(spent)
        first_byte = None if waiting is None or blocked is None else _ns(waiting + blocked)
        connect = None if connecting is None else _ns(connecting)
        begun = own(f"{DURATION}.at", np.int64) - spent_ns
        users = None
        at, count = columns.take(f"{USERS}.at", np.int64), columns.take(f"{USERS}.value", np.float64)
        epoch, begun = from_first(self._path, begun)
        group, names = own("group", np.int16), tuple(name or "load" for name in self._groups.all())
        of_group: tuple[int, ...] = ()
        if len(at):
            users = changes(at - epoch, np.rint(count).astype(np.int64))
            of_group = (int(users.count.max()),) if len(names) == 1 else ()
        else:
            notes.append("It has no points of vus, so ramps can't be distinguished from the load.")
        return Requests(
            epoch_ns=epoch, clock_ns=clock_ns, begun_ns=begun, spent_ns=spent_ns, ok=own("ok", bool), group=group,
            label=own("label", np.int16), groups=names, labels=self._labels.all(), status=own("status", np.uint16),
            error=own("error", np.uint16), first_byte=first_byte, connect=connect, users=users, users_of_group=of_group,
            notes=tuple(notes),
        )  # fmt: skip


def _ns(ms: Ints) -> Ints:
    found: Ints = np.rint(ms * 1e6).astype(np.int64)
    return found


def _status(text: str) -> int:
    return int(text) if re.fullmatch(r"[1-9]\d\d", text, re.ASCII) else 0


def _error(code: str) -> int:
    """Return the error of a request that failed, by k6's error_code."""
    number = int(code) if re.fullmatch(r"\d{4}", code, re.ASCII) else 0
    by_hundred = {0: "check", 13: "tls_handshake", 14: "status", 15: "status"}
    return ERRORS.index(_ERROR_CODES.get(number) or by_hundred.get(number // 100, "other"))


def _json_fault(path: Path, why: Exception) -> SvloadError:
    """Return the error of the first line that is not a k6 record, else of `why`."""
    for line, text in lines_of(path):
        if reason := _wrong_json(text):
            return unreadable(path, line, reason, JSON_HINT)
    return unreadable(path, None, shortened(str(why)), JSON_HINT)


def _wrong_json(text: str) -> str | None:
    if not text.strip():
        return None
    try:
        content = parsed(text)
    except ValueError:
        return "this is not JSON"
    texts = isinstance(content, dict) and all(
        isinstance(content.get(name, ""), str) for name in ("type", "metric")
    )
    if not texts or not isinstance(content.get("data"), dict | None):
        return "this is not a k6 record (type, metric, data)"
    if content.get("type") != "Point" or content.get("metric") not in _READ:
        return None
    data = content.get("data") or {}
    value, tags = data.get("value"), data.get("tags")
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= _most(str(content["metric"]))
    ):
        return f"value is not a valid number: “{shortened(str(value), 40)}”"
    if not isinstance(data.get("time"), str) or not _is_moment(data["time"]):
        return f"time is not a time: “{shortened(str(data.get('time')), 40)}”"
    if not isinstance(tags, dict | None) or any(
        not isinstance(tag, str | None) for name, tag in (tags or {}).items() if name in _TAGS
    ):
        return "tags are not texts"
    return None


def _is_moment(text: str) -> bool:
    try:
        pc.cast(pa.array([text]), pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:
        return False
    return True


def _wrong_row(row: dict[str, str]) -> str | None:
    if not re.fullmatch(r"\d{1,19}", row["timestamp"].strip(), re.ASCII):
        return f"timestamp is not a Unix time: “{shortened(row['timestamp'], 40)}”"
    try:
        value = float(row["metric_value"])
    except ValueError:
        value = -1.0
    stamp = int(row["timestamp"])
    if stamp * _unit_of(stamp) >= 2**63:
        return f"timestamp is beyond all sense: {shortened(row['timestamp'], 40)}"
    if row["metric_name"] in _READ and not 0 <= value <= _most(row["metric_name"]):
        return f"metric_value is not a valid number: “{shortened(row['metric_value'], 40)}”"
    return None

"""Foreign requests as a trial's tables and totals: ramps found from the users, times clipped to the window
exactly (docs/method.md §1, §4)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from svload.model.columns import HISTOGRAM_METRICS
from svload.model.request_errors import ERRORS
from svload.model.results import FirstFailure, GroupSummary, StepSummary
from svload.model.visible import marks_as_letters
from svload.store.foreign.requests import Ints, Requests, Users
from svload.store.parquet import TABLES, Arrays, filled

MOST_ROWS = 1_000_000
"""Up to this many requests, each keeps its row; with more there are histograms, as for svload's own load
above 1,000/s."""
MOST_GROUPS = 20
"""Thread groups or scenarios that become traffic groups; if there are more, all are merged."""
ALL = "all"
"""The only step of a group with too many labels, or none."""
MOST_STEPS = 50
"""Labels of a group that become steps; if there are more, the group is one step."""
_LABEL = 1_000
"""Characters of a label that are used for its name."""
SERVICE = "server"
"""The name of the requested server in an imported study."""
_PIECE = 2_000_000
SECOND_NS = 10**9
LEAST_KEPT = 0.5
"""Share of the requests that a window without ramps must hold; with less the whole file is measured."""


@dataclass(frozen=True)
class Made:
    """A trial from its file: tables, totals by group, and its length."""

    started_wall: float
    window_ns: tuple[int, int]
    interval_ns: int
    groups: tuple[GroupSummary, ...]
    tables: Mapping[str, Arrays]
    steps: Mapping[str, tuple[str, ...]]
    """traffic group → its steps; a single step is the whole group"""
    users: Mapping[str, int]
    """most users by group, according to the file; empty if it does not say"""
    vus: Mapping[str, int]
    """the same, or, if the file does not say it, the most at work at the same time"""
    group_names: Mapping[str, str]
    labels: Mapping[str, str]
    longest_ns: int
    notes: tuple[str, ...]
    clock_ns: int
    requests: int
    single: bool = True


def tabulate(requests: Requests, whole: bool = False) -> Made:
    """Return tables and totals of a file's requests, measured without their ramps, or as a `whole`."""
    notes = list(requests.notes)
    if len(requests.groups) > MOST_GROUPS:
        notes.append(f"It has more than {MOST_GROUPS} groups of users: they are taken for one.")
        requests = _as_one(requests)
    low, high = window_of(requests, notes, whole)
    interval_ns = interval_of(high - low, requests.clock_ns)
    if whole:
        # Whole intervals are judged: the last request must not be in a partial one.
        count = max((high - low) // interval_ns, 1)
        interval_ns = -((low - high) // count)
        high = low + count * interval_ns
    names = plain_names(requests.groups, taken=(SERVICE,))
    label_names = plain_names(requests.labels, taken=())
    step, steps = _steps(requests, names, label_names)
    done = requests.begun_ns + requests.spent_ns
    with _rows(requests, done, step) as rows:
        counted = rows.execute(_COUNTED).fetchall()
        sums = {one[0]: one[1:] for one in rows.execute(_SUMS, {"low": low, "high": high}).fetchall()}
        tables = {name: _table(rows, name, interval_ns) for name in ("intervals", "histograms")}
    groups: list[GroupSummary] = []
    at_work: list[int] = []
    for number, name in enumerate(names):
        mine = slice(None) if len(names) == 1 else requests.group == number
        if not requests.users_of_group:
            at_work.append(_most_at_work(requests.begun_ns[mine], done[mine]))
        users = requests.users_of_group[number] if requests.users_of_group else 0
        of_group = [one[1:] for one in counted if one[0] == number]
        own_sums = sums.get(number, (0, 0, 0, 0, -1, -1))
        groups.append(
            _summary(requests, mine, done[mine], name, steps[name], users, (low, high), of_group, own_sums)
        )
    if not requests.users_of_group:
        what = "users" if requests.users is None else "the users of each group"
        most = ", ".join(map(str, at_work))
        notes.append(f"The file doesn't record {what}; at most {most} were at work at once.")
    if len(requests) <= MOST_ROWS:
        tables["samples"] = _samples(requests, step)
    else:
        notes.append(
            f"It holds more than {MOST_ROWS:,} requests: they are kept as histograms (error ≤ 0.4 %), not one by one."
        )
    if requests.users is not None:
        tables["monitors"] = users_read(requests.users, int(done.max()))
    return Made(
        started_wall=requests.epoch_ns / 1e9,
        window_ns=(low, high),
        interval_ns=interval_ns,
        groups=tuple(groups),
        tables=tables,
        steps=steps,
        users=dict(zip(names, requests.users_of_group, strict=True)) if requests.users_of_group else {},
        vus=dict(zip(names, requests.users_of_group or at_work, strict=True)),
        group_names=dict(zip(names, requests.groups, strict=True)),
        labels={
            plain: whole
            for plain, whole in zip(label_names, requests.labels, strict=True)
            if any(plain in s for s in steps.values())
        },
        longest_ns=int(requests.spent_ns.max()),
        notes=tuple(notes),
        clock_ns=requests.clock_ns,
        requests=len(requests),
    )


def _as_one(requests: Requests) -> Requests:
    """Return all groups as one with all users."""
    everybody = (int(requests.users.count.max()),) if requests.users is not None else ()
    group = np.zeros(len(requests), dtype=requests.group.dtype)
    return replace(requests, group=group, groups=("load",), users_of_group=everybody)


def window_of(requests: Requests, notes: list[str], whole: bool) -> tuple[int, int]:
    """Return the measured window [from, until), in ns from the first request: the file without its first and
    last ramp.

    Ramps are found from users if the file has them, else from starts per second. The window is the whole file
    with `whole`, or if less than half of its requests would remain.
    """
    last = int(requests.begun_ns.max())
    everything = 0, int((requests.begun_ns + requests.spent_ns).max()) + 1
    level = requests.users if requests.users is not None else _starts(requests.begun_ns, last)
    if whole or level is None:
        return everything
    low, high = without_ramps(level, last)
    kept = np.count_nonzero((requests.begun_ns >= low) & (requests.begun_ns < high)) / len(requests)
    if kept < LEAST_KEPT:
        notes.append(
            f"Without its ramps only {kept:.0%} of the requests would stay: the whole file is measured, ramps included."
        )
        return everything
    if kept < 1:
        notes.append(
            f"Measured without its ramps: {kept:.1%} of the requests, from {low / 1e9:.1f} s to {high / 1e9:.1f} s "
            "(--window all measures the whole file)."
        )
    return low, high


def _starts(begun_ns: Ints, last: int) -> Users | None:
    """Return the requests that started in each second, as a level over time; None for less than 10 s."""
    if last < 10 * SECOND_NS:
        return None
    seconds, counts = np.unique(begun_ns // SECOND_NS, return_counts=True)
    ends = np.setdiff1d(seconds + 1, seconds)  # each is the first second of a pause
    at = np.append(seconds, ends)
    order = np.argsort(at)
    return Users(at[order] * SECOND_NS, np.append(counts, np.zeros_like(ends))[order])


def without_ramps(level: Users, last: int) -> tuple[int, int]:
    """Return the time from when `level` first reaches 90 % of its 90th percentile over time until it last
    leaves it, or `last`."""
    lasts = np.diff(np.append(level.at_ns, max(last, int(level.at_ns[-1]))))
    order = np.argsort(level.count, kind="stable")
    share = np.cumsum(lasts[order])
    usual = level.count[order][np.searchsorted(share, 0.9 * share[-1])] if share[-1] else level.count.max()
    there = np.flatnonzero(level.count >= 0.9 * usual)
    low = 0 if there[0] == 0 else max(int(level.at_ns[there[0]]), 0)
    after = int(there[-1]) + 1
    high = min(int(level.at_ns[after]), last) if after < len(level.at_ns) else last
    return low, max(high, low)


def interval_of(length_ns: int, clock_ns: int) -> int:
    """Return the width of the tables' intervals: a 600th of the window, from 1 ms to 1 s, and no finer than
    the file's clock."""
    return max(min(length_ns // 600, 10**9), 10**6, clock_ns)


def plain_names(names: Iterable[str], taken: tuple[str, ...]) -> tuple[str, ...]:
    """Return each name in a form valid in a study (a letter of any alphabet, then letters, digits, - and _),
    all different."""
    used = {*taken, "request", "vu", "iteration", "port"}
    found = []
    last: dict[str, int] = {}  # by name: the number given last, since thousands of URLs may begin alike
    for number, name in enumerate(names):
        name = unicodedata.normalize("NFC", name[:_LABEL])
        words = re.finditer(r"[\w-]+", marks_as_letters(name))
        plain = "-".join(name[slice(*word.span())] for word in words).strip("-_")[:60]
        plain = plain if plain[:1].isalpha() else f"n{number}{'-' if plain else ''}{plain}"
        base, key = plain, plain.lower()
        while plain.lower() in used:
            last[key] = last.get(key, 1) + 1
            plain = f"{base}-{last[key]}"
        used.add(plain.lower())
        found.append(plain)
    return tuple(found)


def _steps(
    requests: Requests, groups: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[Ints, dict[str, tuple[str, ...]]]:
    """Return each request's step within its group, and the steps of each group in the order of its labels."""
    shape = len(groups), len(labels)
    key = requests.group.astype(np.int32) * len(labels) + requests.label
    counts = np.bincount(key, minlength=shape[0] * shape[1]).reshape(shape)
    places = np.zeros(shape, dtype=np.uint16)
    found: dict[str, tuple[str, ...]] = {}
    for number, group in enumerate(groups):
        there = np.flatnonzero(counts[number])
        apart = 1 <= len(there) <= MOST_STEPS
        if apart:
            places[number, there] = np.arange(len(there))
        found[group] = tuple(labels[place] for place in there) if apart else (ALL,)
    return places.reshape(-1)[key], found


@contextmanager
def _rows(requests: Requests, done: Ints, step: Ints) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database whose table `r` is the requests, over the same memory."""
    bucket = np.empty(len(done), dtype=np.uint16)
    for first in range(0, len(done), _PIECE):
        piece = slice(first, first + _PIECE)
        bucket[piece] = buckets_of(requests.spent_ns[piece])
    zeros = np.zeros(len(done), dtype=np.uint8)
    sizes = {"sent": requests.sent_bytes, "received": requests.received_bytes, "connect": requests.connect}
    table = pa.table(
        {
            "group": requests.group,
            "step": step,
            "begun": requests.begun_ns,
            "done": done,
            "ok": requests.ok,
            "status": requests.status,
            "error": requests.error,
            "bucket": bucket,
            **{name: zeros if cells is None else cells for name, cells in sizes.items()},
        }
    )
    with duckdb.connect() as connection:
        connection.register("r", table)
        yield connection


_COUNTED = """
SELECT "group", step, ok, error, status, count(*) FROM r GROUP BY ALL ORDER BY ALL
"""
_SUMS = """
SELECT "group", sum(greatest(least(done, $high) - greatest(begun, $low), 0))::BIGINT,
       count(*) FILTER (connect > 0), sum(sent)::BIGINT, sum(received)::BIGINT,
       max(done), coalesce(max(done) FILTER (NOT ok), -1)
FROM r GROUP BY "group"
"""
_OF_TABLE = {
    # By interval of the start, and of the end.
    "intervals": """
SELECT "group", step, interval, sum(n) AS due, sum(n) AS begun, sum(ok) AS ok, sum(failed) AS failed,
       0 AS dropped, sum(completed_ok) AS completed_ok, sum(completed_failed) AS completed_failed,
       sum(received) AS bytes_received, sum(spent) AS response_sum_ns
FROM (SELECT "group", step, begun // {width} AS interval, count(*) AS n, count(*) FILTER (ok) AS ok,
             count(*) FILTER (NOT ok) AS failed, 0 AS completed_ok, 0 AS completed_failed, 0 AS received,
             sum(done - begun) AS spent
      FROM r GROUP BY "group", step, interval
      UNION ALL
      SELECT "group", step, done // {width} AS interval, 0, 0, 0, count(*) FILTER (ok),
             count(*) FILTER (NOT ok), sum(received), 0
      FROM r GROUP BY "group", step, interval)
GROUP BY "group", step, interval
""",
    # Service is the response, since no file says when a request was due.
    "histograms": """
SELECT "group", step, interval, bucket, count,
       unnest(CASE WHEN ok THEN [{response}, {service}] ELSE [{failed_response}] END) AS metric
FROM (SELECT "group", step, begun // {width} AS interval, ok, bucket, count(*) AS count FROM r GROUP BY ALL)
""",
}
_SQL_TYPES = {"u8": "UTINYINT", "u16": "USMALLINT", "u32": "UINTEGER", "u64": "UBIGINT"}


def _table(rows: duckdb.DuckDBPyConnection, name: str, interval_ns: int) -> Arrays:
    codes = {metric: HISTOGRAM_METRICS.index(metric) for metric in ("response", "failed_response", "service")}
    wanted = ", ".join(
        f'CAST("{column}" AS {_SQL_TYPES[code]}) AS "{column}"' for column, code in TABLES[name].items()
    )
    of = _OF_TABLE[name].format(width=interval_ns, **codes)
    found: Arrays = rows.execute(f"SELECT {wanted} FROM ({of}) ORDER BY ALL").fetchnumpy()
    return found


def _summary(
    requests: Requests,
    mine: Any,
    ends: Ints,
    name: str,
    steps: Sequence[str],
    users: int,
    window: tuple[int, int],
    counted: Sequence[tuple[int, bool, int, int, int]],
    sums: tuple[int, ...],
) -> GroupSummary:
    """Return a group's totals. Think time is all of its users' time outside requests."""
    low, high = window
    spent, connections, sent, received, last, last_failed = sums
    inside, ok, active = (ends >= low) & (ends < high), requests.ok[mine], users * (high - low)
    of_all = totals([one[1:] for one in counted])
    return GroupSummary(
        name=name, **of_all, waiting=0, in_flight=0, written=of_all["begun"], left_at_end=0,
        completed_in_window=int(inside.sum()), ok_in_window=int((inside & ok).sum()),
        steps=tuple(
            StepSummary(name=step, **totals([one[1:] for one in counted if one[0] == place]))
            for place, step in enumerate(steps)
        ),
        connections_opened=connections, bytes_sent=sent, bytes_received=received, active_ns=active,
        request_ns=spent, think_ns=max(active - spent, 0), residence_ns=spent,
        in_flight_mean=spent / max(high - low, 1), last_done_ns=last, last_failed_ns=last_failed,
        longest_silence_ns=_silence(ends[inside], low, high),
        first_failure=_first_failure(requests, mine, ends, ok),
    )  # fmt: skip


def totals(rows: Iterable[tuple[bool, int, int, int]]) -> dict[str, Any]:
    """Return what a group's and a step's summary have in common, from rows of (ok, error, status, count)."""
    counts: Counter[bool] = Counter()
    errors: Counter[str] = Counter()
    answers: Counter[int] = Counter()
    for ok, error, status, count in rows:
        counts[ok] += count
        answers[status] += count
        if not ok and count:
            errors[ERRORS[error] or "other"] += count
    total = counts.total()
    return {
        "due": total,
        "begun": total,
        "dropped": 0,
        "ok": counts[True],
        "failed": counts[False],
        "errors": dict(errors),
        "status": {str(status): count for status, count in sorted(answers.items()) if status},
    }


def _most_at_work(begun: Ints, done: Ints) -> int:
    """Return the most requests in flight at the same time."""
    begun, done = np.sort(begun), np.sort(done)
    under_way = np.arange(1, len(begun) + 1) - np.searchsorted(done, begun, side="right")
    return int(under_way.max(initial=1))


def _silence(ends: Ints, low: int, high: int) -> int:
    if np.any(np.diff(ends) < 0):
        ends = np.sort(ends)
    return int(np.diff(np.concatenate([[low], ends, [high]])).max())


def _first_failure(requests: Requests, mine: Any, ends: Ints, ok: Ints) -> FirstFailure | None:
    failed = np.flatnonzero(~ok)
    if not len(failed):
        return None
    first = failed[int(np.argmin(ends[failed]))]
    error, status = int(requests.error[mine][first]), int(requests.status[mine][first])
    return FirstFailure(at_ns=int(ends[first]), error=ERRORS[error] or "other", status=status, body="")


def buckets_of(values_ns: Ints) -> NDArray[np.uint32]:
    """Return the histogram bucket of each value in ns: `model.columns.bucket` for an array."""
    values = np.maximum(values_ns, 0)
    exponent = np.frexp(np.maximum(values, 1).astype(np.float64))[1] - 1
    shifted = (exponent - 6) * 128 + (values >> np.maximum(exponent - 7, 0)) - 128
    found: NDArray[np.uint32] = np.where(values < 128, values, shifted).astype(np.uint32)
    return found


def _samples(requests: Requests, step: Ints) -> Arrays:
    """Return one row per request, in the order of their starts."""
    order = np.lexsort((requests.group, requests.begun_ns))

    def sorted_(column: Ints | None, unit: int = 1) -> Any:
        return 0 if column is None else column[order].astype(np.int64) * unit

    begun, spent, vu = sorted_(requests.begun_ns), sorted_(requests.spent_ns), sorted_(requests.vu)
    first_byte = sorted_(requests.first_byte, requests.detail_ns)
    connect = sorted_(requests.connect, requests.detail_ns)
    cells = {
        "group": sorted_(requests.group), "vu": np.maximum(vu, 0), "step": step[order], "row": -1,
        "seq": _sequence(np.broadcast_to(vu, len(order))), "due_ns": begun, "ready_ns": begun, "begun_ns": begun,
        "written_ns": begun + np.minimum(connect, spent), "done_ns": begun + spent,
        "first_byte_ns": np.where(first_byte > 0, begun + np.minimum(first_byte, spent), -1),
        "status": sorted_(requests.status), "error": sorted_(requests.error),
        "request_bytes": sorted_(requests.sent_bytes), "body_bytes": sorted_(requests.received_bytes),
        "connection": np.maximum(vu, 0), "reused": connect == 0, "connect_ns": connect, "read_lag_ns": -1,
    }  # fmt: skip
    return filled("samples", len(order), cells)


def _sequence(vu: Ints) -> Ints:
    """Return the index of each request among those of its user, from 0."""
    order = np.argsort(vu, kind="stable")
    _, firsts, counts = np.unique(vu[order], return_index=True, return_counts=True)
    found = np.empty(len(vu), dtype=np.int64)
    found[order] = np.arange(len(vu)) - np.repeat(firsts, counts)
    return found


def users_read(users: Users, last_ns: int) -> Arrays:
    """Return the number of users over time as readings, one at each change and one at the end."""
    at = np.append(users.at_ns, max(last_ns, int(users.at_ns[-1])))
    value = np.append(users.count, users.count[-1])
    return filled(
        "monitors", len(at), {"offset_ns": at, "monitor": "imported", "metric": "users", "value": value}
    )

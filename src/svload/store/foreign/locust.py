"""Locust's history of totals (--csv NAME: NAME_stats_history.csv): counts and sums per second, without single
requests, so without percentiles."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from svload.model.bounds import TIME_S, VUS
from svload.model.request_errors import ERRORS
from svload.model.results import GroupSummary, StepSummary
from svload.store.foreign.bounds import SPAN_NS, TABLE_ROWS, shortened, unreadable
from svload.store.foreign.lines import csv_rows, header_of, lines_of
from svload.store.foreign.requests import Ints, changes
from svload.store.foreign.tabulate import (
    ALL,
    MOST_STEPS,
    SECOND_NS,
    SERVICE,
    Made,
    plain_names,
    totals,
    users_read,
    without_ramps,
)
from svload.store.parquet import Arrays, filled

ALL_NAMES = "Aggregated"
"""Locust's name for the row of all requests."""
HINT = "Locust writes NAME_stats_history.csv with locust --headless --csv NAME."
MOST_SECONDS_A_ROW = 600
"""Locust writes a row per second; rows further apart give no values per second, and a table of seconds would
be unbounded."""
MOST_SECONDS_OF_NAMES = 10 * TABLE_ROWS
"""Seconds of all names together; a file with a row per second and name has at most `TABLE_ROWS`."""
_NEEDED = (
    "Timestamp",
    "User Count",
    "Name",
    "Total Request Count",
    "Total Failure Count",
    "Total Average Response Time",
)
_SIZE = "Total Average Content Size"
_MOST = 1e12
_MOST_SUM = 2.0**63
"""ns of all requests together, or bytes: the tables hold them in 64 bits."""
_MOST_OF = {"User Count": VUS.most, "Total Average Response Time": 1000 * TIME_S.most}


def is_history(first: str) -> bool:
    """Return whether a file with this first line holds a history of Locust's totals."""
    return first.replace('"', "").startswith("Timestamp,User Count,")


def is_summary(path: Path) -> bool:
    """Return whether the file is Locust's summary of a whole test, NAME_stats.csv."""
    _, first = next(lines_of(path), (1, ""))
    return first.replace('"', "").startswith("Type,Name,Request Count,")


def read_history(path: Path, measure_all: bool = False) -> Made:
    """Read the aggregated rows as a trial's tables. Raise SvloadError import-unreadable with the line."""
    names = header_of(path, _NEEDED, HINT)
    rows = csv_rows(path)
    line, _ = next(rows)
    place = {name: names.index(name) for name in (*_NEEDED, *((_SIZE,) if _SIZE in names else ()))}
    type_at = names.index("Type") if "Type" in names else None
    mixed = False
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for count, (line, cells) in enumerate(rows, 1):
        if len(cells) != len(names):
            raise unreadable(path, line, f"{len(cells)} values stand under {len(names)} names", HINT)
        if count > TABLE_ROWS:
            hint = (
                f"Keep its first line and the rows called {ALL_NAMES}: they suffice, without a step per name."
            )
            raise unreadable(path, line, f"it has more than {TABLE_ROWS:,} rows", hint)
        row = tuple(_number(path, line, name, cells[at]) for name, at in place.items() if name != "Name")
        method = cells[type_at] if type_at is not None else ""
        of_name = found.setdefault((cells[place["Name"]], method), [])
        last = of_name[-1] if of_name else None
        backwards = last and (row[0] < last[0] or row[2] < last[2] or row[3] < last[3])
        mixed |= bool(backwards)
        # If no types are written, rows of one name may be of several types.
        if backwards and (type_at is not None or cells[place["Name"]] == ALL_NAMES):
            hint = "See that one run wrote it: Locust's counts were reset, or files were joined."
            raise unreadable(path, line, "its moments or totals go backwards", hint)
        if row[3] > row[2]:
            raise unreadable(path, line, "more requests failed than were made", HINT)
        if row[2] * max(row[4] * 1e6, sum(row[5:])) >= _MOST_SUM:
            raise unreadable(path, line, "requests times their average are beyond all sense", HINT)
        of_name.append(row)
    whole = next((found.pop(key) for key in list(found) if key[0] == ALL_NAMES), [])
    if len(whole) < 2 or whole[-1][0] == whole[0][0] or whole[-1][2] == whole[0][2]:
        raise unreadable(path, line, f"no request ended between two rows called {ALL_NAMES}", HINT)
    if (whole[-1][0] - whole[0][0]) * SECOND_NS > SPAN_NS:
        hint = "See that one run wrote it: a file that is appended to holds several."
        raise unreadable(path, None, "its first and last rows are more than 90 days apart", hint)
    if whole[-1][0] - whole[0][0] > MOST_SECONDS_A_ROW * len(whole):
        hint = "Cut it into a file for each run."
        raise unreadable(
            path, line, f"its {len(whole)} rows are {whole[-1][0] - whole[0][0]:,.0f} s apart", hint
        )
    often = Counter(name for name, _ in found)
    parts = {
        f"{method} {name}" if often[name] > 1 else name: np.array(of_name, dtype=float)
        for (name, method), of_name in found.items()
        if of_name[-1][2] > 0
    }
    total = sum(float(part[-1, 2]) for part in parts.values())
    seconds = len(parts) * (whole[-1][0] - whole[0][0])
    few = 1 < len(parts) <= MOST_STEPS and seconds <= MOST_SECONDS_OF_NAMES
    full = not mixed and few and total == whole[-1][2]
    return _made(np.array(whole, dtype=float), parts if full else {}, measure_all)


def _number(path: Path, line: int, name: str, cell: str) -> float:
    if cell in ("N/A", "") and name.startswith("Total Average"):
        return 0.0
    value = float(cell) if re.fullmatch(r"\d{1,15}(\.\d{1,30})?(e-\d{1,3})?", cell) else math.nan
    if not 0 <= value <= _MOST_OF.get(name, _MOST):
        raise unreadable(path, line, f"{name} is not a valid number: “{shortened(cell, 40)}”", HINT)
    return value


def _by_second(rows: Any, begin: float, size: int) -> Arrays:
    """Return what was added in each second from `begin`; a pause between two rows is spread evenly, in
    integers.

    Before its first row a name has nothing.
    """
    at = (rows[:, 0] - begin).astype(np.int64)
    seconds = np.arange(size + 1)

    def added(cumulative: Any) -> Ints:
        grown = np.interp(
            seconds, [max(at[0] - 1, 0), *at], [0.0 if at[0] > 0 else cumulative[0], *cumulative]
        )
        found: Ints = np.diff(np.floor(grown + 1e-6).astype(np.int64))
        return found

    due = added(rows[:, 2])
    failed = np.minimum(added(rows[:, 3]), due)
    received = added(rows[:, 2] * rows[:, 5]) if rows.shape[1] > 5 else np.zeros(size, dtype=np.int64)
    return {
        "due": due,
        "begun": due,
        "ok": due - failed,
        "failed": failed,
        "completed_ok": due - failed,
        "completed_failed": failed,
        "bytes_received": received,
        "response_sum_ns": added(rows[:, 2] * rows[:, 4] * 1e6),
    }


def _totals(counted: Arrays) -> dict[str, Any]:
    ok, failed = int(counted["ok"].sum()), int(counted["failed"].sum())
    return totals([(True, 0, 0, ok), (False, ERRORS.index("other"), 0, failed)])


def _made(rows: Any, parts: Mapping[str, Any], measure_all: bool) -> Made:
    begin, size = float(rows[0, 0]), int(rows[-1, 0] - rows[0, 0])
    earlier = int(rows[0, 2])
    end_ns = max(size, 1) * SECOND_NS
    whole = _by_second(rows, begin, size)
    names = plain_names(parts, taken=(SERVICE,)) if parts else (ALL,)
    steps = [_by_second(part, begin, size) for part in parts.values()] if parts else [whole]
    users = changes(((rows[:, 0] - begin) * SECOND_NS).astype(np.int64), rows[:, 1].astype(np.int64))
    low, high = (0, end_ns) if measure_all else without_ramps(users, end_ns)
    if high <= low:
        low, high = 0, end_ns
    most = int(max(users.count.max(), 1))
    inside = slice(low // SECOND_NS, high // SECOND_NS)
    clipped = int(np.maximum(whole["response_sum_ns"][inside], 0).sum())
    active = most * (high - low)
    of_all = _totals(whole)
    summary = GroupSummary(
        name="load", **of_all, waiting=0, in_flight=0, written=of_all["begun"], left_at_end=0,
        completed_in_window=int(whole["due"][inside].sum()), ok_in_window=int(whole["ok"][inside].sum()),
        steps=tuple(StepSummary(name=name, **_totals(one)) for one, name in zip(steps, names, strict=True)),
        bytes_received=int(whole["bytes_received"].sum()), request_ns=clipped, think_ns=max(active - clipped, 0),
        active_ns=active, in_flight_mean=clipped / max(high - low, 1), residence_ns=clipped,
        longest_silence_ns=_silence(whole["due"][inside]), last_done_ns=end_ns,
    )  # fmt: skip
    intervals = [
        filled(
            "intervals",
            size,
            {"step": step, "interval": np.arange(size)} | {name: np.maximum(c, 0) for name, c in one.items()},
        )
        for step, one in enumerate(steps)
    ]
    return Made(
        started_wall=begin,
        window_ns=(low, high),
        interval_ns=SECOND_NS,
        groups=(summary,),
        tables={
            "intervals": {name: np.concatenate([one[name] for one in intervals]) for name in intervals[0]},
            "monitors": users_read(users, end_ns),
        },
        steps={"load": names},
        users={"load": most},
        vus={"load": most},
        group_names={"load": ALL_NAMES},
        labels=dict(zip(names, parts or (ALL_NAMES,), strict=True)),
        longest_ns=int(max(rows[:, 4].max() * 1e6, 10**9)),
        notes=(
            "Locust's history holds totals a second: means, throughput and success are measured, percentiles "
            "are not (its own are of a sliding "
            "window of 10 s, or of the whole test with its ramp).",
            "Requests count in the second in which they ended, since no file says when they began.",
            *([f"{earlier:,} requests that ended before its first row are left out."] if earlier else []),
        ),
        clock_ns=SECOND_NS,
        requests=of_all["due"],
        single=False,
    )


def _silence(total: Ints) -> int:
    """Return the longest time without a completion, in whole seconds."""
    there = np.flatnonzero(np.concatenate([[1], total, [1]]))
    return (int(np.diff(there).max()) - 1) * SECOND_NS

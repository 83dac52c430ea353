"""However requests are divided into shares, merging the shares gives what a single share counts: tables,
totals and identities alike."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from svload.drive.generators import ShareResult
from svload.drive.packing import Part
from svload.drive.share.cut import Share
from svload.drive.totals import merge_summaries
from svload.model import columns
from svload.store.parquet import merge_shares

CODES = {"u64": "Q", "i64": "q", "u32": "I", "u16": "H", "u8": "B"}
INTERVAL_NS = 1000
Request = tuple[int, int, bool]
"""When it was due, how long it took (ns), whether it was ok."""
REQUESTS = st.lists(
    st.tuples(st.integers(0, 9 * INTERVAL_NS), st.integers(1, 10**12), st.booleans()), max_size=60
)
fast = settings(max_examples=60, deadline=None)


def tables(requests: Sequence[Request]) -> dict[str, Any]:
    """Return the tables that a share with these requests leaves."""
    intervals = sorted({due // INTERVAL_NS for due, _, _ in requests})
    mine = {at: [request for request in requests if request[0] // INTERVAL_NS == at] for at in intervals}
    counts = {
        "interval": intervals,
        "due": [len(mine[at]) for at in intervals],
        "ok": [sum(ok for _, _, ok in mine[at]) for at in intervals],
        "failed": [sum(not ok for _, _, ok in mine[at]) for at in intervals],
        "response_sum_ns": [sum(took for _, took, _ in mine[at]) for at in intervals],
    }
    cells = Counter((due // INTERVAL_NS, 0 if ok else 1, columns.bucket(took)) for due, took, ok in requests)
    rows = sorted(cells)
    histogram = {
        "interval": [row[0] for row in rows],
        "metric": [row[1] for row in rows],
        "bucket": [row[2] for row in rows],
        "count": [cells[row] for row in rows],
    }
    return {
        name: {
            key: (code, array(CODES[code], values.get(key, [0] * length)).tobytes())
            for key, code in schema.items()
        }
        for name, schema, values, length in (
            ("intervals", columns.INTERVALS, counts, len(intervals)),
            ("histograms", columns.HISTOGRAMS, histogram, len(rows)),
        )
    }


def dealt(requests: Sequence[Request], to: Sequence[int], shares: int) -> list[list[Request]]:
    return [
        [request for request, share in zip(requests, to, strict=False) if share % shares == number]
        for number in range(shares)
    ]


@fast
@given(REQUESTS, st.lists(st.integers(0, 5), min_size=60, max_size=60), st.integers(1, 6))
def test_tables_of_any_shares_are_those_of_one(requests: list[Request], to: list[int], shares: int) -> None:
    whole = merge_shares([(0, tables(requests))])
    parts = merge_shares([(0, tables(part)) for part in dealt(requests, to, shares)])
    for name in ("intervals", "histograms"):
        found, wanted = ({key: list(column) for key, column in one[name].items()} for one in (parts, whole))
        assert found == wanted


def summary(requests: Sequence[Request]) -> dict[str, Any]:
    ok = sum(ok for _, _, ok in requests)
    all_ = len(requests)
    failed_ns = sorted(due + took for due, took, ok in requests if not ok)
    failures = [{"at_ns": at_ns, "error": "read_reset", "status": 0, "body": ""} for at_ns in failed_ns]
    counts = {"due": all_ + 2, "begun": all_ + 1, "waiting": 1, "dropped": 0, "ok": ok, "in_flight": 1}
    counts |= {"failed": all_ - ok, "written": all_, "completed_in_window": all_, "ok_in_window": ok}
    group = counts | {
        "name": "load",
        "errors": {"read_reset": all_ - ok},
        "residence_ns": sum(took for _, took, _ in requests),
        "first_failure": failures[0] if failures else None,
        "last_failed_ns": max(failed_ns, default=-1),
        "last_done_ns": max((due + took for due, took, _ in requests), default=-1),
    }
    return {"groups": [group]}


@fast
@given(REQUESTS, st.lists(st.integers(0, 5), min_size=60, max_size=60), st.integers(1, 6))
def test_shares_keep_both_identities(requests: list[Request], to: list[int], shares: int) -> None:
    results = [
        ShareResult(Share(f"load.{number}", (Part(0, number),), {}, ()), summary(part), Path())
        for number, part in enumerate(dealt(requests, to, shares))
    ]
    (merged,) = merge_summaries(results, ["load"])
    (backwards,) = merge_summaries(results[::-1], ["load"])
    assert merged == backwards
    assert merged.due == merged.begun + merged.waiting + merged.dropped == len(requests) + 2 * shares
    assert merged.begun == merged.ok + merged.failed + merged.in_flight
    assert sum(merged.errors.values()) == merged.failed
    assert merged.residence_ns == sum(took for _, took, _ in requests)
    failed_ns = [due + took for due, took, ok in requests if not ok]
    assert merged.last_failed_ns == max(failed_ns, default=-1)
    assert (merged.first_failure.at_ns if merged.first_failure else -1) == min(failed_ns, default=-1)
    assert merged.last_done_ns == max((due + took for due, took, _ in requests), default=-1)

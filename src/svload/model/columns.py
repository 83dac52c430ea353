"""Columns of a trial's tables, by name and type, and the histogram's buckets: one definition for engine, store and analysis.

A table in memory is `dict[str, Column]`; a column is `(type code, bytes)`, little endian and contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping

Column = tuple[str, bytes]
Table = dict[str, Column]
WIDTH = {"u64": 8, "i64": 8, "u32": 4, "u16": 2, "u8": 1, "f64": 8}

ZERO_IF_ABSENT = ("step",)
"""Columns that older tables lack: everything in them was of one step."""

INTERVALS: Mapping[str, str] = {
    "group": "u16",
    "step": "u16",
    "interval": "u32",
    "due": "u64",
    "begun": "u64",
    "ok": "u64",
    "failed": "u64",
    "dropped": "u64",
    "completed_ok": "u64",
    "completed_failed": "u64",
    "bytes_received": "u64",
    "response_sum_ns": "u64",
}
HISTOGRAMS: Mapping[str, str] = {
    "group": "u16",
    "step": "u16",
    "interval": "u32",
    "metric": "u8",
    "bucket": "u32",
    "count": "u64",
}
ROWS: Mapping[str, str] = {"group": "u16", "row": "u32", "asked": "u64"}
SAMPLES: Mapping[str, str] = {
    "group": "u16",
    "vu": "u32",
    "seq": "u32",
    "step": "u16",
    "row": "i64",
    "due_ns": "i64",
    "ready_ns": "i64",
    "begun_ns": "i64",
    "written_ns": "i64",
    "first_byte_ns": "i64",
    "done_ns": "i64",
    "status": "u16",
    "error": "u16",
    "request_bytes": "u32",
    "header_bytes": "u32",
    "body_bytes": "u64",
    "connection": "u32",
    "reused": "u8",
    "tls": "u8",
    "lookup_ns": "i64",
    "connect_ns": "i64",
    "appconnect_ns": "i64",
    "pretransfer_ns": "i64",
    "redirect_ns": "i64",
    "redirects": "u16",
    "read_lag_ns": "i64",
}
"""The parquet files of a trial add `share` (u16, index into summary.generators) to samples; `group` is the case's group index, merged over shares."""

MONITORS: Mapping[str, str] = {
    "offset_ns": "i64",
    "service": "utf8",
    "monitor": "utf8",
    "entity": "utf8",
    "metric": "utf8",
    "value": "f64",
}
"""monitors.parquet, one row a reading. `service` is empty for the host; `entity` a process, core, disk or interface; units stand in the metric's name."""

HISTOGRAM_METRICS = (
    "response",
    "failed_response",
    "service",
    "generator_lag",
    "slot_wait",
    "response_without_lag",
    "read_lag",
    "server_time",
)
"""Histogram metric code → name (engine/README.md)."""


def bucket(value_ns: int) -> int:
    """The histogram bucket of a value in ns: log-linear, 128 buckets a power of two, width ≤ 1/128 of the value."""
    if value_ns < 128:
        return max(value_ns, 0)
    exponent = value_ns.bit_length() - 1
    return (exponent - 6) * 128 + (value_ns >> (exponent - 7)) - 128


def bucket_bounds(index: int) -> tuple[int, int]:
    """[low, high) in ns of a bucket; its representative value is the middle (error ≤ 0.4 %)."""
    if index < 128:
        return index, index + 1
    exponent = index // 128 + 6
    low = (index % 128 + 128) << (exponent - 7)
    return low, low + (1 << (exponent - 7))

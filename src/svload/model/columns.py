"""Names and types of the columns of a trial's tables, and the histogram's buckets: one definition for engine,
store and analysis.

A table in memory is `dict[str, Column]`; a column is `(type code, bytes)`, little endian and contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping

Column = tuple[str, bytes]
Table = dict[str, Column]
WIDTH = {"u64": 8, "i64": 8, "u32": 4, "u16": 2, "u8": 1, "f64": 8}

ZERO_IF_ABSENT = ("step",)
"""Columns that older tables lack; all their rows belong to one step."""

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
"""The parquet files of a trial add `share` (u16, index into summary.generators) to samples; `group` is the
case's group index, merged over shares."""

MONITORS: Mapping[str, str] = {
    "offset_ns": "i64",
    "service": "utf8",
    "monitor": "utf8",
    "entity": "utf8",
    "metric": "utf8",
    "value": "f64",
}
"""monitors.parquet, one row per reading. `service` is empty for the host; `entity` is a process, core, disk
or interface; metric names contain their units."""

HISTOGRAM_METRICS = (
    "response",
    "failed_response",
    "service",
    "generator_lag",
    "slot_wait",
    "response_without_lag",
    "read_lag",
    "server_time",
    "sampled_response",
    "sampled_clean",
)
"""Histogram metric code → name (engine/docs/results.md). Older trials have no rows for the last two."""

_OF_GROUP = {
    "group": "the traffic group: its place in `groups` of summary.json, from 0",
    "step": "the step: its place through all scenarios of the group, from 0; 0 of a lone request",
}
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "intervals": _OF_GROUP
    | {
        "interval": "⌊offset / `interval_ns`⌋, from 0",
        "due": "requests due in it",
        "begun": "of those due in it, the ones that began, whenever",
        "ok": "of those due in it, the ones that ended ok, whenever",
        "failed": "of those due in it, the ones that ended and failed, whenever",
        "dropped": "of those due in it, the ones that a full pool dropped",
        "completed_ok": "requests that ended ok in it, whenever due",
        "completed_failed": "requests that ended in it and failed, whenever due",
        "bytes_received": "of the requests that ended in it: heads, framing and redirect hops included, TLS excluded",
        "response_sum_ns": "Σ response of the requests due in it that ended, failed ones included",
    },
    "histograms": _OF_GROUP
    | {
        "interval": "⌊due / `interval_ns`⌋, from 0",
        "metric": "which time: "
        + ", ".join(f"{code} {name}" for code, name in enumerate(HISTOGRAM_METRICS))
        + "; generator_lag and slot_wait are of all begun requests, read_lag of a sample, the others but "
        "failed_response of ok ones; sampled_response and sampled_clean (without generator and read lag) are "
        "of the ok ones in that sample",
        "bucket": "of v ns: v below 128; else (e − 6)·128 + (v >> (e − 7)) − 128 with e = ⌊log2 v⌋",
        "count": "requests in that bucket; empty buckets have no row",
    },
    "samples": _OF_GROUP
    | {
        "vu": "number of its VU over all shares, from 0; open loop: the place in the pool that ran it",
        "seq": "iteration of its VU, from 0; open loop: index of its arrival over all shares",
        "row": "row of the group's first feeder, from 0; −1: it has none",
        "due_ns": "offset of due: when it should have begun",
        "ready_ns": "offset of ready: due, and a VU or connection was free",
        "begun_ns": "offset of begun: look-up or connect started, or first write on a live connection",
        "written_ns": "offset of just before its first write, of the last redirect hop; −1: never",
        "first_byte_ns": "offset of the answer's first byte, of the last hop; −1: none came",
        "done_ns": "offset of done: after the last read, or when it failed",
        "status": "of the final answer; 0: none came",
        "error": "0: ok; else the code whose name is `error_name` in `svload query`",
        "request_bytes": "request line and headers, over all hops; a body is not counted",
        "header_bytes": "heads of the answers, over all hops",
        "body_bytes": "body of the last hop's answer",
        "connection": "number of its connection within the share",
        "reused": "1: the connection had carried a request before",
        "tls": "of the connection: 0 none, 1 full handshake, 2 resumed",
        "lookup_ns": "curl's time_namelookup, from begun",
        "connect_ns": "curl's time_connect, from begun; 0 on a reused connection",
        "appconnect_ns": "curl's time_appconnect, from begun; 0 on a reused connection and without TLS",
        "pretransfer_ns": "curl's time_pretransfer, from begun",
        "redirect_ns": "curl's time_redirect: all hops before the last; 0 without",
        "redirects": "redirects that were followed",
        "read_lag_ns": "read − the kernel's receive stamp, summed over hops; −1: not sampled",
        "share": "the generator: its place in `generators` of summary.json, from 0",
    },
    "rows": {
        "group": _OF_GROUP["group"],
        "row": "row of the group's first feeder, from 0",
        "asked": "requests for it in the whole load; rows never asked are left out",
    },
    "monitors": {
        "offset_ns": "when it was read; the first reading is just before the load, below zero",
        "service": "the service it is of; empty: the machine, or svload's own",
        "monitor": "the monitor, as in the reference of monitors",
        "entity": "process, core, disk, interface, share/thread …; empty: the whole",
        "metric": "its name, in which its unit stands; what ends with `_total` only grows",
        "value": "the reading",
    },
}
"""Table → column → meaning."""


def bucket(value_ns: int) -> int:
    """Return a value's histogram bucket, in ns: log-linear, 128 per power of two, width ≤ 1/128 of it."""
    if value_ns < 128:
        return max(value_ns, 0)
    exponent = value_ns.bit_length() - 1
    return (exponent - 6) * 128 + (value_ns >> (exponent - 7)) - 128

"""Goodput within a limit (docs/method.md §1): of the requests due in the kept window, the ok
ones whose response is within it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from svload.analysis.quantiles import bucket_middles
from svload.analysis.view import GroupView
from svload.model.metrics import MetricRef, limit_of


def within_limits(group: GroupView, refs: Iterable[MetricRef]) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """(the metric's name with its limit, so many in each interval of the window) of each metric that has a limit."""
    for ref in refs:
        if ref.limit_ns is not None:
            yield ref.name, _within(group, ref.limit_ns)


def due_within(group: GroupView, name: str) -> int:
    """Of a group's requests due in its window the ok ones within the limit of a metric that is spelt with it."""
    limit_ns = limit_of(name)
    return 0 if limit_ns is None else int(_within(group, limit_ns).sum())


def _within(group: GroupView, limit_ns: int) -> NDArray[np.int64]:
    """By due time: of rows to the nanosecond, of histograms by the middle of a bucket (± 0.8 % of the limit)."""
    window, rows = group.window, group.rows
    if rows is not None:
        kept = rows["ok"] & (rows["response_ns"] <= limit_ns)
        at = rows["due_ns"][kept] // window.interval_ns - window.first
        return np.bincount(at.astype(np.int64), minlength=window.size)
    at, bucket, count = group.entries("response")
    kept = bucket_middles(bucket) <= limit_ns
    return np.bincount(at[kept], weights=count[kept], minlength=window.size).astype(np.int64)

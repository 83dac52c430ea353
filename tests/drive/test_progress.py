"""Merging the progress of several generators."""

from __future__ import annotations

from typing import Any

from svload.drive.progress import continued, merge_progress


def part(offset_ns: int, cpu_s: float, **last: int) -> dict[str, Any]:
    group = {"name": "probe", "due": 5, "begun": 4, "ok": 3, "failed": 1, "in_flight": 0, "active_vus": 2, "errors": {"status": 1}, "last": last}  # fmt: skip
    return {"offset_ns": offset_ns, "cpu_s": cpu_s, "groups": [group]}


def test_counts_and_cpu_are_added_and_the_worst_percentile_is_shown() -> None:
    merged = merge_progress(
        [part(9, 0.25, ok=3, failed=1, response_p50_ns=7), part(11, 0.5, ok=2, failed=0, response_p50_ns=5)]
    )
    (group,) = merged["groups"]
    assert (merged["offset_ns"], merged["cpu_s"]) == (11, 0.75)
    assert (group["due"], group["ok"], group["active_vus"], group["errors"]) == (10, 6, 4, {"status": 2})
    worst = {"response_p50_ns": 7, "response_p95_ns": 0, "response_p99_ns": 0}
    assert group["last"] == {"ok": 5, "failed": 1} | worst


def test_progress_that_was_not_shown_is_included_in_the_next() -> None:
    """With two reports between two reads, the second covers the time since the first."""
    first, second = (
        {"offset_ns": offset_ns, "groups": [{"name": "load", "ok": 80, "last": last}]}
        for offset_ns, last in (
            (10**9, {"ok": 80, "failed": 1, "response_p50_ns": 5}),
            (10**9 + 5, {"ok": 0, "failed": 0, "response_p50_ns": None}),
        )
    )
    (group,) = continued(first, second)["groups"]
    assert group["ok"] == 80
    assert (group["last"]["ok"], group["last"]["failed"], group["last"]["response_p50_ns"]) == (80, 1, 5)
    assert continued(None, first) == first

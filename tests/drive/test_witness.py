"""Progress of several generators is merged; observations of the engine's witnesses become readings."""

from __future__ import annotations

from array import array
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.results import FORMATS, readings, rows_of

from svload.drive.generator import fixed_work_ns
from svload.drive.progress import continued, merge_progress
from svload.drive.witness import METRICS, with_witnesses
from svload.model.columns import MONITORS


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


WITNESS = {
    "thread": "u16",
    **dict.fromkeys(("offset_ns", "gap_ns", "pass_ns", "cpu_ns", "run_queue_ns"), "i64"),
}
STOPS = {"thread": "u16", "kind": "u8", "offset_ns": "i64", "length_ns": "i64"}


def packed(kinds: dict[str, str], *rows: tuple[int, ...]) -> dict[str, tuple[str, bytes]]:
    """Return the rows as columns of these kinds, like the engine's."""
    columns = zip(kinds.items(), zip(*rows, strict=True), strict=True)
    return {name: (kind, array(FORMATS[kind], column).tobytes()) for (name, kind), column in columns}


def found(**table: dict[str, tuple[str, bytes]]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return (metric, entity) → (offset in ns, value) of each reading of a share with this table."""
    made: dict[tuple[str, str], list[tuple[int, float]]] = {}
    shares = [("background.0", table), ("probe.0", {})]
    for offset_ns, _, _, entity, metric, value in rows_of(with_witnesses(readings(), shares)):
        made.setdefault((metric, entity), []).append((offset_ns, pytest.approx(value)))
    return made


def test_each_look_is_a_reading_of_every_metric() -> None:
    made = found(witness=packed(WITNESS, (0, 0, 5, 6, 7, 9), (1, 100, 1_500_000, 2_500_000, 8, 10)))
    metrics = {"hiccup_seconds", "loop_pass_seconds", "cpu_seconds_total", "run_queue_seconds_total"}
    assert metrics < set(METRICS)
    assert set(made) == set(product(metrics, ("background.0/0", "background.0/1")))
    assert made["hiccup_seconds", "background.0/1"] == [(100, 0.0015)]
    assert made["loop_pass_seconds", "background.0/1"] == [(100, 0.0025)]


def test_each_stop_is_a_reading_at_its_end() -> None:
    """Two gaps and a pass of one thread; of the other's passes, 7 were too many to be kept."""
    gaps = (0, 0, 40, 6_000_000), (0, 0, 90, 8_000_000)
    assert found(
        stops=packed(STOPS, *gaps, (0, 1, 70, 30_000_000), (1, 1, 50, 5_500_000), (1, 1, -1, 7))
    ) == {
        ("gap_seconds", "background.0/0"): [(40, 0.006), (90, 0.008)],
        ("pass_gap_seconds", "background.0/0"): [(70, 0.03)],
        ("pass_gap_seconds", "background.0/1"): [(50, 0.0055)],
        ("stops_beyond", "background.0/1"): [(50, 7.0)],
    }


def test_other_readings_stay() -> None:
    before = readings((5, "service", "monitor", "entity", "metric", 2.5))
    table = with_witnesses(before, [])
    assert rows_of(table) == rows_of(before)
    assert set(table) == set(MONITORS)


@pytest.mark.timing
def test_the_fixed_work_takes_time_that_repeats() -> None:
    times = [fixed_work_ns() for _ in range(5)]
    assert min(times) > 1000
    assert np.median(times) < 2 * min(times)

"""Observations of the engine's witnesses become readings, and a core's speed a comparable number."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from svload.drive.generator import fixed_work_ns
from svload.drive.witness import METRICS, with_witnesses
from svload.model.columns import MONITORS
from svload.store.parquet import as_arrays

NONE = {"offset_ns": ("i64", b""), "service": ("utf8", []), "monitor": ("utf8", []), "entity": ("utf8", []), "metric": ("utf8", []), "value": ("f64", b"")}  # fmt: skip


def witness(*rows: tuple[int, int, int, int, int, int]) -> dict[str, tuple[str, bytes]]:
    columns = list(zip(*rows, strict=True))
    names = ("offset_ns", "gap_ns", "pass_ns", "cpu_ns", "run_queue_ns")
    return {
        "thread": ("u16", struct.pack(f"<{len(rows)}H", *columns[0])),
        **{name: ("i64", struct.pack(f"<{len(rows)}q", *columns[at + 1])) for at, name in enumerate(names)},
    }


def test_each_look_is_a_reading_of_every_metric() -> None:
    shares = [
        ("background.0", {"witness": witness((0, 0, 5, 6, 7, 9), (1, 100, 1_500_000, 2_500_000, 8, 10))}),
        ("probe.0", {}),
    ]
    table = as_arrays(with_witnesses(NONE, shares))
    assert set(table) == set(MONITORS)
    of_looks = {"hiccup_seconds", "loop_pass_seconds", "cpu_seconds_total", "run_queue_seconds_total"}
    assert set(table["metric"]) == of_looks < set(METRICS)
    assert set(table["entity"]) == {"background.0/0", "background.0/1"}
    gap = (table["metric"] == "hiccup_seconds") & (table["entity"] == "background.0/1")
    assert table["value"][gap] == pytest.approx([0.0015])
    assert list(table["offset_ns"][gap]) == [100]
    loop = (table["metric"] == "loop_pass_seconds") & (table["entity"] == "background.0/1")
    assert table["value"][loop] == pytest.approx([0.0025])


def stops(*rows: tuple[int, int, int, int]) -> dict[str, tuple[str, bytes]]:
    threads, kinds, offsets, lengths = zip(*rows, strict=True)
    return {
        "thread": ("u16", struct.pack(f"<{len(rows)}H", *threads)),
        "kind": ("u8", bytes(kinds)),
        "offset_ns": ("i64", struct.pack(f"<{len(rows)}q", *offsets)),
        "length_ns": ("i64", struct.pack(f"<{len(rows)}q", *lengths)),
    }


def test_each_stop_is_a_reading_at_its_end() -> None:
    """Two gaps and a pass of one thread; of the other's passes, 7 were too many to be kept."""
    gaps = (0, 0, 40, 6_000_000), (0, 0, 90, 8_000_000)
    rows = stops(*gaps, (0, 1, 70, 30_000_000), (1, 1, 50, 5_500_000), (1, 1, -1, 7))
    table = as_arrays(with_witnesses(NONE, [("background.0", {"stops": rows}), ("probe.0", {})]))

    def told(metric: str) -> list[tuple[str, int, float]]:
        mine = table["metric"] == metric
        columns = (table[name][mine].tolist() for name in ("entity", "offset_ns", "value"))
        return list(zip(*columns, strict=True))

    assert told("gap_seconds") == [("background.0/0", 40, 0.006), ("background.0/0", 90, 0.008)]
    assert told("pass_gap_seconds") == [("background.0/0", 70, 0.03), ("background.0/1", 50, 0.0055)]
    assert told("stops_beyond") == [("background.0/1", 50, 7.0)]


def test_other_readings_stay() -> None:
    before = {**NONE, "offset_ns": ("i64", struct.pack("<q", 5)), "value": ("f64", struct.pack("<d", 2.5))}
    before |= {name: ("utf8", [name]) for name in ("service", "monitor", "entity", "metric")}
    table = as_arrays(with_witnesses(before, []))
    assert [table[name][0] for name in ("offset_ns", "value", "service")] == [5, 2.5, "service"]
    assert {len(column) for column in table.values()} == {1}


def test_the_fixed_work_takes_time_that_repeats() -> None:
    times = [fixed_work_ns() for _ in range(5)]
    assert min(times) > 1000
    assert np.median(times) < 2 * min(times)

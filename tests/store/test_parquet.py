from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svload.model import columns
from svload.model.errors import SvloadError
from svload.store.parquet import TABLES, LazyTable, merge_shares, read_table, to_arrow, write_trial_tables

CODES = {"u64": "Q", "i64": "q", "u32": "I", "u16": "H", "u8": "B"}


def table(schema: Any, rows: list[dict[str, int]]) -> dict[str, tuple[str, bytes]]:
    return {
        name: (code, array(CODES[code], [row.get(name, 0) for row in rows]).tobytes())
        for name, code in schema.items()
    }


def test_tables_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [{"group": 0, "interval": n, "due": 2**64 - 1 - n} for n in range(5)]
    monitors = {
        "offset_ns": ("i64", array("q", [-5, 7]).tobytes()),
        **{name: ("utf8", ["", "ü/\n"]) for name in ("service", "monitor", "entity", "metric")},
        "value": ("f64", array("d", [0.1, float("nan")]).tobytes()),
    }
    write_trial_tables(tmp_path, {"intervals": table(columns.INTERVALS, rows), "monitors": monitors})
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.parquet" for name in TABLES}
    back = LazyTable(tmp_path / "intervals.parquet", TABLES["intervals"])
    assert back["due"].dtype == np.uint64
    assert back["due"].tolist() == [2**64 - 1 - n for n in range(5)]
    found = LazyTable(tmp_path / "monitors.parquet", TABLES["monitors"])
    assert found["entity"].tolist() == ["", "ü/\n"]
    assert found["offset_ns"].tolist() == [-5, 7]
    assert len(read_table(tmp_path / "samples.parquet")["due_ns"]) == 0


BAD = [{"a": ("u64", bytes(9))}, {"a": ("u32", bytes(8))}, {"b": ("u64", bytes(8))}]


@pytest.mark.parametrize("bad", [*BAD, {"a": np.zeros(3, dtype="<i8")}])
def test_a_column_that_does_not_fit_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the column"):
        to_arrow(bad, {"a": "u64"})


keys = st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 7), st.integers(0, 5))


@given(shares=st.lists(st.lists(st.tuples(keys, st.integers(0, 2**50)), max_size=20), min_size=1, max_size=4))
def test_histograms_are_summed_exactly(shares: list[list[tuple[tuple[int, int, int, int], int]]]) -> None:
    wanted: Counter[tuple[int, ...]] = Counter()
    tables = []
    for share in shares:
        for (group, interval, metric, bucket), count in share:
            wanted[(group, 0, interval, metric, bucket)] += count
        names = ("group", "interval", "metric", "bucket", "count")
        rows = [dict(zip(names, (*key, count), strict=True)) for key, count in share]
        tables.append({"histograms": table(columns.HISTOGRAMS, rows)})
    merged = merge_shares([(range(2), table) for table in tables])["histograms"]
    found = list(zip(*(merged[name].tolist() for name in columns.HISTOGRAMS), strict=True))
    assert {key[:5]: key[5] for key in found} == dict(wanted)
    assert found == sorted(found)


def test_samples_keep_their_share_and_group_and_stand_by_due_time(tmp_path: Path) -> None:
    one = table(columns.SAMPLES, [{"group": 0, "vu": 1, "due_ns": 5}, {"group": 1, "vu": 1, "due_ns": 9}])
    two = table(columns.SAMPLES, [{"group": 0, "vu": 2, "due_ns": 1}])
    merged = merge_shares([((0, 1), {"samples": one}), (1, {"samples": two})])
    found = {name: merged["samples"][name].tolist() for name in ("due_ns", "share", "group")}
    assert found == {"due_ns": [1, 5, 9], "share": [1, 0, 0], "group": [1, 0, 1]}
    write_trial_tables(tmp_path, merged)
    assert read_table(tmp_path / "samples.parquet")["share"].tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="group 1"):
        merge_shares([(0, {"rows": table(columns.ROWS, [{"group": 1, "row": 3, "asked": 1}])})])


def test_intervals_are_summed_by_step_and_a_table_without_steps_is_of_one(tmp_path: Path) -> None:
    """Tables were written like this before steps were distinguished."""
    shares = [[{"step": 0, "due": 5}, {"step": 1, "due": 7}], [{"step": 0, "due": 1}, {"step": 1, "due": 2}]]
    tables = [{"intervals": table(columns.INTERVALS, rows)} for rows in shares]
    merged = merge_shares([(0, one) for one in tables])["intervals"]
    assert (merged["step"].tolist(), merged["due"].tolist()) == ([0, 1], [6, 9])
    kinds = {name: kind for name, kind in columns.INTERVALS.items() if name != "step"}
    old = table(kinds, [{"due": 5}, {"due": 7}])
    write_trial_tables(tmp_path, {"intervals": old})
    pq.write_table(to_arrow(old, kinds), tmp_path / "old.parquet")
    for name in ("intervals", "old"):
        assert LazyTable(tmp_path / f"{name}.parquet", TABLES["intervals"])["step"].tolist() == [0, 0]
    assert merge_shares([(0, {"intervals": old})])["intervals"]["due"].tolist() == [12]


def test_only_the_asked_column_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trial_tables(tmp_path, {"rows": table(columns.ROWS, [{"row": 3, "asked": 1}])})
    monkeypatch.setattr("svload.store.parquet._READ_WHOLE_BYTES", 0)
    lazy = LazyTable(tmp_path / "rows.parquet", TABLES["rows"])
    assert lazy["row"].tolist() == [3]
    assert set(lazy._columns) == {"row"}
    assert "nothing" not in lazy
    with pytest.raises(KeyError):
        lazy["nothing"]


@pytest.mark.parametrize("data", [b"PAR1 no", None])
def test_a_damaged_file_or_none_is_reported(tmp_path: Path, data: bytes | None) -> None:
    if data:
        (tmp_path / "rows.parquet").write_bytes(data)
    with pytest.raises(SvloadError, match=r"rows\.parquet is damaged: .*\[run-damaged\]"):
        LazyTable(tmp_path / "rows.parquet", TABLES["rows"])["row"]

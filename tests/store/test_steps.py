"""Tables by step: shares merge by step, and what was written before steps were told apart is of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from svload.store.parquet import TABLES, LazyTable, merge_shares, write_trial_tables


def intervals(steps: list[int] | None, due: list[int]) -> dict[str, np.ndarray]:
    rows = len(due)
    table = {
        name: np.zeros(rows, dtype=f"<{code[0]}{int(code[1:]) // 8}")
        for name, code in TABLES["intervals"].items()
    }
    table["due"] = np.array(due, dtype="<u8")
    if steps is None:
        del table["step"]
    else:
        table["step"] = np.array(steps, dtype="<u2")
    return table


def test_shares_are_summed_by_step() -> None:
    merged = merge_shares(
        [(0, {"intervals": intervals([0, 1], [5, 7])}), (0, {"intervals": intervals([0, 1], [1, 2])})]
    )
    assert np.asarray(merged["intervals"]["step"]).tolist() == [0, 1]
    assert np.asarray(merged["intervals"]["due"]).tolist() == [6, 9]


def test_a_table_without_steps_is_of_one(tmp_path: Path) -> None:
    old = intervals(None, [5, 7])
    write_trial_tables(tmp_path, {"intervals": old})
    assert LazyTable(tmp_path / "intervals.parquet", TABLES["intervals"])["step"].tolist() == [0, 0]
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.table(old), tmp_path / "old.parquet")
    assert LazyTable(tmp_path / "old.parquet", TABLES["intervals"])["step"].tolist() == [0, 0]
    assert np.asarray(merge_shares([(0, {"intervals": old})])["intervals"]["due"]).tolist() == [12]

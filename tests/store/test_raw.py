from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svload.model.errors import SvloadError
from svload.store.raw import read_tables, write_tables

NUMBERS = {"a": ("u64", array("Q", [1, 2**64 - 1]).tobytes()), "b": ("u16", array("H", [7, 65535]).tobytes())}


@given(rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text())))
def test_what_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]]) -> None:
    path = tmp_path_factory.mktemp("raw") / "t.raw"
    table = {"n": ("i64", array("q", [n for n, _ in rows]).tobytes()), "s": ("utf8", [s for _, s in rows])}
    write_tables(path, {"one": table, "two": NUMBERS, "none": {}})
    assert read_tables(path) == {"one": table, "two": NUMBERS, "none": {}}


@pytest.mark.parametrize(
    "table",
    [{"a": ("u64", b"1234567")}, {"a": ("u64", bytes(8)), "b": ("u8", bytes(2))}, {"a": ("u128", bytes(16))}],
)
def test_a_torn_table_is_not_written(tmp_path: Path, table: dict[str, tuple[str, bytes]]) -> None:
    with pytest.raises(ValueError, match="a"):
        write_tables(tmp_path / "t", {"x": table})
    assert list(tmp_path.iterdir()) == []


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_tables(path, {"x": NUMBERS})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(SvloadError, match=r"\[run-damaged\]"):
            read_tables(path)


def test_a_newer_format_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_tables(path, {})
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":9'))
    with pytest.raises(SvloadError, match=r"\[format-newer\]"):
        read_tables(path)


@pytest.mark.parametrize("part", ["header", "cells"])
def test_what_is_nested_beyond_all_sense_is_damage(tmp_path: Path, part: str) -> None:
    path = tmp_path / "t"
    deep = b"[" * 100_000
    write_tables(path, {"x": {"s": ("utf8", ["a" * len(deep)])}})
    whole = path.read_bytes()
    if part == "header":
        path.write_bytes(deep + b"\n" + whole)
    else:
        at = whole.index(b"aaaa")
        path.write_bytes(whole[: at - 2] + deep + whole[at - 2 + len(deep) :])
    with pytest.raises(SvloadError, match=r"\[run-damaged\]"):
        read_tables(path)

"""Time stamps written as text, and rows without a header: what decides how a JTL is read."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.store import foreign_files as files

from svload.model.errors import SvloadError
from svload.store.foreign.jtl import read_jtl
from svload.store.foreign.run import form_of, read_foreign
from svload.store.foreign.stamps import day_first, has_fraction, is_stamp, unix_ms

AT = round(datetime(2024, 4, 3, 10, 20, 30, tzinfo=UTC).timestamp() * 1000)
WRITTEN = {
    "2024-04-03 10:20:30": AT,
    "2024/04/03 10:20:30.125": AT + 125,
    "2024.4.3 10:20:30,5": AT + 500,
    "2024-04-03T12:20:30+02:00": AT,
    "2024-04-03T05:50:30.000-0430": AT,
    "2024-04-03T10:20:30Z": AT,
    "03.04.2024 10:20:30": AT,
    "4/3/2024 10:20:30.001": AT + 1,
}


@pytest.mark.parametrize("cell", WRITTEN)
def test_a_stamp_in_words_is_its_moment(cell: str) -> None:
    assert (is_stamp(cell), unix_ms([cell], None)) == (True, [WRITTEN[cell]])
    assert has_fraction(cell) is ("." in cell.partition(":")[2] or "," in cell)


@pytest.mark.parametrize(
    "cell", ["", "1700000000000", "2024-04-03", "10:20:30", "2024-04/03 10:20:30", "٢٠٢٤-٠٤-٠٣ 10:20:30"]
)
def test_what_is_no_stamp(cell: str) -> None:
    assert not is_stamp(cell)
    with pytest.raises(ValueError, match="no time"):
        unix_ms([cell], None)


@pytest.mark.parametrize(
    ("cells", "days_apart"),
    [(["03/04/2024 00:00:00", "25/04/2024 00:00:00"], 22), (["04/03/2024 00:00:00", "04/25/2024 00:00:00"], 22),
     (["03/04/2024 00:00:00", "04/04/2024 00:00:00"], 31), (["03.04.2024 00:00:00", "04.04.2024 00:00:00"], 1)],
)  # fmt: skip
def test_a_number_above_twelve_says_which_is_the_day(cells: list[str], days_apart: int) -> None:
    first, second = unix_ms(cells, day_first(cells))
    assert second - first == days_apart * 86_400_000


ROW = "{at},{took},home,200,OK,Users 1-1,text,true,,3,0,1,1,null,{took},0,0"


def headless(path: Path, *stamps: object, sign: str = ",") -> Path:
    rows = [ROW.format(at=at, took=5 + number) for number, at in enumerate(stamps)]
    path.write_text("\n".join(rows).replace(",", sign) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("stamps", "sign"),
    [((1_700_000_000_000, 1_700_000_000_100), ","), ((1_700_000_000_000, 1_700_000_000_100), ";"),
     (("2024-04-03 10:20:30.000", "2024-04-03 10:20:30.100"), "\t")],
    ids=["commas", "semicolons", "words and tabs"],
)  # fmt: skip
def test_headless_rows_have_jmeters_columns(stamps: tuple[object, ...], sign: str, tmp_path: Path) -> None:
    path = headless(tmp_path / "a.jtl", *stamps, sign=sign)
    assert form_of(path) == "jtl"
    read = read_jtl(path)
    assert (read.begun_ns.tolist(), read.spent_ns.tolist()) == ([0, 100_000_000], [5_000_000, 6_000_000])
    assert (read.labels, read.groups) == (("home",), ("Users",))


def test_a_run_past_midnight_takes_a_day_and_no_month(tmp_path: Path) -> None:
    read = read_jtl(headless(tmp_path / "a.jtl", "03/04/2024 23:59:59.000", "04/04/2024 00:00:00.000"))
    assert read.begun_ns.tolist() == [0, 10**9]


def test_a_file_is_read_one_way_whatever_its_blocks_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its last block shows which number is the day."""
    monkeypatch.setattr("svload.store.foreign.requests.BLOCK_BYTES", 500)
    stamps = ["12/04/2024 23:59:59.000"] * 20 + ["13/04/2024 00:00:00.000"]
    read = read_jtl(headless(tmp_path / "a.jtl", *stamps))
    assert set(read.begun_ns.tolist()) == {0, 10**9}


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_rows_in_quotes_are_rows(sign: str, tmp_path: Path) -> None:
    """With and without a header, of JMeter and of a table."""
    whole = files.write_jtl(tmp_path / "whole.jtl", files.closed_loop(users=2, lasts=2_000))
    rows = list(csv.reader(whole.read_text().splitlines()))
    for name, some, form in (
        ("named", rows, "jtl"),
        ("nameless", rows[1:], "jtl"),
        ("table", [["users", "rps"], ["1", "2"]], "table"),
    ):
        path = tmp_path / name
        with path.open("w", newline="") as file:
            csv.writer(file, delimiter=sign, quoting=csv.QUOTE_ALL).writerows(some)
        assert form_of(path) == form, name
        assert form == "table" or read_foreign(path, form).requests == len(rows) - 1


@pytest.mark.parametrize(
    "line",
    ["a,b,c", ROW.format(at="soon", took=5), ROW.format(at=1, took="x"), ROW.format(at=1, took=5) + ",9"],
)
def test_other_rows_without_names_are_not_taken_for_them(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(line + "\n" + line + "\n")
    assert form_of(path) != "jtl"


@pytest.mark.parametrize(("wrong", "expected"), [("2024-04-03", "“2024-04-03”"), ("7", "“7”")])
def test_a_stamp_of_another_kind_is_named_with_its_line(wrong: str, expected: str, tmp_path: Path) -> None:
    path = headless(tmp_path / "a.jtl", "2024-04-03 10:20:30.000", wrong)
    with pytest.raises(SvloadError, match="timeStamp is no time") as caught:
        read_jtl(path)
    [problem] = caught.value.problems
    assert problem.place.endswith("a.jtl:2") and expected in str(problem)

"""A table's decimal mark is determined from all of its cells; the user is asked if they don't show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.tables.reading import Mark, read_table_file


def column(tmp_path: Path, text: str, decimal: Mark | None = None) -> list[float]:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return read_table_file(path, decimal=decimal).numbers("mean")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('mean\n"7,35130"\n', [7.3513]),
        ('mean,n\n"0,123",4\n"1,234",5\n', [0.123, 1.234]),
        ("n;mean\n1;12,5\n2;1.234,75\n", [12.5, 1234.75]),
        ("n;mean\n1;12,5\n2;1.234\n", [12.5, 1234.0]),
        ("n;mean\n1;12.5\n2;1,234\n", [12.5, 1234.0]),
        ('mean\n"1,234,567"\n"2,000"\n', [1234567.0, 2000.0]),
        ("n;mean\n1;1.234.567\n2;2.000\n", [1234567.0, 2000.0]),
        ("mean,n\n12.345,1\n7.125,2\n", [12.345, 7.125]),
        ("n\tmean\n1\t1234,567\n2\t4,000\n", [1234.567, 4.0]),
        ("mean,n\n1200,3\n7,4\n", [1200.0, 7.0]),
        ("mean,version,address\n0.5,1.2.3,10.0.0.1\n", [0.5]),
        ("n;mean\n1;-3,5e-2\n", [-0.035]),
    ],
)
def test_the_cells_decide(tmp_path: Path, text: str, numbers: list[float]) -> None:
    assert column(tmp_path, text) == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ('mean\n"1,234"\n"5,678"\n', "t.csv:2", "“1,234” is 1.234 or 1234, and no other cell shows which"),
        ("n;mean\n1;7\n2;2.500\n", "t.csv:3", "“2.500” is 2500 or 2.500, and no other cell shows which"),
        (
            "n;mean\n1;0,5\n2;0.5\n",
            "t.csv:3",
            "“0,5” (line 2) has a decimal comma and “0.5” (line 3) a decimal point",
        ),
    ],
)
def test_what_fits_both_is_asked_for(tmp_path: Path, text: str, place: str, sentence: str) -> None:
    with pytest.raises(SvloadError) as raised:
        column(tmp_path, text)
    problem = raised.value.problems[0]
    assert problem.place.endswith(place)
    assert sentence in str(problem)
    assert "--decimal comma or --decimal point" in str(problem)


@pytest.mark.parametrize(("decimal", "numbers"), [("comma", [1.234, 5.678]), ("point", [1234.0, 5678.0])])
def test_the_users_word_decides(tmp_path: Path, decimal: Mark, numbers: list[float]) -> None:
    assert column(tmp_path, 'mean\n"1,234"\n"5,678"\n', decimal) == numbers

"""Files beside a study: as a spreadsheet writes them, outside its folder, and of a wrong shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.model.study import Lock

Load = Callable[..., Lock]
STUDY = """\
name: t
lab:
  api: {{at: "http://127.0.0.1:9"}}
factors: {{a: [1, 2]}}
{more}
traffic:
  users: {{executor: constant-vus, vus: 2, request: "GET http://api/${{a}}{path}"}}
measure: {{duration: 1s}}
"""
FEEDER = STUDY.format(more="feeders: {r: {csv: %s}}", path="${r.p}")
CASES = STUDY.format(more="case_names: n.csv", path="")


def told(load: Load, text: str) -> str:
    with pytest.raises(SvloadError) as caught:
        load(text)
    return str(caught.value)


def test_a_file_outside_the_folder_is_not_opened_not_even_to_help(load: Load, folder: Path):
    (folder.parent / "secret.csv").write_text("hunter2\n1\n")
    for name in ("../secret.csv", str(folder.parent / "secret.csv")):
        said = told(load, FEEDER % name)
        assert "expected a file inside the study's folder" in said
        assert "hunter2" not in said


def test_the_mark_that_a_spreadsheet_puts_first_belongs_to_no_name(load: Load, folder: Path):
    (folder / "r.csv").write_text("p\n1\n", encoding="utf-8-sig")
    assert load(FEEDER % "r.csv").name == "t"
    (folder / "n.csv").write_text("case,a\nX,1\nY,2\n", encoding="utf-8-sig")
    assert [case.name for case in load(CASES).cases] == ["X", "Y"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("case,a\nX,1,9\nY,2\n", "n.csv:2: the table: expected 2 values"),
        ("case,a\nX\nY,2\n", "n.csv:2: the table: expected 2 values"),
        ("case,a,a\nX,1,1\nY,2,2\n", "n.csv:1: the table: expected the columns"),
    ],
)
def test_a_row_of_another_length_is_told_with_its_line(load: Load, folder: Path, table: str, words: str):
    (folder / "n.csv").write_text(table)
    assert words in told(load, CASES)


def test_a_file_that_is_no_text_is_told_with_its_line(load: Load, folder: Path):
    (folder / "study.yaml").write_bytes(b"name: x\nquestion: f\xfcr\n")
    from svload.study import load_study

    with pytest.raises(SvloadError, match=r"study.yaml:2: Invalid YAML: it is not UTF-8 text"):
        load_study(folder)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("duration: 1e999s", "“1e999s” is not a usable number"),
        ("duration: 1e300s", "“1e300s” is not a usable number"),
        ("duration: 1e9h", "at most 7,776,000 seconds can be planned (90 days"),
        ("duration: 0s", "it must be above 0"),
        ("duration: 1s, replicates: 1000000", "at most 50,000 trials can be planned"),
    ],
)
def test_a_number_beyond_all_is_called_that(load: Load, written: str, words: str):
    assert words in told(load, STUDY.format(more="", path="").replace("duration: 1s", written))


def test_a_reference_where_nothing_is_known_lists_nothing(load: Load):
    text = (
        STUDY.format(more="", path="")
        .replace("factors: {a: [1, 2]}\n", "")
        .replace("${a}", "")
        .replace("vus: 2", 'vus: "${b}"')
    )
    assert "There is nothing here that it could stand for." in told(load, text)


def test_a_server_is_asked_by_the_scheme_of_its_address(load: Load):
    said = told(load, STUDY.format(more="", path="").replace("http://127", "https://127"))
    assert (
        "study.yaml:7: traffic.users: api is at an address of https, found http://api. Write https://api."
        in said
    )

"""Tables of a study's own: in the report and the workbook, told as what they are, and old when trials came after."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from openpyxl import load_workbook
from tests.evolve import evolve

from svload import api
from svload.model.errors import SvloadError
from svload.store import RunDir
from svload.tables.own import OwnTable, OwnTables

from .conftest import Reported

pytestmark = pytest.mark.slow

TABLE = OwnTable(
    title="Table I: <b>times</b>",
    note="In ms, a|b.",
    head=("case", "paper's", "paper's"),
    rows=(("TC0", "12", "=1+1"), ("<script>x</script>", "\x1b[2J", "|")),
)


@pytest.fixture
def run(reported: Callable[[str], Reported], tmp_path: Path) -> RunDir:
    return RunDir(Path(shutil.copytree(reported("mixed").run.path, tmp_path / "run")))


def test_they_stand_in_report_and_workbook_as_text(run: RunDir) -> None:
    api.put_tables(run, [TABLE], "tables.py")
    _, files = api.report(run)
    page = files["report.html"].read_text(encoding="utf-8")
    section = page[page.index('<section id="own"') : page.index('<section id="anatomy"')]
    assert "Made by tables.py from this run’s findings" in section.replace("&#39;", "’").replace("'", "’")
    assert "They are out of date" not in section
    assert "<script>x" not in section and "<b>times" not in section and "\x1b" not in section
    assert section.count("<tr>") == 3
    assert '<a href="#own"' in page
    sheet = load_workbook(files["report.xlsx"])["Table I  <b>times< b>"]
    cells = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=3)]
    assert cells[1] == ["TC0", "12", "=1+1"]
    assert sheet["C4"].data_type == "s"


def test_none_are_shown_where_there_are_none(run: RunDir) -> None:
    _, files = api.report(run)
    assert 'id="own"' not in files["report.html"].read_text(encoding="utf-8")


def test_those_of_fewer_trials_are_told_as_old(run: RunDir) -> None:
    path = api.put_tables(run, [TABLE], "tables.py")
    own = OwnTables.read(path)
    path.write_text(evolve(own, trials=own.trials - 1).to_json(), encoding="utf-8")
    _, files = api.report(run)
    told = files["report.html"].read_text(encoding="utf-8")
    assert re.search(
        rf"They are out of date: they cover {own.trials - 1} trials, and {own.trials} are sealed now", told
    )


def test_a_damaged_file_is_a_note_and_no_failure(run: RunDir) -> None:
    api.put_tables(run, [TABLE], "tables.py").write_text('{"format": 1, "tables": 7}', encoding="utf-8")
    _, files = api.report(run)
    assert "own tables cannot be read" in files["report.html"].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "it is not JSON"),
        ("7", "valid list"),
        ('{"tables": [{"title": "t", "head": ["a"], "rows": [["1", "2"]]}]}', "row 1 of “t” has 2 cells, its head 1"),
        ('[{"title": "t", "head": [], "rows": []}]', "0.head"),
        ("[" * 100_000, "it is not JSON"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_in_one_sentence(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SvloadError, match=re.escape(told)):
        api.read_tables(path)
    with pytest.raises(SvloadError, match="No such file"):
        api.read_tables(tmp_path / "none.json")


def test_a_file_of_tables_is_read_with_and_without_its_frame(tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    raw = [TABLE.model_dump(mode="json")]
    for text in (raw, {"tables": raw}):
        path.write_text(json.dumps(text), encoding="utf-8")
        assert api.read_tables(path) == [TABLE]

"""Reports of a study's own tables, and of packs of every older format."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from fnmatch import fnmatch
from math import isclose
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from openpyxl import load_workbook
from tests.evolve import evolve

from svload import api
from svload.model.base import Artefact
from svload.model.certificates import Certificates
from svload.model.errors import SvloadError
from svload.model.facts import TrialLab
from svload.model.plan import Batch, Placement
from svload.model.results import Findings, TrialSummary
from svload.model.seals import Seal, Thinned
from svload.model.study import Lock
from svload.store import RunDir, open_pack, query, verify_run
from svload.tables.own import OwnTable, OwnTables

from .conftest import Reported

pytestmark = pytest.mark.slow

ROWS = (("TC0", "12", "=1+1"), ("<script>x</script>", "\x1b[2J", "|"))
HEAD = ("case", "paper's", "paper's")
TABLE = OwnTable(title="Table I: <b>times</b>", note="In ms, a|b.", head=HEAD, rows=ROWS)


@pytest.fixture
def run(reported: Callable[[str], Reported], tmp_path: Path) -> RunDir:
    return RunDir(Path(shutil.copytree(reported("overloaded").run.path, tmp_path / "run")))


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


@pytest.mark.parametrize("text", ["a|b", r"a\|b", r"a\\|b", "two\nlines", "two\r\nlines", r"C:\x", "a\\"])
def test_a_cell_of_markdown_stays_one_cell(text: str) -> None:
    table = OwnTable(title="of two\nlines", head=("a", text), rows=((text, "z"),))
    page = MarkdownIt("gfm-like", {"linkify": False}).render(table.markdown())
    shown = " ".join(text.split())
    assert re.findall(r"<t[hd]>(.*?)</t[hd]>", page) == ["a", shown, shown, "z"]
    assert "<h2>of two lines</h2>" in page


def test_those_of_fewer_trials_are_reported_as_old(run: RunDir) -> None:
    path = api.put_tables(run, [TABLE], "tables.py")
    own = OwnTables.read(path)
    path.write_text(evolve(own, trials=own.trials - 1).to_json(), encoding="utf-8")
    _, files = api.report(run)
    found = files["report.html"].read_text(encoding="utf-8")
    words = f"They are out of date: they cover {own.trials - 1} trials, and {own.trials} are sealed now"
    assert words in found


def test_a_damaged_file_is_a_note_and_no_failure(run: RunDir) -> None:
    api.put_tables(run, [TABLE], "tables.py").write_text('{"format": 1, "tables": 7}', encoding="utf-8")
    _, files = api.report(run)
    assert "own tables cannot be read" in files["report.html"].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "it is not JSON"),
        ("7", "valid list"),
        ('{"tables": [{"title": "t", "head": ["a"], "rows": [["1", "2"]]}]}', "row 1 of “t” has 2 cells, its head 1"),
        ('[{"title": "t", "head": [], "rows": []}]', "0.head"),
        ("[" * 100_000, "it is not JSON"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_reported_in_one_sentence(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SvloadError, match=re.escape(expected)):
        api.read_tables(path)
    with pytest.raises(SvloadError, match="No such file"):
        api.read_tables(tmp_path / "none.json")


PACKS = sorted((Path(__file__).parents[1] / "packs").glob("pack-*.svload.zip"))
ARTEFACTS: dict[str, type[Artefact]] = {
    "study.lock.json": Lock,
    "plan/*.json": Batch,
    "placement.json": Placement,
    "certificates.json": Certificates,
    "thinned.json": Thinned,
    "trials/*/summary.json": TrialSummary,
    "trials/*/lab.json": TrialLab,
    "trials/*/seal.json": Seal,
    "derived/findings.json": Findings,
}


def formats(pack: Path) -> dict[str, int]:
    """Return artefact's pattern → its format in a pack."""
    found = {}
    with zipfile.ZipFile(pack) as archive:
        for name in archive.namelist():
            for pattern in ARTEFACTS:
                if fnmatch(name, pattern) and name.count("/") == pattern.count("/"):
                    found[pattern] = int(json.loads(archive.read(name))["format"])
    return found


@pytest.fixture(params=PACKS, ids=lambda path: path.name)
def unpacked(request: pytest.FixtureRequest, tmp_path: Path) -> RunDir:
    return open_pack(request.param, tmp_path)


def test_there_is_a_pack_of_every_format_of_today() -> None:
    held = [formats(pack) for pack in PACKS]
    lacking = [
        f"{pattern}: no pack has format {kind.FORMAT}; run tools/make_pack.py and commit its pack"
        for pattern, kind in ARTEFACTS.items()
        if not any(pack.get(pattern) == kind.FORMAT for pack in held)
    ]
    assert not lacking, "\n".join(lacking)


def test_a_pack_is_rendered_again_with_the_numbers_it_had(unpacked: RunDir) -> None:
    assert verify_run(unpacked) == []
    before = Findings.read(unpacked.findings_path)
    shutil.rmtree(unpacked.derived)
    findings, files = api.report(unpacked)
    page = files["report.html"].read_text(encoding="utf-8")
    assert len(findings.trials) == len(before.trials) == len(unpacked.sealed_trials())
    for case, was in zip(findings.cases, before.cases, strict=True):
        assert f'id="{case.case}"' in page or case.excluded is not None
        now, then = (one.metrics.get("probe.response.p50") for one in (case, was))
        if now and then and now.value is not None and then.value is not None:
            assert isclose(now.value, then.value, rel_tol=0.01)
    assert {trial.verdict.instrument for trial in findings.trials} >= {"REFUSED"}
    assert all(path.stat().st_size for path in files.values())


def test_a_pack_answers_why_and_sql(unpacked: RunDir) -> None:
    trial = unpacked.sealed_trials()[0]
    assert api.why(str(unpacked.path), trial).verdict.checks
    assert query(unpacked, "select count(*) from trials")[1] == [(len(unpacked.sealed_trials()),)]
    assert query(unpacked, "select count(*) > 0 from probe where time_total > 0")[1] == [(True,)]


def test_a_pack_of_a_newer_svload_is_refused_in_a_sentence(unpacked: RunDir) -> None:
    raw = json.loads(unpacked.lock_path.read_text())
    unpacked.lock_path.write_text(json.dumps(raw | {"format": Lock.FORMAT + 1}))
    with pytest.raises(SvloadError, match="Use a newer svload"):
        api.report(unpacked)

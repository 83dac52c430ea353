"""Files and names in a study are looked up for each case, and missing ones reported with their line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model.study import Lock
from svload.watch import monitored_names

from .conftest import refusal

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


def test_a_file_outside_the_folder_is_not_opened_not_even_to_help(folder: Path):
    (folder.parent / "secret.csv").write_text("hunter2\n1\n")
    for name in ("../secret.csv", str(folder.parent / "secret.csv")):
        reply = refusal(folder, FEEDER % name)
        assert "expected a file inside the study's folder" in reply
        assert "hunter2" not in reply


def test_the_mark_that_a_spreadsheet_puts_first_belongs_to_no_name(load: Load, folder: Path):
    (folder / "r.csv").write_text("p\n1\n", encoding="utf-8-sig")
    assert load(FEEDER % "r.csv").name == "t"
    (folder / "n.csv").write_text("case,a\nX,1\nY,2\n", encoding="utf-8-sig")
    assert [case.name for case in load(CASES).cases] == ["X", "Y"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("case,a\nX,1,9\nY,2\n", "n.csv:2: the table: expected 2 values"),
        ("case,a\nX\nY,2\n", "n.csv:2: the table: expected 2 values"),
        ("case,a,a\nX,1,1\nY,2,2\n", "n.csv:1: the table: expected the columns"),
    ],
)
def test_a_row_of_another_length_is_reported_with_its_line(folder: Path, table: str, says: str):
    (folder / "n.csv").write_text(table)
    assert says in refusal(folder, CASES)


def test_a_file_that_is_no_text_is_reported_with_its_line(folder: Path):
    found = refusal(folder, b"name: x\nquestion: f\xfcr\n")
    assert "study.yaml:2: Invalid YAML: it is not UTF-8 text" in found


TARGETS = """\
name: x
lab: {web: {kit: nginx}, store: {kit: redis}, other: {at: "http://127.0.0.1:1"}}
factors:
  a: {one: FIELDS, two: FIELDS}
data: {items: {in: web, count: 3, size: 1 KiB}}
feeders: {rows: {range: [1, 3]}}
traffic: {g: {executor: constant-vus, vus: 1, request: "GET http://web/${rows.value}"}}
measure: {duration: 1s, replicates: 2}
"""
STEPS = "before_trial:\n- "
NAMED = (
    (STEPS + 'reset: "${a.k}"', "[web]", "[nobody]", "no such service"),
    (STEPS + 'reset: "${a.k}"', "[web, store]", "[web, other]", "already running"),
    (STEPS + 'restart: ["${a.k}"]', "store", "nobody", "no such service"),
    (STEPS + "{warm: '${a.k}', through: web}", "rows", "nobody", "no such feeder"),
    (STEPS + "{warm: rows, through: '${a.k}'}", "web", "nobody", "no such service"),
    ("data: {items: {in: '${a.k}', count: 3, size: 1 KiB}}", "web", "nobody", "no such service"),
    ("feeders: {rows: {range: [1, 3]}, of: {from: '${a.k}'}}", "items", "nobody", "no such set under data"),
    ("feeders: {rows: {range: [1, 3]}, of: {csv: '${a.k}'}}", "c.csv", "no.csv", "a file inside the study's folder"),
    ("feeders: {rows: {range: [1, 3]}, of: {csv: '${a.k}'}}", "c.csv", "bad.csv", "expected a table"),
)  # fmt: skip


def planned(folder: Path, reply: str, field: str) -> str:
    """Return the problems of the study with this section, whose second level's field is `field`."""
    section = reply.partition(":")[0]
    kept = [line for line in TARGETS.splitlines() if line.partition(":")[0] != section]
    tables = {"c.csv": "a,b\n1,2\n", "bad.csv": "a,b\n1\n"}
    for name, rows in tables.items():
        (folder / name).write_text(rows)
    text = "\n".join([*kept, reply, ""]).replace("FIELDS", f"{{k: {field}}}")
    return refusal(folder, text, monitored=monitored_names)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (made := tmp_path / "study").mkdir()
    return made


@pytest.mark.parametrize(("reply", "good", "bad", "says"), NAMED)
def test_what_a_level_names_is_looked_for(folder: Path, reply: str, good: str, bad: str, says: str) -> None:
    assert planned(folder, reply, good) == ""
    assert says in planned(folder, reply, bad)


@pytest.mark.parametrize("field", ["{executor: constant-vus, vus: 1, request: GET http://web/}", "2", "[1]"])
def test_a_level_cannot_stand_for_a_group(folder: Path, field: str) -> None:
    assert "traffic.h: expected a mapping" in planned(folder, 'traffic: {h: "${a.k}"}', field)


@pytest.mark.parametrize(
    ("reply", "field", "says"),
    [
        ("GET http://web/${a.k}{rows.valu}", "$", "It comes from what was put in"),
        ("GET http://web/${a.k}{rows.value", "$", "It has no closing “}”"),
        ("GET http://web/${a.k}{rows.value}", "x", ""),
        ("{get: http://web/, check: ['size_bytes == $${rows.value}']}", "x", "expected a number of bytes"),
        ("{get: http://web/, check: ['size_bytes == ${rows.value}']}", "x", ""),
    ],
)
def test_a_reference_is_what_is_written_as_one(folder: Path, reply: str, field: str, says: str) -> None:
    request = reply if reply.startswith("{") else f'"{reply}"'
    told = planned(folder, f"traffic: {{g: {{executor: constant-vus, vus: 1, request: {request}}}}}", field)
    assert says in told if says else told == "", told


def test_a_criterion_that_would_end_a_trial_is_read_whatever_it_holds(folder: Path) -> None:
    assert planned(folder, "abort_if: [web.rss > 2 GiB]", "1") == ""
    assert "is not a criterion" in planned(folder, 'abort_if: ["web.rss > $${a.k}"]', "1")

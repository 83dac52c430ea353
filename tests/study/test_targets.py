"""What a level's field names is looked for as what is written is: in each case, and told at the level's line."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.study import load_study
from svload.watch import monitored_names

STUDY = """\
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
    (STEPS + 'reset: "${a.k}"', "[web, store]", "[web, other]", "runs already"),
    (STEPS + 'restart: ["${a.k}"]', "store", "nobody", "no such service"),
    (STEPS + 'drop_cache: "${a.k}"', "store", "nobody", "no such service"),
    (STEPS + "{warm: '${a.k}', through: web}", "rows", "nobody", "no such feeder"),
    (STEPS + "{warm: rows, through: '${a.k}'}", "web", "nobody", "no such service"),
    ("data: {items: {in: '${a.k}', count: 3, size: 1 KiB}}", "web", "nobody", "no such service"),
    ("feeders: {rows: {range: [1, 3]}, of: {from: '${a.k}'}}", "items", "nobody", "no such set under data"),
    ("feeders: {rows: {range: [1, 3]}, of: {csv: '${a.k}'}}", "c.csv", "no.csv", "a file inside the study's folder"),
    ("feeders: {rows: {range: [1, 3]}, of: {csv: '${a.k}'}}", "c.csv", "../c.csv", "a file inside the study's folder"),
    ("feeders: {rows: {range: [1, 3]}, of: {csv: '${a.k}'}}", "c.csv", "bad.csv", "expected a table"),
)  # fmt: skip


def planned(folder: Path, said: str, field: str) -> str:
    """What a plan of the study tells with `said` in it, whose second level's field is `field`; empty: nothing."""
    section = said.partition(":")[0]
    kept = [line for line in STUDY.splitlines() if line.partition(":")[0] != section]
    text = "\n".join([*kept, said, ""]).replace("FIELDS", f"{{k: {field}}}")
    (folder / "study.yaml").write_text(text)
    (folder / "c.csv").write_text("a,b\n1,2\n")
    (folder / "bad.csv").write_text("a,b\n1\n")
    (folder.parent / "c.csv").write_text("a,b\n1,2\n")
    try:
        load_study(folder, monitored=monitored_names)
    except SvloadError as told:
        return "\n".join(map(str, told.problems))
    return ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (made := tmp_path / "study").mkdir()
    return made


@pytest.mark.parametrize(("said", "good", "bad", "says"), NAMED)
def test_what_a_level_names_is_looked_for(folder: Path, said: str, good: str, bad: str, says: str) -> None:
    assert planned(folder, said, good) == ""
    assert says in planned(folder, said, bad)


@pytest.mark.parametrize(
    ("said", "says"), [(said, says) for said, good, bad, says in NAMED if bad.strip("[]") in ("nobody", "no.csv")]
)  # fmt: skip
def test_the_signs_of_a_reference_are_no_name(folder: Path, said: str, says: str) -> None:
    assert says in planned(folder, said.replace("${", "$${"), "web")


def test_a_name_is_told_where_the_level_says_it(folder: Path) -> None:
    told = planned(folder, STEPS + 'reset: "${a.k}"', "[nobody]")
    assert "study.yaml:4: before_trial[0].reset[0]: no such service: “nobody”" in told, told


@pytest.mark.parametrize("field", ["{executor: constant-vus, vus: 1, request: GET http://web/}", "2", "[1]"])
def test_a_level_cannot_stand_for_a_group(folder: Path, field: str) -> None:
    assert "traffic.h: expected a mapping" in planned(folder, 'traffic: {h: "${a.k}"}', field)


@pytest.mark.parametrize(
    ("said", "field", "says"),
    [
        ("GET http://web/${a.k}{rows.valu}", "$", "What was put in makes it"),
        ("GET http://web/${a.k}{rows.value", "$", "No “}” ends it"),
        ("GET http://web/${a.k}{rows.value}", "x", ""),
        (
            "{get: http://web/, check: ['size_bytes == $${rows.value}']}",
            "x",
            "expected a number of bytes",
        ),
        ("{get: http://web/, check: ['size_bytes == ${rows.value}']}", "x", ""),
    ],
)
def test_a_reference_is_what_is_written_as_one(folder: Path, said: str, field: str, says: str) -> None:
    request = said if said.startswith("{") else f'"{said}"'
    told = planned(folder, f"traffic: {{g: {{executor: constant-vus, vus: 1, request: {request}}}}}", field)
    assert says in told if says else told == "", told


def test_a_criterion_that_would_end_a_trial_is_read_whatever_it_holds(folder: Path) -> None:
    assert planned(folder, "abort_if: [web.rss > 2 GiB]", "1") == ""
    assert "is not a criterion" in planned(folder, 'abort_if: ["web.rss > $${a.k}"]', "1")
